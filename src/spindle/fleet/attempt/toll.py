"""The way of an attempt's model requests through the fleet's gate, and what they came to all together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

from spindle.core.gated_client import CameTo, Wanted
from spindle.fleet.exchange import Asking, Attempt, Spent, Used
from spindle.fleet.gate import Gate, Leave, RunBudgetReached
from spindle.protocol.request import Prices, TokenUsage

FindPrices = Callable[[str, str, str | None], Prices | None]


class Deadline:
    """The time of an attempt's turn. It stands still while a request waits for leave: limits that all tasks share must
    not use up the time of one."""

    def __init__(self) -> None:
        self._timer: asyncio.Timeout | None = None
        self._waiting = 0
        self._left_s = 0.0

    @asynccontextmanager
    async def within(self, seconds: float) -> AsyncIterator[None]:
        """Raises TimeoutError when what is done here takes longer."""
        try:
            async with asyncio.timeout(seconds) as self._timer:
                yield
        finally:
            self._timer = None

    @contextmanager
    def stopped(self) -> Iterator[None]:
        self._waiting += 1
        if self._waiting == 1 and (timer := self._running) is not None and (when := timer.when()) is not None:
            self._left_s = when - asyncio.get_running_loop().time()
            timer.reschedule(None)
        try:
            yield
        finally:
            self._waiting -= 1
            if not self._waiting and (timer := self._running) is not None and timer.when() is None:
                timer.reschedule(asyncio.get_running_loop().time() + self._left_s)

    @property
    def _running(self) -> asyncio.Timeout | None:
        return self._timer if self._timer is not None and not self._timer.expired() else None


class Toll:
    """Asks for every request of the attempt's session, its sub-agents and reviews, and adds up what they cost."""

    def __init__(self, attempt: Attempt, gate: Gate, find_prices: FindPrices) -> None:
        self._attempt = attempt
        self._gate = gate
        self._find_prices = find_prices
        self.deadline = Deadline()
        self.used = Used()
        self.cost_usd: float | None = 0.0
        """None once a price was not known."""
        self.is_run_spent = False
        """The budget of the whole run is used up."""

    async def enter(self, wanted: Wanted) -> OneRequest:
        asking = Asking(provider=wanted.provider, model=wanted.model, input_tokens=wanted.input_tokens)
        try:
            with self.deadline.stopped():
                leave = await self._gate.admit(asking)
        except RunBudgetReached:
            self.is_run_spent = True
            raise
        return OneRequest(self, leave, wanted)

    def book(self, leave: Leave, wanted: Wanted, came_to: CameTo) -> None:
        usage = came_to.usage or TokenUsage()
        used = Used(
            input_tokens=usage.input_tokens,
            cached_input_tokens=usage.cached_input_tokens,
            output_tokens=usage.output_tokens,
            reasoning_output_tokens=usage.reasoning_output_tokens,
            requests=int(came_to.has_reached),
        )
        cost = self._cost(wanted, usage)
        self.used += used
        self.cost_usd = None if cost is None or self.cost_usd is None else self.cost_usd + cost
        self._gate.settle(
            leave,
            Spent(
                task=self._attempt.task.id,
                attempt=self._attempt.number,
                provider=wanted.provider,
                model=wanted.model,
                used=used,
                cost_usd=cost,
                status=came_to.status,
                retry_after_s=came_to.retry_after_s,
            ),
        )

    def _cost(self, wanted: Wanted, usage: TokenUsage) -> float | None:
        if not usage.input_tokens and not usage.output_tokens:
            return 0.0
        prices = self._find_prices(wanted.provider, wanted.model, wanted.tier)
        return None if prices is None else prices.cost_of(usage) / 1_000_000


class OneRequest:
    """A request that was let through."""

    def __init__(self, toll: Toll, leave: Leave, wanted: Wanted) -> None:
        self._toll = toll
        self._leave = leave
        self._wanted = wanted

    def over(self, came_to: CameTo) -> None:
        self._toll.book(self._leave, self._wanted, came_to)
