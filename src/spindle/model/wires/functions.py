"""Tools of a request as functions, for servers that know no other kind, and calls of those read back.

A tool whose input is free text becomes a function with one string, `input`; tools that the server would run itself are
left out.
"""

from __future__ import annotations

from typing import Any

import msgspec

from spindle.protocol.items import MAX_FOREIGN_DEPTH, Item, decode_json, decode_own, encode_json

FREE_TEXT = "input"
"""The one argument of a tool whose input is free text."""
_NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}


class FunctionTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as a function, in no wire's dialect."""

    name: str
    description: str
    parameters: dict[str, Any]
    """An object schema."""
    strict: bool = False
    is_free_text: bool = False
    """It was a tool for free text: its calls are `custom_tool_call` items in the thread."""


def function_tools(tools: bytes) -> list[FunctionTool]:
    """The tools of a request (its `tools`, in the form of the Responses API), in their order."""
    found = [_function(tool) for tool in decode_own(tools)]
    return [tool for tool in found if tool is not None]


def _function(tool: dict[str, Any]) -> FunctionTool | None:
    match tool.get("type"):
        case "function":
            return FunctionTool(
                name=tool["name"],
                description=tool.get("description") or "",
                parameters=tool.get("parameters") or _NO_PARAMETERS,
                strict=tool.get("strict") is True,
            )
        case "custom":
            return FunctionTool(
                name=tool["name"],
                description=_described(tool),
                parameters={
                    "type": "object",
                    "properties": {FREE_TEXT: {"type": "string", "description": "The whole input, as plain text."}},
                    "required": [FREE_TEXT],
                    "additionalProperties": False,
                },
                is_free_text=True,
            )
        case "local_shell":
            return FunctionTool(name="shell", description="Runs a program.", parameters=_SHELL)
        case _:
            return None


_SHELL: dict[str, Any] = {
    "type": "object",
    "properties": {
        "command": {"type": "array", "items": {"type": "string"}, "description": "The program and its arguments."},
        "workdir": {"type": "string", "description": "The folder to run it in."},
        "timeout_ms": {"type": "number", "description": "After how many milliseconds it is ended."},
    },
    "required": ["command"],
    "additionalProperties": False,
}


def _described(tool: dict[str, Any]) -> str:
    """What the tool does and, where a grammar says so, what its input looks like."""
    described = tool.get("description") or ""
    shape = tool.get("format")
    grammar = shape.get("definition") if isinstance(shape, dict) else None
    if not grammar:
        return described
    # The first sentence says what it does; the others how free text is sent, which it is not here.
    described = described.partition(". ")[0].removesuffix(".") + "." if described else ""
    return f"{described}\n\nPut the whole text into `{FREE_TEXT}`. It must follow this grammar:\n{grammar}".lstrip()


def free_text_names(tools: bytes) -> frozenset[str]:
    """The names of tools whose input is free text."""
    if b'"custom"' not in tools:
        return frozenset()
    return frozenset(tool["name"] for tool in decode_own(tools) if tool.get("type") == "custom")


def call_item(name: str, arguments: str, call_id: str, free_text: frozenset[str]) -> Item:
    """The item of a call: of a tool for free text, if `name` is among them and the arguments are as they should be."""
    if name in free_text and (text := _free_text(arguments)) is not None:
        return {"type": "custom_tool_call", "status": "completed", "call_id": call_id, "name": name, FREE_TEXT: text}
    return {"type": "function_call", "name": name, "arguments": arguments, "call_id": call_id}


def _free_text(arguments: str) -> str | None:
    try:
        given = decode_json(arguments, MAX_FOREIGN_DEPTH)
    except (msgspec.DecodeError, UnicodeError):
        return None
    text = given.get(FREE_TEXT) if isinstance(given, dict) else None
    return text if isinstance(text, str) else None


def free_text_arguments(text: str) -> str:
    """The arguments that stand for free text."""
    return encode_json({FREE_TEXT: text}).decode()
