"""Events in the form of protocol v1, with the twins of deltas that older clients read."""

from __future__ import annotations

from typing import Any

from spindle.protocol.events import (
    AgentMessageContentDelta,
    Event,
    ReasoningContentDelta,
    ReasoningRawContentDelta,
    encode_event,
)
from spindle.protocol.items import encode_json


def event_lines(event: Event) -> list[bytes]:
    """The event's line, and for deltas that of its twin; without the ends of lines."""
    twin = twin_of(event)
    return [encode_event(event)] if twin is None else [encode_event(event), encode_json({"id": event.id, "msg": twin})]


def twin_of(event: Event) -> dict[str, Any] | None:
    """The message that older clients read instead of a delta."""
    match event.msg:
        case AgentMessageContentDelta(delta=delta):
            return {"type": "agent_message_delta", "delta": delta}
        case ReasoningContentDelta(delta=delta):
            return {"type": "agent_reasoning_delta", "delta": delta}
        case ReasoningRawContentDelta(delta=delta):
            return {"type": "agent_reasoning_raw_content_delta", "delta": delta}
        case _:
            return None
