"""What a turn, a thread, its sub-agents and a day may use, and have used. Loaded only where there is a budget.

One ledger per session. Before each request `reserve` asks every meter that the request counts for, also those of the
parent sessions; after it `commit` books the actual use. When a meter is used up, no request is made. If the
reservations of others might use it up, a request waits for them: so a limit is exceeded by one request at most, however
many sub-agents work. A running request is never cut short.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from spindle.errors import BudgetReached
from spindle.protocol.clock import Clock
from spindle.protocol.request import Prices, TokenUsage
from spindle.protocol.settings import BudgetLimits

Scope = Literal["turn", "thread", "tree", "day"]
Whose = Literal["own", "below"]
"""Who makes a request: the session that the meter belongs to, or a sub-agent of it."""
FindPrices = Callable[[str, str | None], Prices | None]
"""What a model's tokens cost with a service tier, in dollars a million; None when nobody knows."""

WARN_AT = 0.8
_WORDS: dict[Scope, str] = {
    "turn": "in this turn",
    "thread": "in this thread",
    "tree": "by the sub-agents of this thread",
    "day": "today",
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

    def at_least(self, other: Use) -> Use:
        """The larger of both, number by number."""
        return Use(max(self.tokens, other.tokens), max(self.requests, other.requests), max(self.cost, other.cost))


class ModelBounds(msgspec.Struct, frozen=True):
    """The most that one request to a model can come to, in tokens."""

    window: int = 272_000
    output: int = 128_000


class Expected(msgspec.Struct, frozen=True):
    """What is known of a request beforehand."""

    whose: Whose
    least: Use
    """Its input, as estimated."""
    most: Use
    """As much as the model can read and write."""


class Meter:
    """One scope: its limits, and what was used in it."""

    poll_s: float | None = None
    """How long to wait at most before it is looked at again; None = until somebody here commits."""

    def __init__(
        self, ledger: BudgetLedger, scope: Scope, limits: BudgetLimits, used: Use | None = None, seconds: float = 0.0
    ) -> None:
        self.ledger = ledger
        self.scope: Scope = scope
        self.limits = limits
        self.used = used or Use()
        self.reserved = Use()
        """By requests that run."""
        self.largest: dict[Whose, Use] = {}
        """The most that a request has used so far: the next may use as much. Before the first, it may be any amount."""
        self._seconds = seconds
        """Of the turns before."""
        self._began_s: float | None = None
        self._last_s = 0.0
        self._has_warned = False
        self._waiting: list[asyncio.Future[None]] = []

    # ---- time ----------------------------------------------------------------------------------

    def begin_turn(self, now_s: float) -> None:
        """Begin to count time, for a new turn; between turns none is counted."""
        self._seconds = self.seconds
        self._began_s = self._last_s = now_s

    def note_time(self, now_s: float) -> None:
        self._last_s = now_s

    @property
    def seconds(self) -> float:
        """Up to the last moment that was noted."""
        return self._seconds + (self._last_s - self._began_s if self._began_s is not None else 0.0)

    # ---- requests ------------------------------------------------------------------------------

    def expects(self, expected: Expected) -> Use:
        """What to set aside for a request."""
        largest = self.largest.get(expected.whose)
        return expected.most if largest is None else expected.least.at_least(largest)

    def try_hold(self, use: Use) -> bool:
        """Set `use` aside; False when what others have set aside may use up the rest. Raises BudgetReached."""
        if (spent := self.is_spent()) is not None:
            raise spent
        if self.is_spent(self.reserved) is not None:
            return False
        self.reserved += use
        return True

    def settle(self, held: Use, came_to: Use | None, whose: Whose) -> None:
        """A request is over; None: it was not made after all."""
        self.reserved -= held
        if came_to is not None:
            self.used += came_to
            self.largest[whose] = self.largest.get(whose, Use()).at_least(came_to)
        self.wake()

    def wake(self) -> None:
        """Wake everyone who waits here, so that they look again."""
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def close(self) -> None:
        """Nothing is asked of it any more."""

    def count_attempt(self) -> None:
        """A request got no answer, and is made once more."""
        self.used += Use(requests=1)

    async def changed(self) -> None:
        """Wait until a request that counts here is over."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        await asyncio.wait([future], timeout=self.poll_s)

    def is_spent(self, besides: Use | None = None) -> BudgetReached | None:
        """Why no request may be made, if so; `besides` is what counts as used too."""
        for limit, most, used in self._lines(self.used if besides is None else self.used + besides):
            if most and used >= most:
                return self.ledger.reached(self.scope, limit, most, used)
        return None

    def warning(self) -> str | None:
        """The warning that most of a limit is used, given once."""
        if self._has_warned:
            return None
        for limit, most, used in self._lines(self.used):
            if most and WARN_AT * most <= used < most:
                self._has_warned = True
                shown = f"{limit} = {_shown(most)} ({_shown(used)} used)"
                return f"{WARN_AT:.0%} of a budget is used: {shown} {_WORDS[self.scope]}"
        return None

    def _lines(self, used: Use) -> Iterator[tuple[str, float | None, float]]:
        limits = self.limits
        yield "max_requests", limits.max_requests, used.requests
        yield "max_tokens", limits.max_tokens, used.tokens
        yield "max_cost", limits.max_cost, used.cost
        yield "max_seconds", limits.max_seconds, self.seconds


class Reservation:
    """A request that runs, and what was set aside for it at each meter."""

    __slots__ = ("held", "model", "tier", "tokens")

    def __init__(self, model: str, tokens: int, tier: str | None) -> None:
        self.model = model
        self.tokens = tokens
        """Of its input, as estimated."""
        self.tier = tier
        self.held: list[tuple[Meter, Use, Whose]] = []


class BudgetLedger:
    """The budgets of one session."""

    def __init__(
        self,
        *,
        clock: Clock,
        find_prices: FindPrices,
        thread_id: str,
        bounds: Callable[[str], ModelBounds] = lambda model: ModelBounds(),
        above: Callable[[], BudgetLedger | None] = lambda: None,
        is_recorded: bool = True,
    ) -> None:
        self._clock = clock
        self._find_prices = find_prices
        self._thread_id = thread_id
        self._bounds = bounds
        self._above = above
        """The ledger of the session that started this one: what is used here counts there too."""
        self._is_recorded = is_recorded
        self._prices: dict[tuple[str, str | None], Prices | None] = {}
        self.turn: list[Meter] = []
        self.thread: list[Meter] = []
        """What outlives a turn: the thread's own, and the day's."""
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
        if self._above() is None:
            for meter in self.tree:
                meter.begin_turn(now_s)

    def meters(self) -> Iterator[Meter]:
        """Every meter that a request of this session counts for."""
        yield from self.turn
        yield from self.thread
        if (above := self._above()) is not None:
            yield from above.tree
            yield from above.meters()

    def spent_below(self) -> BudgetReached | None:
        """Why a sub-agent of this session could make no request, if so."""
        for meter in (*self._top().tree, *self.meters()):
            if (spent := meter.is_spent()) is not None:
                return spent
        return None

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
        """Dollars, of many requests together; 0 where the price is not known."""
        prices = self._find_prices(model, None)
        return 0.0 if prices is None else prices.cost_of(usage) / 1_000_000

    # ---- requests ------------------------------------------------------------------------------

    async def reserve(self, model: str, tokens: int, tier: str | None = None) -> Reservation:
        """Set aside what a request may come to. Raises BudgetReached when there is nothing left for it."""
        while True:
            reservation = Reservation(model, tokens, tier)
            taken = self._try_reserve(reservation)
            if taken is None:
                return reservation
            await taken.changed()

    def _try_reserve(self, reservation: Reservation) -> Meter | None:
        """None when it worked; else the meter where others may use up what is left."""
        now_s = self._clock.monotonic()
        found = list(self.meters())
        for meter in found:
            meter.note_time(now_s)
        own, below = self._expected(reservation, found)
        try:
            for meter in found:
                expected = own if meter.ledger is self else below
                use = meter.expects(expected)
                if not meter.try_hold(use):
                    self._release(reservation)
                    return meter
                reservation.held.append((meter, use, expected.whose))
        except BudgetReached:
            self._release(reservation)
            raise
        return None

    def _expected(self, reservation: Reservation, meters: list[Meter]) -> tuple[Expected, Expected]:
        prices, bounds = self._prices_of(reservation, meters), self._bounds(reservation.model)
        output = min(bounds.output, bounds.window)
        reads = TokenUsage(input_tokens=bounds.window - output, output_tokens=output)
        least = Use(reservation.tokens, 1, _cost(prices, TokenUsage(input_tokens=reservation.tokens)))
        most = Use(bounds.window, 1, _cost(prices, reads)).at_least(least)
        return Expected("own", least, most), Expected("below", least, most)

    def _release(self, reservation: Reservation) -> None:
        for meter, use, whose in reservation.held:
            meter.settle(use, None, whose)
        reservation.held.clear()

    def count_retry(self, reservation: Reservation) -> None:
        """The request was answered in vain and is made once more. Raises BudgetReached when it may not be."""
        for meter, _, _ in reservation.held:
            meter.count_attempt()
        now_s = self._clock.monotonic()
        for meter, use, _ in reservation.held:
            meter.note_time(now_s)
            others = meter.reserved - use  # its own share is not in its way
            if (spent := meter.is_spent(others)) is not None:
                raise spent

    def commit(self, reservation: Reservation, usage: TokenUsage | None, *, has_reached: bool = True) -> None:
        """Book what a request came to; `usage` is None when nothing was counted."""
        now_s = self._clock.monotonic()
        usage = usage or TokenUsage()
        tokens = max(usage.total_tokens, usage.input_tokens + usage.output_tokens)
        came_to = Use(
            tokens, int(has_reached), _cost(self._top()._prices.get((reservation.model, reservation.tier)), usage)
        )
        for meter, use, whose in reservation.held:
            meter.note_time(now_s)
            meter.settle(use, came_to, whose)
            if (text := meter.warning()) is not None:
                meter.ledger.warn(text)
        for ledger in dict.fromkeys(meter.ledger for meter, _, _ in reservation.held):
            ledger.booked()
        reservation.held.clear()

    def _top(self) -> BudgetLedger:
        """The ledger of the session that a person opened."""
        above = self._above()
        return self if above is None else above._top()

    def _prices_of(self, reservation: Reservation, meters: list[Meter]) -> Prices | None:
        """None where no limit is in dollars, and where the price is not known: then that is said, once in the tree."""
        if not any(meter.limits.max_cost for meter in meters):
            return None
        top, model, key = self._top(), reservation.model, (reservation.model, reservation.tier)
        if key not in top._prices:
            top._prices[key] = self._find_prices(*key)
            if top._prices[key] is None:
                what = model if top._find_prices(model, None) is None else f"{model} with faster service"
                top.warn(
                    f"the cost of model {what} is unknown, so max_cost cannot be kept; "
                    f'a price under [spindle.prices."{model}"] would help'
                )
        return top._prices[key]


def _cost(prices: Prices | None, usage: TokenUsage) -> float:
    return 0.0 if prices is None else prices.cost_of_request(usage) / 1_000_000


def _shown(number: float) -> str:
    return str(number) if isinstance(number, int) else f"{number:.4f}".rstrip("0").rstrip(".")
