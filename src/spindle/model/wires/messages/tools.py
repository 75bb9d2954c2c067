"""The list of tools, and which of them may be called, in the form of the Messages API."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from spindle.model.wires.functions import function_tools
from spindle.model.wires.item_parts import call_name
from spindle.protocol.items import encode_json

_REFUSED_AT_TOP = ("oneOf", "anyOf", "allOf")
"""What a server does not take at the top of a schema. Without it the schema only allows more."""


def encode_tools(specs: bytes) -> bytes:
    """The list as JSON; "" where it would be empty. `specs` is the list as a Responses server takes it."""
    listed: dict[str, dict[str, Any]] = {}
    for tool in function_tools(specs):
        name = _sendable(tool.name)
        described = {"description": tool.description} if tool.description.strip() else {}
        listed.setdefault(name, {"name": name, **described, "input_schema": _schema(tool.parameters)})
    return encode_json(list(listed.values())) if listed else b""


def past_tools(names: Iterable[str]) -> bytes:
    """A list of tools that were called and are not offered any more: a history of calls is refused without any."""
    listed = [{"name": name, "input_schema": {"type": "object", "properties": {}}} for name in names]
    return encode_json(listed) if listed else b""


def encode_choice(choice: str, *, is_parallel: bool) -> dict[str, Any] | None:
    """What `tool_choice` says; None where the server does that anyway."""
    match choice:
        case "none":
            return {"type": "none"}
        case "auto":
            wanted: dict[str, Any] = {"type": "auto"}
        case "required":
            wanted = {"type": "any"}
        case name:
            wanted = {"type": "tool", "name": _sendable(name)}
    if not is_parallel:
        wanted["disable_parallel_tool_use"] = True
    return None if wanted == {"type": "auto"} else wanted


def _sendable(name: str) -> str:
    """The name of a tool, spelled as in calls of it."""
    return call_name({"name": name})


def _schema(given: dict[str, Any]) -> dict[str, Any]:
    schema = {key: value for key, value in given.items() if key not in _REFUSED_AT_TOP}
    properties = schema.get("properties")
    return {**schema, "type": "object", "properties": properties if isinstance(properties, dict) else {}}
