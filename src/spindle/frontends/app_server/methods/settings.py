"""`config/*` and `skills/config/write`: what is configured, where, and changes to the user's own file."""

from __future__ import annotations

import os
from typing import Any, Literal

import msgspec

from spindle.config.locate import split_key
from spindle.config.writing import Edit, Source, VersionConflict, merged, read_layers, write_user_config
from spindle.errors import ConfigError
from spindle.frontends.app_server.method import Call, Method, Nothing
from spindle.frontends.app_server.objects import Wire
from spindle.frontends.app_server.rpc import INVALID_PARAMS, RpcError
from spindle.frontends.launch import flags_from, overrides_from, working_folder

_ALWAYS_THERE = (
    *("model", "review_model", "model_context_window", "model_auto_compact_token_limit", "model_provider"),
    *("approval_policy", "sandbox_mode", "sandbox_workspace_write", "forced_chatgpt_workspace_id"),
    *("forced_login_method", "web_search", "tools", "profile", "instructions", "developer_instructions"),
    *("compact_prompt", "model_reasoning_effort", "model_reasoning_summary", "model_verbosity", "service_tier"),
    "analytics",
)
"""Keys that clients expect also where nothing is set."""


class ConfigReadParams(Wire, frozen=True, kw_only=True):
    include_layers: bool = False
    cwd: str | None = None


class LayerMetadata(Wire, frozen=True, kw_only=True):
    name: dict[str, Any]
    version: str


class ConfigLayer(Wire, frozen=True, kw_only=True):
    name: dict[str, Any]
    version: str
    config: dict[str, Any]
    disabled_reason: str | None = None


class ConfigReadResult(Wire, frozen=True, kw_only=True):
    config: dict[str, Any]
    origins: dict[str, LayerMetadata]
    layers: list[ConfigLayer] | None


class ConfigEdit(Wire, frozen=True, kw_only=True):
    key_path: str
    value: Any = None
    merge_strategy: Literal["replace", "upsert"]


class ConfigValueWriteParams(ConfigEdit, frozen=True, kw_only=True):
    file_path: str | None = None
    expected_version: str | None = None


class ConfigBatchWriteParams(Wire, frozen=True, kw_only=True):
    edits: list[ConfigEdit]
    file_path: str | None = None
    expected_version: str | None = None


class OverriddenMetadata(Wire, frozen=True, kw_only=True):
    message: str
    overriding_layer: LayerMetadata
    effective_value: Any


class ConfigWriteResult(Wire, frozen=True, kw_only=True):
    status: Literal["ok", "okOverridden"]
    version: str
    file_path: str
    overridden_metadata: OverriddenMetadata | None


class ConfigRequirementsResult(Wire, frozen=True, kw_only=True):
    requirements: dict[str, Any] | None


class SkillsConfigWriteParams(Wire, frozen=True, kw_only=True):
    path: str | None = None
    name: str | None = None
    enabled: bool


class SkillsConfigWriteResult(Wire, frozen=True, kw_only=True):
    effective_enabled: bool


# ---- reading ---------------------------------------------------------------------------------------


async def config_read(call: Call, params: ConfigReadParams) -> Wire:
    sources = _sources(call, params.cwd)
    values = merged(sources)
    origins: dict[str, LayerMetadata] = {}
    for source in sources:
        origins |= dict.fromkeys(_leaves(source.values), _metadata(source))
    layers = [
        ConfigLayer(name=_name(source), version=source.version, config=source.values) for source in reversed(sources)
    ]
    return ConfigReadResult(
        config={**dict.fromkeys(_ALWAYS_THERE), **values},
        origins=origins,
        layers=layers if params.include_layers else None,
    )


def _sources(call: Call, cwd: str | None = None) -> list[Source]:
    parsed = call.server.parsed
    flags = {key: value for key, value in flags_from(parsed).items() if key != "add_dirs"}
    return read_layers(working_folder(cwd or call.server.config.cwd), call.server.home, overrides_from(parsed), flags)


def _leaves(values: dict[str, Any], prefix: str = "") -> list[str]:
    found: list[str] = []
    for key, value in values.items():
        found += _leaves(value, f"{prefix}{key}.") if isinstance(value, dict) else [f"{prefix}{key}"]
    return found


def _name(source: Source) -> dict[str, Any]:
    match source.kind:
        case "project":
            return {"type": "project", "dotCodexFolder": os.path.dirname(source.path or "")}
        case "flags":
            return {"type": "sessionFlags"}
        case "user":
            return {"type": "user", "file": source.path, "profile": None}
        case "system":
            return {"type": "system", "file": source.path}


def _metadata(source: Source) -> LayerMetadata:
    return LayerMetadata(name=_name(source), version=source.version)


async def requirements_read(call: Call, params: Nothing) -> Wire:
    """What an administrator allows; null when nothing is limited."""
    config = call.server.config
    limits = {
        "allowedApprovalPolicies": config.allowed_approval_policies,
        "allowedSandboxModes": config.allowed_sandbox_modes,
    }
    is_limited = any(limit is not None for limit in limits.values())
    return ConfigRequirementsResult(
        requirements={key: None if limit is None else list(limit) for key, limit in limits.items()}
        if is_limited
        else None
    )


# ---- writing ---------------------------------------------------------------------------------------


async def value_write(call: Call, params: ConfigValueWriteParams) -> Wire:
    return _write(call, [params], params.file_path, params.expected_version)


async def batch_write(call: Call, params: ConfigBatchWriteParams) -> Wire:
    if not params.edits:
        raise RpcError("edits must not be empty", INVALID_PARAMS)
    return _write(call, params.edits, params.file_path, params.expected_version)


def _write(call: Call, edits: list[Any], file_path: str | None, expected_version: str | None) -> Wire:
    own = f"{call.server.home}/config.toml"
    if file_path is not None and os.path.realpath(file_path) != os.path.realpath(own):
        raise _refusal(f"only {own} can be written", "configLayerReadonly")
    wanted = [Edit(key=edit.key_path, value=edit.value, strategy=edit.merge_strategy) for edit in edits]
    try:
        written = write_user_config(call.server.home, wanted, expected_version)
    except VersionConflict as error:
        raise _refusal(str(error), "configVersionConflict") from error
    except ConfigError as error:
        raise _refusal(str(error), "configValidationError") from error
    call.server.reload()
    overridden = _overridden(call, wanted)
    return ConfigWriteResult(
        status="ok" if overridden is None else "okOverridden",
        version=written.version,
        file_path=own,
        overridden_metadata=overridden,
    )


def _refusal(text: str, code: str) -> RpcError:
    return RpcError(text, data={"config_write_error_code": code})


def _overridden(call: Call, edits: list[Edit]) -> OverriddenMetadata | None:
    """The first of the edits that has no effect because something above the user's file says otherwise."""
    sources = _sources(call)
    above = [source for source in sources if source.kind in ("project", "flags")]
    for edit in edits:
        path = split_key(edit.key)
        for source in reversed(above):
            value = _look_up(source.values, path)
            if value is not msgspec.UNSET and value != edit.value:
                return OverriddenMetadata(
                    message=f"{edit.key} is set by {source.path or 'the command line'}, which comes before config.toml",
                    overriding_layer=_metadata(source),
                    effective_value=_look_up(merged(sources), path),
                )
    return None


def _look_up(values: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        if not isinstance(values, dict) or name not in values:
            return msgspec.UNSET
        values = values[name]
    return values


async def skills_config_write(call: Call, params: SkillsConfigWriteParams) -> Wire:
    """Switch a skill on or off for good, by the path of its SKILL.md or by its name."""
    if (params.path is None) == (params.name is None):
        raise RpcError("a skill is named by path or by name", INVALID_PARAMS)
    skill = {"path": params.path} if params.path is not None else {"name": params.name}
    sources = [source for source in _sources(call) if source.kind == "user"]
    known = merged(sources).get("skills", {}).get("config", [])
    others = [entry for entry in known if not skill.items() <= entry.items()]
    # A skill is on unless something says otherwise.
    entries = others if params.enabled else [*others, {**skill, "enabled": False}]
    write_user_config(call.server.home, [Edit(key="skills.config", value=entries or None)])
    call.server.reload()
    call.server.runtime.tell_of_skills()
    return SkillsConfigWriteResult(effective_enabled=params.enabled)


METHODS = (
    Method(name="config/read", params=ConfigReadParams, result=ConfigReadResult, run=config_read),
    Method(name="config/value/write", params=ConfigValueWriteParams, result=ConfigWriteResult, run=value_write),
    Method(name="config/batchWrite", params=ConfigBatchWriteParams, result=ConfigWriteResult, run=batch_write),
    Method(name="configRequirements/read", params=Nothing, result=ConfigRequirementsResult, run=requirements_read),
    Method(
        name="skills/config/write",
        params=SkillsConfigWriteParams,
        result=SkillsConfigWriteResult,
        run=skills_config_write,
    ),
)
