"""A session's way to its model where there is a budget."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Protocol, runtime_checkable

from spindle.context.tokens import tokens_of_bytes
from spindle.core.budget import BudgetLedger, Reservation
from spindle.errors import ModelError, StreamDropped, kind_of
from spindle.model.client import (
    Completed,
    Created,
    ItemAdded,
    ItemDone,
    ModelClient,
    ModelEvent,
    RawReasoningDelta,
    SummaryDelta,
    SummaryPartAdded,
    TextDelta,
    TurnState,
    cost_of_compaction,
)
from spindle.protocol.items import Item, encode_json
from spindle.protocol.request import Request, TokenUsage


@runtime_checkable
class Retrying(Protocol):
    """A client that makes a request once more by itself, and asks before."""

    before_retry: Callable[[], None]


class BudgetedClient:
    """Every request is within the budgets, and what it comes to is booked."""

    def __init__(self, client: ModelClient, ledger: BudgetLedger) -> None:
        self._client = client
        self._ledger = ledger
        self._running: Reservation | None = None
        inner = getattr(client, "inner", client)
        if isinstance(inner, Retrying):
            inner.before_retry = self._before_retry

    async def stream(self, request: Request, turn_state: TurnState | None = None) -> AsyncGenerator[ModelEvent, None]:
        reservation: Reservation | None = await self._reserve(request)
        has_reached, heard = True, _Heard(reservation.tokens)
        try:
            async with aclosing(self._client.stream(request, turn_state)) as events:
                async for event in events:
                    heard.note(event)
                    if isinstance(event, Completed) and reservation is not None:
                        self._ledger.commit(reservation, event.usage or heard.usage())
                        reservation = None
                    yield event
        except (ModelError, StreamDropped) as error:
            # A retry that was refused has booked the attempt before it.
            has_reached = kind_of(error.info) not in ("http_connection_failed", "budget_exceeded")
            raise
        finally:
            self._running = None
            if reservation is not None:
                self._ledger.commit(reservation, heard.usage(), has_reached=has_reached)

    async def compact(self, request: Request) -> list[Item]:
        reservation = await self._reserve(request)
        usage: TokenUsage | None = None
        try:
            items = await self._client.compact(request)
            usage = cost_of_compaction(items)
            return items
        finally:
            self._running = None
            self._ledger.commit(reservation, usage)

    async def warm(self) -> None:
        await self._client.warm()

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _reserve(self, request: Request) -> Reservation:
        size = len(request.instructions) + len(request.tools) + sum(map(len, request.input))
        self._running = await self._ledger.reserve(request.model, tokens_of_bytes(size), request.service_tier)
        return self._running

    def _before_retry(self) -> None:
        if self._running is not None:
            self._ledger.count_retry(self._running)


_OF_ANSWERS = (Created, ItemAdded, TextDelta, SummaryPartAdded, SummaryDelta, RawReasoningDelta, ItemDone, Completed)
"""What only a model that answers can have said."""


class _Heard:
    """What came of an answer, to estimate what it cost where the server does not say, or did not get that far."""

    def __init__(self, input_tokens: int) -> None:
        self._input_tokens = input_tokens
        self._has_begun = False
        self._streamed = 0
        self._whole: list[Item] = []

    def note(self, event: ModelEvent) -> None:
        self._has_begun = self._has_begun or isinstance(event, _OF_ANSWERS)
        if isinstance(event, TextDelta | SummaryDelta | RawReasoningDelta):
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
