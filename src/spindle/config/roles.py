"""`[agents.NAME]` tables → the roles that sub-agents can have.

A role's `config_file` is read when the program starts, so that nothing an agent writes later changes it. The table wins
over the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from spindle.config.keys import PROFILE
from spindle.config.kinds import check_layer
from spindle.config.schema import Config
from spindle.config.sources import read_layer
from spindle.errors import ConfigError
from spindle.protocol.settings import SANDBOX_MODES, AgentRole, ThreadSettings

_FROM_FILE = ("instructions", "developer_instructions", "model", "model_reasoning_effort", "sandbox_mode")


def build_roles(agents: Mapping[str, Any], warnings: list[str]) -> dict[str, AgentRole]:
    """The roles in the order of their names: the model sees the list, and its bytes must not vary."""
    tables = {name: table for name, table in sorted(agents.items()) if isinstance(table, dict)}
    return {name: _role(name, table, warnings) for name, table in tables.items()}


def config_for_agent(config: Config, settings: ThreadSettings, role: AgentRole | None, preface: str) -> Config:
    """The configuration of a sub-agent: the person's, but for what its parent's turn and its role decide."""
    told = (config.developer_instructions, preface, role.instructions if role else "")
    return msgspec.structs.replace(
        config,
        cwd=settings.cwd,
        model=settings.model,
        approval_policy=settings.approval_policy,
        granular=settings.granular,
        sandbox=settings.sandbox,
        developer_instructions="\n\n".join(part for part in told if part),
        notify=(),  # a person hears when their own turn is done
        warnings=[],
    )


def _role(name: str, table: Mapping[str, Any], warnings: list[str]) -> AgentRole:
    given = {**_file_values(name, table.get("config_file"), warnings), **table}
    instructions = given.get("instructions") or given.get("developer_instructions") or ""
    return AgentRole(
        name=name,
        description=str(given.get("description", "")).strip(),
        instructions=str(instructions).strip(),
        model=given.get("model") or None,
        effort=given.get("model_reasoning_effort"),
        sandbox_mode=given.get("sandbox_mode"),
    )


def mode_in_file(path: str) -> str | None:
    """The sandbox mode that a role's file sets; what makes no sense there is told when the role is built."""
    layer = read_layer(path)
    mode = None if layer is None else layer.values.get("sandbox_mode")
    return mode if mode is None or mode in SANDBOX_MODES else SANDBOX_MODES[0]


def _file_values(name: str, path: str | None, warnings: list[str]) -> dict[str, Any]:
    if path is None:
        return {}
    layer = read_layer(path)
    if layer is None:
        raise ConfigError(f"agents.{name}.config_file: there is no file {path!r}")
    description = layer.values.pop("description", "")
    for key in ("default_permissions", "permissions"):
        if key in layer.values:
            raise ConfigError(
                f"{layer.place((key,))}: {key} cannot be set for a role of sub-agents, which have the profile of their "
                "parent; use sandbox_mode to take rights away"
            )
    check_layer(layer, PROFILE, lambda *_: None)
    if unused := sorted(set(layer.values) - set(_FROM_FILE)):
        verb = "has" if len(unused) == 1 else "have"
        warnings.append(f"{layer.label}: {', '.join(unused)} {verb} no effect for a role of sub-agents")
    return {"description": description, **{key: layer.values[key] for key in _FROM_FILE if key in layer.values}}
