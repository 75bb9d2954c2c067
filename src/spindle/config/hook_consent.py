"""Writing a person's consent to hooks into their config.toml, in the place where the reference program keeps it too.

Only whole `[hooks.state."KEY"]` tables are added or taken away; whatever else stands in the file stays as it is, byte
for byte, or nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from spindle.config.locate import split_key
from spindle.config.sources import parse_toml, read_text
from spindle.errors import ConfigError
from spindle.protocol.hooks import Hook
from spindle.thread.private_files import make_private_folders, replace_private
from spindle.workspace.files import shown


def give_consent(home: str, hooks: Iterable[Hook]) -> None:
    """From now on these hooks may run, as they are now."""
    _rewrite(home, {hook.key: {"trusted_hash": hook.hash} for hook in hooks})


def take_consent_back(home: str, keys: Iterable[str]) -> None:
    _rewrite(home, dict.fromkeys(keys))


def _rewrite(home: str, wanted: Mapping[str, dict[str, str] | None]) -> None:
    path = f"{home}/config.toml"
    text = read_text(path, "configuration file") or ""
    before = parse_toml(text, shown(path))
    new = _without_tables(text, wanted)
    for key, table in wanted.items():
        if table is not None:
            new += "" if not new or new.endswith("\n\n") else "\n" if new.endswith("\n") else "\n\n"
            new += f"[hooks.state.{_quoted(key)}]\n" + "".join(f"{name} = {_quoted(v)}\n" for name, v in table.items())
    if _stripped(parse_toml(new, shown(path)), wanted, gone=False) != _stripped(before, wanted, gone=True):
        raise ConfigError(f"{shown(path)}: [hooks.state] is written in a way that only you can change")
    make_private_folders(home, home)
    replace_private(path, new.encode())


def _without_tables(text: str, keys: Iterable[str]) -> str:
    """The text without the tables of these keys; comments before the next table go with neither."""
    kept: list[str] = []
    is_dropped = False
    headers = {("hooks", "state", key) for key in keys}
    for line in text.splitlines(keepends=True):
        word = line.strip()
        if word.startswith("["):
            is_dropped = split_key(word.strip("[").rpartition("]")[0].rstrip("]")) in headers
        if not is_dropped:
            kept.append(line)
    return "".join(kept)


def _stripped(values: dict[str, Any], wanted: Mapping[str, dict[str, str] | None], *, gone: bool) -> Any:
    """All the file says, but for the consent in question; that must then be exactly as wanted."""
    hooks = dict(values.get("hooks", {}))
    state = dict(hooks.pop("state", {}))
    for key, table in wanted.items():
        found = state.pop(key, None)
        if not gone and found != table:
            state[key] = found
    rest = {key: value for key, value in values.items() if key != "hooks"}
    return rest, hooks, state


def _quoted(text: str) -> str:
    escapes = {"\\": "\\\\", '"': '\\"'}
    return '"' + "".join(escapes.get(c, c if c.isprintable() else f"\\U{ord(c):08x}") for c in text) + '"'
