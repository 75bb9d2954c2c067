"""Whether an item from a server has the shape its type promises.

Everything behind the decoder relies on it: an item that has not is skipped, like any other garbage in a stream.
Fields that nobody reads are not looked at, and unknown types have no shape.
"""

from __future__ import annotations

import re
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


_NEVER_OF_MODEL = (
    r".*(?:_message|_outputs?|_response|_results?)|input_.*|spindle_.*|inter_agent_.*"
    r"|item_reference|additional_tools|mcp_list_tools|prompt|ghost_snapshot"
    r"|session_meta|turn_context|response_item|event_msg|compacted|world_state"
)
"""Kinds of input that stand for something else or bring tools along, words of others, and lines of a record."""
_NAME = "[a-z][a-z0-9_]*"

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
    if not isinstance(kind, str) or (kind != "message" and not _is_unsuspicious(kind)):
        return False
    return item.get("role") in _OWN_ROLES


def _is_unsuspicious(kind: str) -> bool:
    """Known kinds, and unknown ones that cannot pass for anything else: those are recorded, and never sent."""
    return kind in _SHAPES or (re.fullmatch(_NAME, kind) is not None and not re.fullmatch(_NEVER_OF_MODEL, kind))


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
