"""What a model may answer when a grammar holds its pen: one object, which is either a call or the final answer.

`{"name": TOOL, "arguments": {…}}` or `{"answer": TEXT}`. Small models do not know the format of calls well enough to
keep it on their own; so the server lets them write nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from spindle.model.wires.functions import FunctionTool

NAME, ARGUMENTS, ANSWER = "name", "arguments", "answer"
_KEPT_TYPES = frozenset(("string", "number", "integer", "boolean", "null"))
_DEEPEST = 6


def brief(tool: FunctionTool) -> FunctionTool:
    """The tool as a small model can keep it in mind: what it does in a sentence, and what it cannot do without."""
    given, required = tool.parameters.get("properties"), tool.parameters.get("required")
    if not isinstance(given, dict) or not isinstance(required, list) or not required:
        return msgspec.structs.replace(tool, description=_first_sentence(tool.description))
    needed = {name: _without_words(given[name]) for name in required if isinstance(name, str) and name in given}
    return msgspec.structs.replace(
        tool,
        description=_first_sentence(tool.description),
        parameters=_object(needed, [*needed]),
    )


def _first_sentence(text: str) -> str:
    line = text.strip().partition("\n")[0]
    return line.partition(". ")[0].rstrip(".:") + "." if line else ""


def _without_words(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    words = schema.get("description")
    short = {"description": _first_sentence(words)} if isinstance(words, str) and words else {}
    return {**schema, **short}


def step_schema(tools: Sequence[FunctionTool], answer: dict[str, Any] | None = None) -> dict[str, Any]:
    """The schema of one answer. `answer` is the schema of the final one, where the user has given one."""
    calls = [
        _object({NAME: {"const": tool.name}, ARGUMENTS: _simple(tool.parameters, 0)}, (NAME, ARGUMENTS))
        for tool in tools
    ]
    final = _object({ANSWER: {"type": "string"} if answer is None else answer}, (ANSWER,))
    # Blanks between the parts would be all that some models ever write.
    return {"anyOf": [*calls, final], "x-guidance": {"whitespace_flexible": False}}


def _object(properties: dict[str, Any], required: Sequence[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*required], "additionalProperties": False}


def _simple(schema: Any, depth: int) -> dict[str, Any]:
    """The part of a tool's schema that every grammar can express; tools check their arguments anyway.

    What is not understood becomes "anything", which is never too narrow.
    """
    if not isinstance(schema, dict) or depth > _DEEPEST:
        return {}
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if isinstance(values, list) and values and all(isinstance(value, str | int | float | None) for value in values):
        return {"enum": values}
    kind = schema.get("type")
    if isinstance(kind, list):
        known = [name for name in kind if name in _KEPT_TYPES]
        return {"type": known} if known and len(known) == len(kind) else {}
    if kind == "array":
        return {"type": "array", "items": _simple(schema.get("items"), depth + 1)}
    if kind == "object" or "properties" in schema:
        return _simple_object(schema, depth)
    return {"type": kind} if kind in _KEPT_TYPES else {}


def _simple_object(schema: dict[str, Any], depth: int) -> dict[str, Any]:
    given = schema.get("properties")
    properties = {name: _simple(inner, depth + 1) for name, inner in given.items()} if isinstance(given, dict) else {}
    if not properties and (depth or schema.get("additionalProperties", True)):
        return {"type": "object"}
    required = schema.get("required")
    names = [name for name in required if name in properties] if isinstance(required, list) else []
    return _object(properties, names)
