"""Models of your own: what a `model_client` must be, and what it is given and gives.

class Echo:
    async def stream(self, request, turn_state=None):
        text = request.to_dict()["input"][-1]["content"][0]["text"]
        yield ItemDone({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]})
        yield Completed()

    async def compact(self, request):
        raise ModelError("this model cannot shorten a thread")

    async def warm(self): ...
    async def aclose(self): ...
"""

from __future__ import annotations

from spindle.errors import ModelError, StreamDropped
from spindle.model.client import (
    Completed,
    Created,
    InputDelta,
    ItemAdded,
    ItemDone,
    ModelClient,
    ModelEvent,
    RateLimits,
    RawReasoningDelta,
    SummaryDelta,
    SummaryPartAdded,
    TextDelta,
    TurnState,
)
from spindle.protocol.request import Request, TokenUsage

__all__ = [
    "Completed",
    "Created",
    "InputDelta",
    "ItemAdded",
    "ItemDone",
    "ModelClient",
    "ModelError",
    "ModelEvent",
    "RateLimits",
    "RawReasoningDelta",
    "Request",
    "StreamDropped",
    "SummaryDelta",
    "SummaryPartAdded",
    "TextDelta",
    "TokenUsage",
    "TurnState",
]
