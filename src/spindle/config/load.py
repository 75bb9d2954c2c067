"""Files, environment and flags → `Config`. Read this first: the order of `load_config` is the order of precedence."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from spindle.config.keys import FEATURES, KEYS
from spindle.config.kinds import Layer, resolve_path
from spindle.config.policies import Policies, Requirements, defaults_for, read_requirements, resolve_policies
from spindle.config.project_layer import Project, drop_files_elsewhere, drop_forbidden, drop_loosening
from spindle.config.protective import refuse_what_protects
from spindle.config.providers import build_providers, check_url, choose_provider
from spindle.config.reading import LayerReader
from spindle.config.schema import Config
from spindle.config.sources import merge, overrides_layer, read_layer, read_text, resolve_home
from spindle.config.spindle_table import build_spindle, build_tui
from spindle.config.trust import find_trust
from spindle.errors import ConfigError
from spindle.model.provider import Provider
from spindle.policy.environment import EnvironmentPolicy


class LoadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How the configuration is read, apart from what stands in it."""

    headless: bool = False
    """Nobody can answer: approval is `never`, and the sandbox is read-only unless a layer says otherwise."""
    strict: bool = False
    """An unknown key is an error."""
    ignore_user_config: bool = False
    ignore_rules: bool = False
    """Of all `.rules` files, only the administrator's count."""
    skip_hook_consent: bool = False
    """Hooks of a trusted project run although nobody has agreed to each of them."""


_AS_WRITTEN = LoadOptions()


def load_config(
    *,
    cwd: str,
    env: Mapping[str, str],
    overrides: Sequence[str] = (),
    config: Mapping[str, Any] | None = None,
    flags: Mapping[str, Any] | None = None,
    profile: str | None = None,
    options: LoadOptions = _AS_WRITTEN,
    system_dir: str = "/etc/codex",
) -> Config:
    """Everything the user decided, for work in `cwd`.

    `overrides` are the `-c` strings; `config` is the same from a client, already parsed; `flags` holds typed top-level
    keys of the command line, and `add_dirs`; `profile` names a profile.
    """
    cwd = os.path.abspath(cwd)
    home = resolve_home(env)
    reader = LayerReader(strict=options.strict)
    own = _own_values(reader, system_dir, None if options.ignore_user_config else home)
    typed = dict(flags or {})
    extra_roots = [resolve_path(path, cwd) for path in typed.pop("add_dirs", ())]
    above = [overrides_layer(overrides, config or {}, cwd), Layer(label="command line", folder=cwd, values=typed)]
    above = _checked_above(above, own, profile, home, reader)

    project = _project_of(cwd, home, _merged(own, above, {}))
    if project.trust.problem is not None:
        reader.warnings.append(project.trust.problem)
    defaults = defaults_for(project.trust, headless=options.headless)
    merged = _merged(_with_project(own, project, defaults, reader), above, reader.origins)
    for layer in above:
        reader.note_profile(layer)
    merged["add_dirs"] = extra_roots
    merged["mcp_project_files"] = reader.project_servers

    limits = read_requirements(system_dir)
    in_use = reader.permissions(merged)
    policies = resolve_policies(
        merged, defaults, limits, profile=in_use, headless=options.headless, warnings=reader.warnings
    )
    if not limits.login_shell:
        merged["allow_login_shell"] = False
    providers = build_providers(merged, reader.origins, env, reader.warnings)
    provider_id = merged.get("model_provider") or "openai"
    provider = choose_provider(provider_id, providers, reader.origins.get("model_provider", "default"))
    if "instructions" in merged:
        reader.warnings.append("`instructions` is ignored; use developer_instructions or an AGENTS.md file")
    if merged.get("features", {}).get("exec_policy", FEATURES["exec_policy"][1]):
        merged["rule_folders"] = project.rule_folders(system_dir, only_system=options.ignore_rules)
    if options.strict:
        reader.warn_of_idle_keys()
    refuse_what_protects(merged, reader.place)
    merged["hooks"] = reader.hooks(merged.get("features", {}), skip_consent=options.skip_hook_consent)
    return _build(merged, project, policies, limits, provider, providers, reader)


def read_values(
    *,
    cwd: str,
    env: Mapping[str, str],
    overrides: Sequence[str] = (),
    flags: Mapping[str, Any] | None = None,
    profile: str | None = None,
    system_dir: str = "/etc/codex",
) -> dict[str, Any]:
    """What the user's own files, profile and options come to, as tables of keys; without hooks, and without a project.

    For a program that hands them on as data: laid over the files of another machine, they make the same `Config`.
    """
    home, reader = resolve_home(env), LayerReader(strict=False)
    own = _own_values(reader, system_dir, home)
    above = [overrides_layer(overrides, {}, cwd), Layer(label="command line", folder=cwd, values=dict(flags or {}))]
    return _merged(own, _checked_above(above, own, profile, home, reader), {})


def _own_values(reader: LayerReader, system_dir: str, home: str | None) -> dict[str, Any]:
    """The administrator's file and the user's, merged."""
    own: dict[str, Any] = {}
    for folder, source in ((system_dir, "system"), (home, "user")):
        if folder is None:
            continue
        reader.take_hook_file(f"{folder}/hooks.json", source)
        if (layer := read_layer(f"{folder}/config.toml")) is not None:
            reader.take_hooks(layer, source, f"{folder}/config.toml")
            reader.check(layer, KEYS)
            reader.note_profile(layer)
            merge(own, layer, reader.origins)
    return own


def _checked_above(
    layers: list[Layer], own: Mapping[str, Any], profile: str | None, home: str, reader: LayerReader
) -> list[Layer]:
    """What outweighs the files, lowest precedence first: the profile, then `layers` (overrides, then flags)."""
    for layer in layers:
        reader.take_hooks(layer, "sessionFlags")
        reader.check(layer, KEYS)
    overrides = layers[0].values
    profile = profile or overrides.get("profile") or own.get("profile")
    if not profile:
        return layers
    chosen = reader.profile(profile, home, own, overrides)
    reader.take_hooks(chosen, "user", f"{home}/{profile}.config.toml")
    return [chosen, *layers]


def _project_of(cwd: str, home: str, settled: Mapping[str, Any]) -> Project:
    """The project around `cwd`. No file of its own has a say in whether it is trusted, or in where it begins."""
    trust = find_trust(cwd, settled.get("projects", {}))
    return Project(cwd=cwd, home=home, trust=trust, root_markers=settled.get("project_root_markers", (".git",)))


def _with_project(
    own: Mapping[str, Any], project: Project, defaults: tuple[str, str], reader: LayerReader
) -> dict[str, Any]:
    """The user's values and, over them, those of the project's files that a project may set."""
    merged = _merged(own, (), {})
    for layer in project.layers(reader.warnings):
        drop_forbidden(layer, reader.warnings)
        reader.check(layer, KEYS)
        drop_loosening(layer, own, defaults, reader.warnings, uses_profile=reader.uses_profile)
        drop_files_elsewhere(layer, project, own, reader.warnings)
        reader.note_profile(layer)
        reader.project_servers |= dict.fromkeys(layer.values.get("mcp_servers", ()), layer.label)
        merge(merged, layer, reader.origins)
    for path in project.hook_files(reader.warnings):
        reader.take_hook_file(path, "project")
    return merged


def _merged(base: Mapping[str, Any], layers: Sequence[Layer], origins: dict[str, str]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    merge(result, Layer(label="", folder="", values=dict(base)), {})
    for layer in layers:
        merge(result, layer, origins)
    return result


def _build(
    merged: dict[str, Any],
    project: Project,
    policies: Policies,
    limits: Requirements,
    provider: Provider,
    providers: dict[str, Provider],
    reader: LayerReader,
) -> Config:
    """Keys that mean what they say are passed on by name; the others are worked out here."""
    plain: dict[str, Any] = {
        name: tuple(value) if isinstance(value := merged[name], list) else value
        for name in Config.__struct_fields__
        if name in merged
    }
    skills, agents, history = merged.get("skills", {}), merged.get("agents", {}), merged.get("history", {})
    tools, chatgpt = merged.get("tools", {}), merged.get("chatgpt_base_url")
    worked_out: dict[str, Any] = {
        "home": project.home,
        "cwd": project.cwd,
        "provider": provider,
        "providers": providers,
        "trust_level": project.trust.level,
        "warnings": reader.warnings,
        "idle_keys": tuple(dict.fromkeys(reader.idle)),
        "origins": reader.origins,
        "model": merged.get("model") or None,
        "base_instructions": _instructions(merged),
        "compact_prompt": _compact_prompt(merged),
        "approval_policy": policies.approval,
        "granular": policies.granular,
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
        "chatgpt_base_url": check_url(chatgpt, "chatgpt_base_url") if chatgpt else None,
        "forced_chatgpt_workspace_id": _workspaces(merged.get("forced_chatgpt_workspace_id", ())),
        "log_dir": merged.get("log_dir") or f"{project.home}/log",
        "agents_max_threads": agents.get("max_threads", 6),
        "agents_max_depth": agents.get("max_depth", 1),
        "agent_roles": _agent_roles(agents, reader.warnings),
        "disable_paste_burst": _is_burst_typing(merged),
        "tui": build_tui(merged.get("tui", {}), merged.get("spindle", {}).get("tui", {})),
        "spindle": build_spindle(merged.get("spindle", {})),
    }
    return Config(**{**plain, **worked_out})


def _is_burst_typing(merged: Mapping[str, Any]) -> bool:
    """The key has two places; whoever set one of them means it."""
    return bool(merged.get("disable_paste_burst") or merged.get("tui", {}).get("disable_paste_burst"))


def _workspaces(given: str | Sequence[Any]) -> tuple[str, ...]:
    found = (given,) if isinstance(given, str) else tuple(given)
    if not all(isinstance(name, str) for name in found):
        raise ConfigError("forced_chatgpt_workspace_id must be a string or an array of strings")
    return tuple(name.strip() for name in found if name.strip())


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
