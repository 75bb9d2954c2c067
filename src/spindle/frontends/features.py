"""`spindle features list | enable | disable`: the feature flags and their place in config.toml."""

from __future__ import annotations

from spindle.config.keys import FEATURES
from spindle.config.writing import Edit, merged, read_layers, write_user_config
from spindle.errors import ConfigError
from spindle.frontends.launch import config_from, home_from, overrides_from, unknown_feature
from spindle.frontends.options import Parsed
from spindle.frontends.terminal import STDOUT, columns_of

UNUSED = "unused"
"""The stage of a flag that Codex knows and that has no effect in Spindle."""


def run(parsed: Parsed, words: list[str]) -> int:
    action = parsed.command[1]
    return _list(parsed) if action == "list" else _switch(words[0], is_on=action == "enable")


def _list(parsed: Parsed) -> int:
    config = config_from(parsed)
    set_by_user = merged(read_layers(config.cwd, config.home, overrides_from(parsed))).get("features", {})
    of_codex = {name: value for name, value in set_by_user.items() if isinstance(value, bool)}
    values = of_codex | config.features
    rows = [(name, FEATURES[name][0] if name in FEATURES else UNUSED, values[name]) for name in sorted(values)]
    name_width = max(len(name) for name, _, _ in rows)
    stage_width = max(len(stage) for _, stage, _ in rows)
    width = columns_of(STDOUT)
    is_narrow = width is not None and width < name_width + stage_width + len("    false")
    for name, stage, value in rows:
        start = f"{name}\n" if is_narrow else f"{name:<{name_width}}"
        print(f"{start}  {stage:<{stage_width}}  {str(value).lower()}")
    return 0


def _switch(name: str, *, is_on: bool) -> int:
    if (problem := unknown_feature(name)) is not None:
        raise ConfigError(problem)
    write_user_config(home_from(), [Edit(key=f"features.{name}", value=is_on)])
    print(f"{'Enabled' if is_on else 'Disabled'} feature `{name}` in config.toml.")
    if name not in FEATURES:
        print(f"`{name}` is a feature of Codex; in Spindle it has no effect.")
    return 0
