"""The gate of a worker: requests that the governor has given leave for, a few at a time.

How a worker reaches the governor is the engine's business (`GovernorLine`): a pipe, or a call to another machine.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Protocol

import msgspec

from spindle.fleet.exchange import Asking, Lease, Refusal, Spent
from spindle.fleet.gate import Leave, RunBudgetReached

Kind = tuple[str, str]
"""Provider and model."""
_AGAIN_S = 0.01


class GovernorLine(Protocol):
    """The way to the governor of the run."""

    async def lease(self, asking: Asking) -> Lease | Refusal:
        """Wait for the governor's word. The number in it names the lease from then on."""
        ...

    def settle(self, number: int, asked_tokens: int, spent: Spent) -> None:
        """A request of a lease is over."""
        ...

    def give_back(self, number: int, count: int) -> None:
        """So many requests of a lease will not be made."""
        ...


class _Open(msgspec.Struct):
    """A lease with requests that nobody has begun."""

    number: int
    left: int


class LeasedGate:
    """Stands before every request of a worker."""

    def __init__(self, line: GovernorLine) -> None:
        self._line = line
        self._open: dict[Kind, _Open] = {}
        self._asking: dict[Kind, asyncio.Task[None]] = {}
        self._waiting: Counter[Kind] = Counter()
        self._ended: str | None = None
        self.in_flight = 0

    async def admit(self, asking: Asking) -> Leave:
        kind = (asking.provider, asking.model)
        while True:
            if self._ended is not None:
                raise RunBudgetReached(self._ended)
            if (lease := self._open.get(kind)) is not None:
                lease.left -= 1
                if not lease.left:
                    del self._open[kind]
                self.in_flight += 1
                return Leave(asking=asking, held=lease.number)
            # One question at a time; whoever is stopped while it is open leaves the answer to the others.
            if kind not in self._asking:
                self._asking[kind] = asyncio.create_task(self._ask(kind, asking))
            self._waiting[kind] += 1
            try:
                await asyncio.shield(self._asking[kind])
            finally:
                self._waiting[kind] -= 1

    def settle(self, leave: Leave, spent: Spent) -> None:
        self.in_flight -= 1
        self._line.settle(leave.held, leave.asking.input_tokens, spent)

    def revoke(self, provider: str) -> None:
        """The server wants to be left alone: what is not begun is asked for again."""
        for kind in [kind for kind in self._open if kind[0] == provider]:
            self._close(kind)

    async def _ask(self, kind: Kind, asking: Asking) -> None:
        try:
            answer = await self._line.lease(asking)
        finally:
            del self._asking[kind]
        if isinstance(answer, Refusal):
            self._ended = answer.reason
            return
        self._open[kind] = _Open(answer.number, answer.granted)
        asyncio.get_running_loop().call_later(answer.valid_s, self._expire, kind, answer.number)

    def _expire(self, kind: Kind, number: int) -> None:
        lease = self._open.get(kind)
        if lease is None or lease.number != number:
            return
        if self._waiting[kind]:
            # Where there is much to do, those it was asked for have not even woken up: they would ask for ever.
            asyncio.get_running_loop().call_later(_AGAIN_S, self._expire, kind, number)
        else:
            self._close(kind)

    def _close(self, kind: Kind) -> None:
        lease = self._open.pop(kind)
        self._line.give_back(lease.number, lease.left)
