"""Calls of Python functions that the embedding program gave as tools. Loaded with the first such tool."""

from __future__ import annotations

from typing import Any

from spindle.protocol.events import Msg
from spindle.protocol.outside import Outside


class PythonToolCallBegin(Msg, frozen=True, kw_only=True, tag="python_tool_call_begin"):
    """A function is about to be called. `arguments` as the model gave them; text if they are no JSON."""

    outside = Outside(words=("call_id", "arguments"))
    call_id: str
    turn_id: str
    tool: str
    arguments: Any


class PythonToolCallProgress(Msg, frozen=True, kw_only=True, tag="python_tool_call_progress"):
    """The function says how far it is."""

    outside = Outside(words=("call_id",), tools=("text",))
    call_id: str
    turn_id: str
    text: str


class PythonToolCallEnd(Msg, frozen=True, kw_only=True, tag="python_tool_call_end"):
    """The function has answered, or failed, or was not called at all. Always after a begin."""

    outside = Outside(words=("call_id", "arguments"), tools=("result", "error"))
    ends_call = True
    call_id: str
    turn_id: str
    tool: str
    arguments: Any
    success: bool
    result: str | None = None
    """What the model reads, pictures left out; None when it failed."""
    error: str | None = None
    """What the model reads when it failed."""
    duration_ms: int = 0
