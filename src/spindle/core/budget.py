"""What a turn, a thread and its sub-agents may use, and what they have used. Loaded only where there is a budget.

One ledger per session. Before each request `reserve` asks every meter that the request counts for, also those of the
sessions above; after it `commit` books what it came to. A request is not made when a meter is used up, by itself or
together with what others have reserved: so a limit is passed by one request at most, however many sub-agents work.
What runs is never cut short.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from typing import Literal, Protocol, runtime_checkable

import msgspec

from spindle.context.tokens import tokens_of_bytes
from spindle.errors import BudgetReached, ModelError, StreamDropped, kind_of
from spindle.model.client import Completed, ModelClient, ModelEvent, TurnState, cost_of_compaction
from spindle.protocol.clock import Clock
from spindle.protocol.items import Item
from spindle.protocol.request import Prices, Request, TokenUsage
from spindle.protocol.settings import BudgetLimits

Scope = Literal["turn", "thread", "tree"]
FindPrices = Callable[[str], Prices | None]
"""What a model's tokens cost in dollars a million; None when nobody knows."""

WARN_AT = 0.8
_WORDS: dict[Scope, str] = {
    "turn": "in this turn",
    "thread": "in this thread",
    "tree": "by the sub-agents of this thread",
}


class Use(msgspec.Struct, frozen=True):
    """What requests came to."""

    tokens: int = 0
    requests: int = 0
    cost: float = 0.0

    def __add__(self, other: Use) -> Use:
        return Use(self.tokens + other.tokens, self.requests + other.requests, self.cost + other.cost)

    def __sub__(self, other: Use) -> Use:
        return Use(self.tokens - other.tokens, self.requests - other.requests, self.cost - other.cost)


class Meter:
    """One scope: its limits, and what was used in it."""

    def __init__(
        self, ledger: BudgetLedger, scope: Scope, limits: BudgetLimits, used: Use | None = None, seconds: float = 0.0
    ) -> None:
        self.ledger = ledger
        self.scope: Scope = scope
        self.limits = limits
        self.used = used or Use()
        self.reserved = Use()
        """By requests that run."""
        self.largest = Use()
        """The most that one request came to: the next ones may come to as much."""
        self._seconds = seconds
        """Of the turns before."""
        self._began_s: float | None = None
        self._last_s = 0.0
        self._has_warned = False

    def begin_turn(self, now_s: float) -> None:
        """The time runs, from now on for another turn; between turns it does not."""
        self._seconds = self.seconds
        self._began_s = self._last_s = now_s

    def note_time(self, now_s: float) -> None:
        self._last_s = now_s

    @property
    def seconds(self) -> float:
        """Up to the last moment that was noted."""
        return self._seconds + (self._last_s - self._began_s if self._began_s is not None else 0.0)

    def is_spent(self) -> BudgetReached | None:
        """Why no request may be made, if so."""
        for limit, most, used, reserved in self._lines():
            if most and used + reserved >= most:
                return self.ledger.reached(self.scope, limit, most, used + reserved)
        return None

    def warning(self) -> str | None:
        """Said once, when the most of a limit is used and something is left."""
        if self._has_warned:
            return None
        for limit, most, used, _ in self._lines():
            if most and WARN_AT * most <= used < most:
                self._has_warned = True
                shown = f"{limit} = {_shown(most)} ({_shown(used)} used)"
                return f"{WARN_AT:.0%} of a budget is used: {shown} {_WORDS[self.scope]}"
        return None

    def _lines(self) -> Iterator[tuple[str, float | None, float, float]]:
        limits, used, reserved = self.limits, self.used, self.reserved
        yield "max_requests", limits.max_requests, used.requests, reserved.requests
        yield "max_tokens", limits.max_tokens, used.tokens, reserved.tokens
        yield "max_cost", limits.max_cost, used.cost, reserved.cost
        yield "max_seconds", limits.max_seconds, self.seconds, 0.0


class Reservation:
    """A request that runs, and what was set aside for it at each meter."""

    __slots__ = ("meters", "model")

    def __init__(self, model: str, meters: list[tuple[Meter, Use]]) -> None:
        self.model = model
        self.meters = meters


class BudgetLedger:
    """The budgets of one session."""

    def __init__(
        self,
        *,
        clock: Clock,
        find_prices: FindPrices,
        thread_id: str,
        above: Callable[[], BudgetLedger | None] = lambda: None,
        is_recorded: bool = True,
    ) -> None:
        self._clock = clock
        self._find_prices = find_prices
        self._thread_id = thread_id
        self._above = above
        """The ledger of the session that started this one: what is used here counts there too."""
        self._is_recorded = is_recorded
        self._prices: dict[str, Prices | None] = {}
        self.turn: list[Meter] = []
        self.thread: list[Meter] = []
        self.tree: list[Meter] = []
        """What the sub-agents use, all together; on the ledger of the session that a person opened."""
        self.warn: Callable[[str], None] = lambda text: None
        self.booked: Callable[[], None] = lambda: None
        """Hears that something was booked."""

    # ---- scopes --------------------------------------------------------------------------------

    def begin_turn(self, *meters: Meter) -> None:
        """A new turn, with what it may use."""
        now_s = self._clock.monotonic()
        self.turn = [meter for meter in meters if meter.limits]
        for meter in (*self.turn, *self.thread):
            meter.begin_turn(now_s)

    def meters(self) -> Iterator[Meter]:
        """Every meter that a request of this session counts for."""
        yield from self.turn
        yield from self.thread
        if (above := self._above()) is not None:
            yield from above.tree
            yield from above.meters()

    def reached(self, scope: Scope, limit: str, most: float, used: float) -> BudgetReached:
        text = f"Budget reached: {limit} = {_shown(most)} ({_shown(used)} used) {_WORDS[scope]}."
        if self._is_recorded:
            text += f" Work so far is saved; continue with: spindle exec resume {self._thread_id}"
        budget = {
            "scope": scope,
            "limit": limit,
            "max": most,
            "used": used if isinstance(used, int) else round(used, 6),
        }
        return BudgetReached(text, budget)

    def cost_of(self, model: str, usage: TokenUsage) -> float:
        """Dollars; 0 where the price is not known."""
        return _cost(self._find_prices(model), usage)

    # ---- requests ------------------------------------------------------------------------------

    def reserve(self, model: str, tokens: int) -> Reservation:
        """Set aside what a request may come to. Raises BudgetReached when there is nothing left for it."""
        now_s = self._clock.monotonic()
        found = list(self.meters())
        for meter in found:
            meter.note_time(now_s)
            if (spent := meter.is_spent()) is not None:
                raise spent
        prices = self._prices_of(model, found)
        cost = _cost(prices, TokenUsage(input_tokens=tokens))
        held: list[tuple[Meter, Use]] = []
        for meter in found:
            use = Use(max(tokens, meter.largest.tokens), 1, max(cost, meter.largest.cost))
            meter.reserved += use
            held.append((meter, use))
        return Reservation(model, held)

    def count_retry(self, reservation: Reservation) -> None:
        """The request was answered in vain and is made once more. Raises BudgetReached when it may not be."""
        for meter, _ in reservation.meters:
            meter.used += Use(requests=1)
        now_s = self._clock.monotonic()
        for meter, use in reservation.meters:
            meter.note_time(now_s)
            meter.reserved -= use  # its own share is not in its way
            try:
                if (spent := meter.is_spent()) is not None:
                    raise spent
            finally:
                meter.reserved += use

    def commit(self, reservation: Reservation, usage: TokenUsage | None, *, has_reached: bool = True) -> None:
        """Book what a request came to; `usage` is None when nobody counted."""
        now_s = self._clock.monotonic()
        usage = usage or TokenUsage()
        tokens = max(usage.total_tokens, usage.input_tokens + usage.output_tokens)
        cost = _cost(self._prices.get(reservation.model), usage)
        came_to = Use(tokens, int(has_reached), cost)
        for meter, use in reservation.meters:
            meter.reserved -= use
            meter.used += came_to
            meter.largest = Use(max(meter.largest.tokens, tokens), 1, max(meter.largest.cost, cost))
            meter.note_time(now_s)
            if (text := meter.warning()) is not None:
                meter.ledger.warn(text)
        for ledger in dict.fromkeys(meter.ledger for meter, _ in reservation.meters):
            ledger.booked()

    def _prices_of(self, model: str, meters: list[Meter]) -> Prices | None:
        """None where no limit is in dollars, and where the price is not known: then that is said, once."""
        if not any(meter.limits.max_cost for meter in meters):
            return None
        if model not in self._prices:
            self._prices[model] = self._find_prices(model)
            if self._prices[model] is None:
                self.warn(
                    f"the cost of model {model} is unknown, so max_cost cannot be kept; "
                    f'a price under [spindle.prices."{model}"] would help'
                )
        return self._prices[model]


@runtime_checkable
class Retrying(Protocol):
    """A client that makes a request once more by itself, and asks before."""

    before_retry: Callable[[], None]


class BudgetedClient:
    """A session's way to its model: every request is within the budgets, and what it comes to is booked."""

    def __init__(self, client: ModelClient, ledger: BudgetLedger) -> None:
        self._client = client
        self._ledger = ledger
        self._running: Reservation | None = None
        inner = getattr(client, "inner", client)
        if isinstance(inner, Retrying):
            inner.before_retry = self._before_retry

    async def stream(self, request: Request, turn_state: TurnState | None = None) -> AsyncGenerator[ModelEvent, None]:
        reservation: Reservation | None = self._reserve(request)
        has_reached = True
        try:
            async with aclosing(self._client.stream(request, turn_state)) as events:
                async for event in events:
                    if isinstance(event, Completed) and reservation is not None:
                        self._ledger.commit(reservation, event.usage)
                        reservation = None
                    yield event
        except (ModelError, StreamDropped) as error:
            # A retry that was refused has booked the attempt before it.
            has_reached = kind_of(error.info) not in ("http_connection_failed", "budget_exceeded")
            raise
        finally:
            self._running = None
            if reservation is not None:
                self._ledger.commit(reservation, None, has_reached=has_reached)

    async def compact(self, request: Request) -> list[Item]:
        reservation = self._reserve(request)
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

    def _reserve(self, request: Request) -> Reservation:
        size = len(request.instructions) + len(request.tools) + sum(map(len, request.input))
        self._running = self._ledger.reserve(request.model, tokens_of_bytes(size))
        return self._running

    def _before_retry(self) -> None:
        if self._running is not None:
            self._ledger.count_retry(self._running)


def _cost(prices: Prices | None, usage: TokenUsage) -> float:
    return 0.0 if prices is None else prices.cost_of(usage) / 1_000_000


def _shown(number: float) -> str:
    return str(number) if isinstance(number, int) else f"{number:.4f}".rstrip("0").rstrip(".")
