"""What a turn asks of a client besides permission: answers of a person, and calls of its own tools; and plans."""

from __future__ import annotations

from typing import Any

from spindle.protocol.events import Msg
from spindle.protocol.outside import Outside


class RequestUserInput(Msg, frozen=True, kw_only=True, tag="request_user_input"):
    """The turn waits for a person's answers. A question: id, header, question, isOther, isSecret, options."""

    outside = Outside(words=("call_id", "questions"))
    call_id: str
    turn_id: str
    questions: list[dict[str, Any]]


class DynamicToolCallRequest(Msg, frozen=True, kw_only=True, tag="dynamic_tool_call_request", rename="camel"):
    """The turn waits for a tool that the client brought along."""

    outside = Outside(words=("call_id", "tool", "arguments", "namespace"))
    call_id: str
    turn_id: str
    tool: str
    arguments: Any
    namespace: str | None = None


class DynamicToolCallResponse(Msg, frozen=True, kw_only=True, tag="dynamic_tool_call_response", rename="camel"):
    """The client's tool has answered."""

    outside = Outside(words=("call_id", "tool", "arguments", "namespace"), tools=("content_items",))
    ends_call = True
    call_id: str
    turn_id: str
    tool: str
    arguments: Any
    namespace: str | None = None
    content_items: list[dict[str, Any]]
    success: bool
    duration_ms: int = 0


class PlanDelta(Msg, frozen=True, kw_only=True, tag="plan_delta"):
    """A piece of a proposed plan, while it streams."""

    outside = Outside(masked=("delta",))
    thread_id: str
    turn_id: str
    item_id: str
    delta: str
