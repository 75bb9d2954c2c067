"""Whether an item from a server has the shape its type promises.

Everything behind the decoder relies on it: an item that has not is skipped, like any other garbage in a stream.
Fields that nobody reads are not looked at, and unknown types have no shape.
"""

from __future__ import annotations

from typing import Any

import msgspec

from spindle.protocol.items import Item


class _Part(msgspec.Struct):
    text: str = ""
    refusal: str = ""


class _Message(msgspec.Struct):
    role: str | None = None
    content: list[_Part] | str | None = None
    phase: str | None = None


class _Reasoning(msgspec.Struct):
    summary: list[_Part] | None = None
    content: list[_Part] | None = None
    encrypted_content: str | None = None


class _NamedCall(msgspec.Struct):
    name: str
    call_id: str | None = None


class _LocalShellCall(msgspec.Struct):
    action: dict[str, Any] | None = None
    call_id: str | None = None


class _WebSearchAction(msgspec.Struct):
    query: str | None = None
    url: str | None = None


class _WebSearchCall(msgspec.Struct):
    action: _WebSearchAction | None = None
    status: str | None = None


class _Compaction(msgspec.Struct):
    encrypted_content: str


_NEVER_OF_MODEL = frozenset(("item_reference", "additional_tools"))
"""Kinds of input that stand for something else, or bring tools along."""

_SHAPES: dict[str, Any] = {
    "message": _Message,
    "reasoning": _Reasoning,
    "function_call": _NamedCall,
    "custom_tool_call": _NamedCall,
    "local_shell_call": _LocalShellCall,
    "web_search_call": _WebSearchCall,
    "compaction": _Compaction,
    "compaction_summary": _Compaction,
}


_OWN_ROLES = (None, "assistant")


def is_of_model(item: Item) -> bool:
    """Whether an item is one that a model says: no words of a person or a developer, and no output of a tool.

    Those are ours to record. A server that could bring them would speak in another's name, in every later request.
    """
    kind = item.get("type")
    if not isinstance(kind, str) or kind.endswith(("_output", "_response", "_outputs")) or kind in _NEVER_OF_MODEL:
        return False
    return kind != "message" or item.get("role") in _OWN_ROLES


def is_well_formed(item: Item) -> bool:
    """True if the fields that are used are of the right type, and the required ones are there."""
    kind = item.get("type")
    if not isinstance(kind, str):
        return False
    shape = _SHAPES.get(kind)
    if shape is None:
        return True
    try:
        msgspec.convert(item, shape)
    except msgspec.ValidationError:
        return False
    return True
