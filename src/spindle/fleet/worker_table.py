"""The workers of an engine by their names, and what they tell: the same whatever carries their words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Generic, Protocol, TypeVar

from spindle.fleet.attempt.places import sweep
from spindle.fleet.engine import Event, Lost, Order


class Reached(Protocol):
    """A worker as the driver reaches it."""

    name: str

    def say(self, message: Order) -> None: ...

    async def end(self, patience_s: float) -> None:
        """End it, whatever it does. What it tells until then still counts."""
        ...


One = TypeVar("One", bound=Reached)


class WorkerTable(Generic[One]):
    """Three of the four calls of an engine."""

    def __init__(self) -> None:
        self._workers: dict[str, One] = {}
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._count = 0
        self._cache: str | None = None
        """Where a worker of this machine that was killed may have left something."""

    def _next_name(self) -> str:
        self._count += 1
        return f"w{self._count}"

    def submit(self, worker: str, order: Order) -> None:
        if (known := self._workers.get(worker)) is not None:
            known.say(order)

    async def events(self) -> AsyncIterator[Event]:
        while True:
            event = await self._events.get()
            if isinstance(event, Lost):
                self._workers.pop(event.worker, None)
            yield event

    async def stop(self, worker: str | None = None, *, patience_s: float = 0.0) -> None:
        names = [*self._workers] if worker is None else [worker]
        ending = [known for name in names if (known := self._workers.pop(name, None)) is not None]
        await asyncio.gather(*(known.end(patience_s) for known in ending))
        if worker is None and self._cache is not None:
            await asyncio.to_thread(sweep, self._cache)  # here; on other nodes the next worker does it
