"""The governor as the driver runs it: workers that wait for leave, a timer, and whoever must hear what was spent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from spindle.fleet.exchange import Asking, Lease, Refusal, Spent
from spindle.fleet.governor import Governor
from spindle.protocol.clock import Clock


class SharedLimits:
    """The `Answers` of an engine on this machine."""

    def __init__(
        self,
        governor: Governor,
        clock: Clock,
        *,
        on_spent: Callable[[Spent], None],
        on_revoked: Callable[[str], None],
        on_ended: Callable[[], None],
    ) -> None:
        self.governor = governor
        self._clock = clock
        self._on_spent = on_spent
        self._on_revoked = on_revoked
        self._on_ended = on_ended
        self._waiting: dict[tuple[str, int], asyncio.Future[Lease | Refusal]] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def lease(self, worker: str, number: int, asking: Asking) -> Lease | Refusal:
        answer = self._waiting[worker, number] = asyncio.get_running_loop().create_future()
        self.governor.ask(worker, number, asking)
        self._decide()
        return await answer

    def settle(self, worker: str, number: int, asked_tokens: int, spent: Spent) -> None:
        self.governor.settle(worker, number, asked_tokens, spent)
        self._on_spent(spent)
        self._decide()

    def give_back(self, worker: str, number: int, count: int) -> None:
        self.governor.give_back(worker, number, count)
        self._decide()

    def forget(self, worker: str) -> None:
        self.governor.forget(worker)
        for key in [key for key in self._waiting if key[0] == worker]:
            self._waiting.pop(key).cancel()
        self._decide()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _decide(self) -> None:
        for worker, answer in self.governor.answers():
            waiting = self._waiting.pop((worker, answer.number), None)
            if waiting is not None and not waiting.done():
                waiting.set_result(answer)
        while self.governor.revoked:
            self._on_revoked(self.governor.revoked.pop())
        if self.governor.ended_because is not None:
            self._on_ended()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if (at := self.governor.wake_at()) is not None:
            delay = max(0.0, at - self._clock.monotonic())
            self._timer = asyncio.get_running_loop().call_later(delay, self._decide)
