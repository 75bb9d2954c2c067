"""Files, environment and flags → `Config`. Read this first: the order of `load_config` is the order of precedence."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from spindle.config.keys import FEATURES, KEYS, PROFILE
from spindle.config.kinds import Layer, Table, check_layer, describe, dotted, idle_keys, resolve_path
from spindle.config.policies import Policies, Requirements, defaults_for, read_requirements, resolve_policies
from spindle.config.project_layer import (
    drop_forbidden,
    drop_loosening,
    project_hook_files,
    project_layers,
    rule_folders,
)
from spindle.config.protective import refuse_what_protects
from spindle.config.providers import build_providers, choose_provider
from spindle.config.schema import Config
from spindle.config.sources import merge, overrides_layer, read_layer, read_text, resolve_home
from spindle.config.spindle_table import build_spindle
from spindle.config.trust import Trust, find_trust
from spindle.errors import ConfigError
from spindle.model.provider import Provider
from spindle.policy.environment import EnvironmentPolicy
from spindle.protocol.quote import visible
from spindle.workspace.files import is_regular

_MAX_UNKNOWN_KEYS = 10


def load_config(
    *,
    cwd: str,
    env: Mapping[str, str],
    overrides: Sequence[str] = (),
    flags: Mapping[str, Any] | None = None,
    profile: str | None = None,
    ignore_user_config: bool = False,
    strict: bool = False,
    headless: bool = False,
    ignore_rules: bool = False,
    skip_hook_consent: bool = False,
    config: Mapping[str, Any] | None = None,
    system_dir: str = "/etc/codex",
) -> Config:
    """Everything the user decided, for work in `cwd`.

    `overrides` are the `-c` strings; `config` is the same from a client, already parsed; `flags` holds typed top-level
    keys of the command line, and `add_dirs`. `headless`: nobody can answer, so approval is `never` and the sandbox
    read-only unless said otherwise. `strict`: an unknown key is an error. `ignore_rules`: no `.rules` files but the
    administrator's. `skip_hook_consent`: hooks of a trusted project run without a look at each of them.
    """
    cwd = os.path.abspath(cwd)
    home = resolve_home(env)
    reader = _Reader(strict)
    own: dict[str, Any] = {}
    uses_profile: bool | None = None
    for folder, source in ((system_dir, "system"), *(() if ignore_user_config else ((home, "user"),))):
        reader.take_hook_file(f"{folder}/hooks.json", source)
        if (layer := read_layer(f"{folder}/config.toml")) is not None:
            reader.take_hooks(layer, source, f"{folder}/config.toml")
            reader.check(layer, KEYS)
            uses_profile = _says_profile(layer, uses_profile)
            merge(own, layer, reader.origins)

    above = [overrides_layer(overrides, config or {}, cwd)]
    flag_values = dict(flags or {})
    extra_roots = [resolve_path(path, cwd) for path in flag_values.pop("add_dirs", ())]
    above.append(Layer(label="command line", folder=cwd, values=flag_values))
    for layer in above:
        reader.take_hooks(layer, "sessionFlags")
        reader.check(layer, KEYS)
    profile = profile or above[0].values.get("profile") or own.get("profile")
    if profile:
        above.insert(0, reader.profile(profile, home, own, above[0].values))
        reader.take_hooks(above[0], "user", f"{home}/{profile}.config.toml")

    without_project = _merged(own, above, {})
    trust = find_trust(cwd, without_project.get("projects", {}))
    defaults = defaults_for(trust, headless=headless)
    markers = without_project.get("project_root_markers", (".git",))
    merged = _merged(own, (), {})
    described: dict[str, str] = {}
    for layer in project_layers(cwd, home, trust, markers, reader.warnings):
        drop_forbidden(layer, reader.warnings)
        reader.check(layer, KEYS)
        drop_loosening(layer, own, defaults, reader.warnings, uses_profile=bool(uses_profile))
        uses_profile = _says_profile(layer, uses_profile)
        described |= dict.fromkeys(layer.values.get("mcp_servers", ()), layer.label)
        merge(merged, layer, reader.origins)
    for path in project_hook_files(cwd, home, trust, markers, reader.warnings):
        reader.take_hook_file(path, "project")
    for layer in above:
        uses_profile = _says_profile(layer, uses_profile)
    merged = _merged(merged, above, reader.origins)
    merged["add_dirs"] = extra_roots
    merged["mcp_project_files"] = described

    limits = read_requirements(system_dir)
    policies = resolve_policies(
        merged,
        defaults,
        limits,
        profile=reader.permissions(merged, uses_profile),
        headless=headless,
        warnings=reader.warnings,
    )
    if not limits.login_shell:
        merged["allow_login_shell"] = False
    providers = build_providers(merged, reader.origins, env, reader.warnings)
    provider_id = merged.get("model_provider") or "openai"
    provider = choose_provider(provider_id, providers, reader.origins.get("model_provider", "default"))
    if "instructions" in merged:
        reader.warnings.append("`instructions` is ignored; use developer_instructions or an AGENTS.md file")
    if merged.get("features", {}).get("exec_policy", FEATURES["exec_policy"][1]):
        merged["rule_folders"] = rule_folders(cwd, home, trust, markers, system_dir, only_system=ignore_rules)
    if strict and reader.idle:
        names = list(dict.fromkeys(reader.idle))
        what = "this key has" if len(names) == 1 else "these keys have"
        reader.warnings.append(f"{what} no effect in Spindle: {', '.join(names)}")
    refuse_what_protects(merged, reader.place)
    merged["hooks"] = reader.hooks(merged.get("features", {}), skip_consent=skip_hook_consent)
    return _build(merged, home, cwd, trust, policies, limits, provider, providers, reader)


class _Reader:
    """Checks layers and gathers what is to be said about them."""

    def __init__(self, strict: bool) -> None:
        self.strict = strict
        self.warnings: list[str] = []
        self.origins: dict[str, str] = {}
        self.idle: list[str] = []
        self._layers: dict[str, Layer] = {}
        self._unknown: dict[str, int] = {}
        self._hook_tables: list[tuple[str, str, Any]] = []
        self._hook_files: list[tuple[str, Any]] = []

    def take_hooks(self, layer: Layer, source: str, path: str = "") -> None:
        """The hooks of one layer are added to those of the others, never replaced by them."""
        if (table := layer.values.pop("hooks", None)) is not None:
            if not isinstance(table, dict):
                raise ConfigError(f"{layer.place(('hooks',))}: hooks must be a table, found {describe(table)}")
            self._hook_tables.append((path, source, table))

    def take_hook_file(self, path: str, source: str) -> None:
        if is_regular(path):
            self._hook_files.append((path, source))

    def hooks(self, features: Mapping[str, Any], *, skip_consent: bool) -> tuple[Any, ...]:
        is_on = features.get("hooks", features.get("codex_hooks", FEATURES["hooks"][1]))
        if not is_on or not (self._hook_tables or self._hook_files):
            return ()
        from spindle.config.hook_files import SESSION_FLAGS, HookTable, build_hooks  # only for those who have any

        tables = [
            HookTable(path=path or SESSION_FLAGS, source=source, table=table)  # pyright: ignore[reportArgumentType]
            for path, source, table in self._hook_tables
        ]
        return build_hooks(tables, self._hook_files, self.warnings, skip_consent=skip_consent)

    def check(self, layer: Layer, table: Table) -> None:
        check_layer(layer, table, self._on_unknown)
        self._layers[layer.label] = layer
        self.idle += idle_keys(layer.values, table)
        if "permissions" in layer.values:
            from spindle.config.permissions import resolve_roots  # only for those who have profiles

            resolve_roots(layer)
        if (count := self._unknown.get(layer.label, 0)) > _MAX_UNKNOWN_KEYS:
            more = count - _MAX_UNKNOWN_KEYS
            self.warnings.append(f"{layer.label}: {more} more unknown key{'s' if more > 1 else ''}")

    def _on_unknown(self, layer: Layer, path: tuple[str, ...], known: Mapping[str, Any]) -> None:
        import difflib  # only when something is wrong

        self._unknown[layer.label] = count = self._unknown.get(layer.label, 0) + 1
        if count > _MAX_UNKNOWN_KEYS and not self.strict:
            return
        near = difflib.get_close_matches(path[-1], known, n=1)
        hint = f"; did you mean {dotted((*path[:-1], near[0]))}?" if near else ""
        message = f"{layer.place(path)}: unknown key {dotted(path)}{hint}"
        if self.strict:
            raise ConfigError(message)
        self.warnings.append(message)

    def place(self, path: tuple[str, ...]) -> str:
        """Where a value of the merged configuration was set: the file and the line, as near as can be."""
        name = dotted(path)
        layer = self._layers.get(self.origins.get(name, ""))
        if layer is None:  # a table: whoever has it
            layer = next((one for one in self._layers.values() if one.has(path)), None)
        return layer.place(path) if layer is not None else "configuration"

    def permissions(self, merged: Mapping[str, Any], uses_profile: bool | None) -> Any:
        """The policy of the permission profile in use; None when a mode is."""
        tables, name = merged.get("permissions") or {}, merged.get("default_permissions")
        if not tables and (name is None or not uses_profile):
            return None
        from spindle.config import permissions  # only for those who have profiles

        permissions.check_profiles(tables, self.place)
        if uses_profile is None:
            raise ConfigError(
                f"{self.place(('permissions',))}: there are permission profiles, and nothing says which one is used; "
                f"set default_permissions to one of {', '.join(permissions.profile_names(tables))}"
            )
        policy = None
        if name is not None:
            policy = permissions.policy_of(name, tables, self.place, add_dirs=tuple(merged["add_dirs"]))
        if uses_profile:
            return policy
        if policy is not None and policy.permissions is not None and policy.permissions.denies:
            self.warnings.append(
                f"the permission profile {name!r} is not in use because sandbox_mode is set by "
                f"{self.origins.get('sandbox_mode', 'a flag')}; what it denies can be read"
            )
        return None

    def profile(self, name: str, home: str, own: Mapping[str, Any], overrides: Mapping[str, Any]) -> Layer:
        """The table `[profiles.NAME]`, else the file NAME.config.toml."""
        table: dict[str, Any] = {}
        tables = [source.get("profiles", {}).get(name) for source in (own, overrides)]
        for found in tables:
            if isinstance(found, dict):
                merge(table, Layer(label="", folder="", values=found), {})
        if any(isinstance(found, dict) for found in tables):
            return Layer(label=f"profile {name}", folder=home, values=table)
        if "/" not in name and name.isprintable():
            layer = read_layer(f"{home}/{name}.config.toml")
            if layer is not None:
                self.check(layer, PROFILE)
                return layer
        raise ConfigError(
            f"profile {name!r} not found: there is neither a table [profiles.{dotted((name,))}] in {home}/config.toml "
            f"nor a file {visible(name)}.config.toml in {home}"
        )


def _says_profile(layer: Layer, before: bool | None) -> bool | None:
    """Does a permission profile count now, or a mode? The last layer that names either decides; None = none did."""
    if "default_permissions" in layer.values:
        return True
    return False if "sandbox_mode" in layer.values else before


def _merged(base: Mapping[str, Any], layers: Sequence[Layer], origins: dict[str, str]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    merge(result, Layer(label="", folder="", values=dict(base)), {})
    for layer in layers:
        merge(result, layer, origins)
    return result


def _build(
    merged: dict[str, Any],
    home: str,
    cwd: str,
    trust: Trust,
    policies: Policies,
    limits: Requirements,
    provider: Provider,
    providers: dict[str, Provider],
    reader: _Reader,
) -> Config:
    """Keys that mean what they say are passed on by name; the others are worked out here."""
    plain: dict[str, Any] = {
        name: tuple(value) if isinstance(value := merged[name], list) else value
        for name in Config.__struct_fields__
        if name in merged
    }
    skills, agents, history = merged.get("skills", {}), merged.get("agents", {}), merged.get("history", {})
    tools = merged.get("tools", {})
    worked_out: dict[str, Any] = {
        "home": home,
        "cwd": cwd,
        "provider": provider,
        "providers": providers,
        "trust_level": trust.level,
        "warnings": reader.warnings,
        "idle_keys": tuple(dict.fromkeys(reader.idle)),
        "origins": reader.origins,
        "model": merged.get("model") or None,
        "base_instructions": _instructions(merged),
        "compact_prompt": _compact_prompt(merged),
        "approval_policy": policies.approval,
        "sandbox": policies.sandbox,
        "workspace_write": policies.workspace_write,
        "allowed_approval_policies": policies.allowed_approval,
        "allowed_sandbox_modes": policies.allowed_sandbox,
        "rule_folders": merged.get("rule_folders", ()),
        "environment": _environment(merged.get("shell_environment_policy", {})),
        "skills_include_instructions": skills.get("include_instructions", True),
        "disabled_skills": _disabled_skills(skills.get("config", ())),
        "web_search": limits.search_mode(
            _web_search(merged, policies.sandbox.is_full_access), is_full_access=policies.sandbox.is_full_access
        ),
        "view_image": tools.get("view_image", True),
        "update_plan": tools.get("update_plan", {}).get("enabled", True),
        "features": _features(merged.get("features", {})),
        "mcp_servers": _mcp_servers(merged, reader.origins),
        "history_persistence": history.get("persistence", "save-all"),
        "history_max_bytes": history.get("max_bytes"),
        "log_dir": merged.get("log_dir") or f"{home}/log",
        "agents_max_threads": agents.get("max_threads", 6),
        "agents_max_depth": agents.get("max_depth", 1),
        "agent_roles": _agent_roles(agents, reader.warnings),
        "tui": tui if isinstance(tui := merged.get("tui", {}), dict) else {},
        "spindle": build_spindle(merged.get("spindle", {})),
    }
    return Config(**{**plain, **worked_out})


def _instructions(merged: Mapping[str, Any]) -> str | None:
    for key in ("model_instructions_file", "experimental_instructions_file"):
        if key in merged:
            return _required_text(merged[key], key)
    return None


def _compact_prompt(merged: Mapping[str, Any]) -> str | None:
    if prompt := merged.get("compact_prompt", "").strip():
        return prompt
    path = merged.get("experimental_compact_prompt_file")
    return _required_text(path, "experimental_compact_prompt_file") if path else None


def _required_text(path: str, key: str) -> str:
    text = read_text(path, key)
    if text is None:
        raise ConfigError(f"{key}: there is no file {path!r}")
    if not text.strip():
        raise ConfigError(f"{key}: the file {path!r} is empty")
    return text.strip()


def _environment(table: Mapping[str, Any]) -> EnvironmentPolicy:
    return EnvironmentPolicy(
        inherit=table.get("inherit", "all"),
        ignore_default_excludes=table.get("ignore_default_excludes"),
        exclude=tuple(table.get("exclude", ())),
        set=dict(table.get("set", {})),
        include_only=tuple(table.get("include_only", ())),
    )


def _disabled_skills(entries: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The last entry about a skill decides."""
    enabled = {entry.get("path") or entry.get("name"): entry.get("enabled", True) for entry in entries}
    return tuple(skill for skill, on in enabled.items() if skill and not on)


def _web_search(merged: Mapping[str, Any], is_full_access: bool) -> str:
    """The key itself, else its old spellings, else cached (live where nothing is fenced in anyway)."""
    if "web_search" in merged:
        return merged["web_search"]
    features = merged.get("features", {})
    if features.get("web_search_cached"):
        return "cached"
    if features.get("web_search_request"):
        return "live"
    old = merged.get("tools", {}).get("web_search")
    if isinstance(old, bool):
        return "live" if old else "disabled"
    return "live" if is_full_access else "cached"


def _features(table: Mapping[str, Any]) -> dict[str, bool]:
    return {name: table.get(name, default) for name, (_, default) in FEATURES.items()}


def _mcp_servers(merged: Mapping[str, Any], origins: Mapping[str, str]) -> dict[str, Any]:
    tables = merged.get("mcp_servers")
    if not tables:
        return {}
    from spindle.config.mcp_servers import build_mcp_servers  # only for those who have any

    return build_mcp_servers(tables, origins, merged.get("mcp_project_files", {}))


def _agent_roles(agents: Mapping[str, Any], warnings: list[str]) -> dict[str, Any]:
    if not any(isinstance(entry, dict) for entry in agents.values()):
        return {}
    from spindle.config.roles import build_roles  # only for those who have any

    return build_roles(agents, warnings)
