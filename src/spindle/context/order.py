"""The order in which tools are listed: fixed, so that equal tools give equal bytes and a cache stays warm."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_FIXED = (
    *("exec_command", "write_stdin", "shell", "shell_command", "local_shell"),
    *("list_mcp_resources", "list_mcp_resource_templates", "read_mcp_resource"),
    *("update_plan", "request_user_input", "apply_patch", "grep_files", "read_file", "list_dir"),
    *("web_search", "view_image", "remember", "recall"),
    *("spawn_agent", "send_input", "wait", "close_agent"),
)
_PLACES = {name: place for place, name in enumerate(_FIXED)}
_OF_SERVERS = "mcp__"


def order_tools(tools: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Our own tools first, in one fixed order; then those of MCP servers by name; then all others as they came."""
    return sorted(tools, key=_place)


def _place(tool: dict[str, Any]) -> tuple[int, str]:
    # The server's own tools have no name, only a type.
    name = str(tool.get("name") or tool.get("type") or "")
    place = _PLACES.get(name)
    if place is not None:
        return place, ""
    return (len(_FIXED), name) if name.startswith(_OF_SERVERS) else (len(_FIXED) + 1, "")
