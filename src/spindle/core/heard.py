"""What has arrived of an answer, to estimate what a request cost when the server does not say."""

from __future__ import annotations

from spindle.context.tokens import tokens_of_bytes
from spindle.model.client import (
    Completed,
    Created,
    InputDelta,
    ItemAdded,
    ItemDone,
    ModelEvent,
    RawReasoningDelta,
    SummaryDelta,
    SummaryPartAdded,
    TextDelta,
)
from spindle.protocol.items import Item, encode_json
from spindle.protocol.request import Request, TokenUsage

_OF_ANSWERS = (Created, ItemAdded, TextDelta, SummaryPartAdded, SummaryDelta, RawReasoningDelta, ItemDone, Completed)
"""What only a model that answers can have said."""


def input_tokens(request: Request) -> int:
    """Of a request that was not made yet, as estimated."""
    return tokens_of_bytes(len(request.instructions) + len(request.tools) + sum(map(len, request.input)))


class Heard:
    """What came of an answer, to estimate what it cost where the server does not say, or did not get that far."""

    def __init__(self, input_tokens: int) -> None:
        self._input_tokens = input_tokens
        self._has_begun = False
        self._streamed = 0
        self._whole: list[Item] = []

    def note(self, event: ModelEvent) -> None:
        self._has_begun = self._has_begun or isinstance(event, _OF_ANSWERS)
        if isinstance(event, TextDelta | SummaryDelta | RawReasoningDelta | InputDelta):
            self._streamed += len(event.delta)
        elif isinstance(event, ItemDone):
            self._whole.append(event.item)

    def usage(self) -> TokenUsage | None:
        """None when the server has not begun to answer: then it charges nothing."""
        if not self._has_begun:
            return None
        size = max(self._streamed, sum(len(encode_json(item)) for item in self._whole))
        output = tokens_of_bytes(size)
        return TokenUsage(
            input_tokens=self._input_tokens, output_tokens=output, total_tokens=self._input_tokens + output
        )
