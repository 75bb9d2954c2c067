"""The `[mcp_servers]` tables as structs. Loaded only when there are any."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spindle.config.kinds import dotted
from spindle.errors import ConfigError
from spindle.mcp.spec import McpServer

_SAME = ("command", "cwd", "url", "bearer_token_env_var", "enabled", "required", "default_tools_approval_mode")
_SAME += ("supports_parallel_tool_calls",)
_ARRAYS = ("args", "enabled_tools", "disabled_tools", "scopes")
_MAPS = ("env", "http_headers", "env_http_headers")


def build_mcp_servers(
    tables: Mapping[str, Mapping[str, Any]], origins: Mapping[str, str], project_files: Mapping[str, str] | None = None
) -> dict[str, McpServer]:
    """`project_files` names, by server, the project's file that has a say in an entry."""
    described = project_files or {}
    return {name: _server(name, table, origins, described.get(name)) for name, table in tables.items()}


def _server(name: str, table: Mapping[str, Any], origins: Mapping[str, str], project_file: str | None) -> McpServer:
    prefix = dotted(("mcp_servers", name))
    origin = next((label for key, label in origins.items() if key.startswith(f"{prefix}.")), "configuration")
    where = f"{origin}: {prefix}"
    if not name.isascii() or not name.replace("-", "").replace("_", "").isalnum():
        raise ConfigError(f"{where}: the name of a server may hold only letters, digits, `-` and `_`")
    if "bearer_token" in table:
        raise ConfigError(
            f"{where}.bearer_token is not allowed; put it into a variable and name it in bearer_token_env_var"
        )
    if bool(table.get("command")) == bool(table.get("url")):
        raise ConfigError(f"{where} needs either a command or a url")
    fields: dict[str, Any] = {key: table[key] for key in _SAME if key in table}
    fields |= {key: tuple(table[key]) for key in _ARRAYS if key in table}
    fields |= {key: dict(table[key]) for key in _MAPS if key in table}
    if "env_vars" in table:
        fields["env_vars"] = _variable_names(table["env_vars"], where)
    if "startup_timeout_sec" in table:
        fields["startup_timeout_s"] = float(table["startup_timeout_sec"])
    elif "startup_timeout_ms" in table:
        fields["startup_timeout_s"] = table["startup_timeout_ms"] / 1000
    if "tools" in table:
        modes = {name: tool.get("approval_mode") for name, tool in sorted(table["tools"].items())}
        fields["tool_approval_modes"] = {name: mode for name, mode in modes.items() if mode is not None}
    if "tool_timeout_sec" in table:
        fields["tool_timeout_s"] = float(table["tool_timeout_sec"])
    return McpServer(name=name, project_file=project_file, **fields)


def _variable_names(value: Any, where: str) -> tuple[str, ...]:
    """Names, or tables with a `name`."""
    entries = value if isinstance(value, list) else [None]
    names = [entry.get("name") if isinstance(entry, dict) else entry for entry in entries]
    if not all(isinstance(name, str) for name in names):
        raise ConfigError(f"{where}.env_vars must be an array of variable names")
    return tuple(name for name in names if name is not None)
