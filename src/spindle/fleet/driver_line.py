"""A worker's line to the governor, over whatever carries its messages to the driver."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from spindle.fleet.exchange import Asking, Lease, Refusal, Spent
from spindle.fleet.worker_messages import Ask, GiveBack, Settle, ToDriver


class DriverLine:
    """Questions that were asked, and who waits for the answers."""

    def __init__(self, say: Callable[[ToDriver], None]) -> None:
        self._say = say
        self._asked: dict[int, tuple[Asking, asyncio.Future[Lease | Refusal]]] = {}
        self._count = 0

    async def lease(self, asking: Asking) -> Lease | Refusal:
        self._count += 1
        number, waiting = self._count, asyncio.get_running_loop().create_future()
        self._asked[number] = (asking, waiting)
        self._say(Ask(number=number, asking=asking))
        return await waiting

    def ask_again(self) -> None:
        """Ask a driver who was not there what another one did not come to answer."""
        for number, (asking, _) in self._asked.items():
            self._say(Ask(number=number, asking=asking))

    def answered(self, answer: Lease | Refusal) -> None:
        _, waiting = self._asked.pop(answer.number, (None, None))
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    def settle(self, number: int, asked_tokens: int, spent: Spent) -> None:
        self._say(Settle(number=number, asked_tokens=asked_tokens, spent=spent))

    def give_back(self, number: int, count: int) -> None:
        self._say(GiveBack(number=number, count=count))
