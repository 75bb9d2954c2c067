"""What people are told of a call that came to nothing. Loaded with the first such call."""

from __future__ import annotations

from spindle.protocol.events import Msg
from spindle.protocol.outside import Outside


class ToolCallFailed(Msg, frozen=True, kw_only=True, tag="tool_call_failed"):
    """A call failed before anything was shown of it: a patch that does not fit, a tool that does not exist."""

    outside = Outside(words=("call_id", "tool"), tools=("message",))
    ends_call = True
    call_id: str
    tool: str
    message: str
