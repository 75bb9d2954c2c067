"""Calls of tools in a record: what the model asked for and what came back → items, and texts to search. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from spindle.api.functions import BUILT_IN
from spindle.context.calls import (
    arguments_of,
    body_of,
    command_of,
    exit_code_of,
    has_patched,
    locate,
    output_text,
    patched_files,
    tool_of,
)

_KINDS = {"added": "add", "changed": "update", "deleted": "delete"}
_SILENT = ("id", "type", "status", "call_id")
"""Fields whose words nobody said."""


def call_item(shown: dict[str, Any], cwd: str) -> dict[str, Any] | None:
    """The item for a call, but for its number; None for a tool whose calls are no items."""
    call, output = shown["call"], shown["output"]
    text = "" if output is None else output_text(output)
    if files := patched_files(call):
        status = "in_progress" if output is None else "completed" if has_patched(output) else "failed"
        changes = [{"path": locate(file.path, cwd), "kind": _KINDS[file.change]} for file in files]
        return {"type": "file_change", "changes": changes, "status": status}
    if (command := command_of(call)) is not None:
        code = exit_code_of(text)
        return {
            "type": "command_execution",
            "command": command[0],
            "aggregated_output": body_of(text),
            "exit_code": code,
            "status": "in_progress" if output is None else "completed" if code in (0, None) else "failed",
        }
    name, arguments = tool_of(call), arguments_of(call)
    if name == "update_plan":
        return {"type": "todo_list", "items": list(_steps(arguments.get("plan")))}
    status = "in_progress" if output is None else "completed"
    if name.startswith("mcp__"):
        _, server, tool = [*name.split("__", 2), ""][:3]
        return {"type": "mcp_tool_call", "server": server, "tool": tool, "arguments": arguments, "status": status}
    if not name or name in BUILT_IN:
        return None
    return {"type": "python_tool_call", "tool": name, "arguments": arguments, "status": status, "result": text}


def _steps(plan: Any) -> Iterator[dict[str, Any]]:
    for step in plan if isinstance(plan, list) else ():
        if isinstance(step, dict):
            yield {"text": str(step.get("step") or ""), "completed": step.get("status") == "completed"}


def texts_of(shown: dict[str, Any]) -> Iterator[str]:
    """Everything that an item of a record says."""
    if shown["type"] != "Call":
        yield from _words(shown)
        return
    call, output = shown["call"], shown["output"]
    yield from _words(arguments_of(call) or {"input": call.get("input"), "action": call.get("action")})
    if output is not None:
        yield output_text(output)


def _words(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, entry in value.items():
            if key not in _SILENT:
                yield from _words(entry)
                if isinstance(key, str) and key.startswith("/"):
                    yield key  # the files of a change
    elif isinstance(value, list):
        for entry in value:
            yield from _words(entry)
