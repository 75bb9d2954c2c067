"""The model client of a session that has a budget."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Protocol, runtime_checkable

from spindle.core.budget import BudgetLedger, Reservation
from spindle.core.heard import Heard, input_tokens
from spindle.errors import ModelError, StreamDropped, is_unreached, kind_of
from spindle.model.client import Completed, ModelClient, ModelEvent, TurnState, cost_of_compaction
from spindle.protocol.items import Item
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
        inner = client
        while (below := getattr(inner, "inner", None)) is not None:
            inner = below
        if isinstance(inner, Retrying):
            inner.before_retry = self._before_retry

    async def stream(self, request: Request, turn_state: TurnState | None = None) -> AsyncGenerator[ModelEvent, None]:
        reservation: Reservation | None = await self._reserve(request)
        has_reached, heard = True, Heard(reservation.tokens)
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
            has_reached = not is_unreached(error.info) and kind_of(error.info) != "budget_exceeded"
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
        self._running = await self._ledger.reserve(request.model, input_tokens(request), request.service_tier)
        return self._running

    def _before_retry(self) -> None:
        if self._running is not None:
            self._ledger.count_retry(self._running)
