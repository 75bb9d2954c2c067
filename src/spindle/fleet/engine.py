"""What carries attempts to where they run, and what the driver hears of them. The rest of the fleet knows no engine.

An engine starts workers, gives each the attempts it is told to, and tells what becomes of them. It decides nothing:
which task runs where, what is tried again and what is recorded is the driver's.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

import msgspec

from spindle.errors import SpindleError
from spindle.fleet.exchange import Asking, Attempt, Lease, Outcome, Refusal, Spent, Terms


class EngineFailed(SpindleError):
    """Workers cannot be started, here or at all."""


class WorkerGone(EngineFailed):
    """A worker that was being started is gone; the next one need not be."""


class Answers(Protocol):
    """The driver's side of the limits that all workers share."""

    async def lease(self, worker: str, number: int, asking: Asking) -> Lease | Refusal: ...

    def settle(self, worker: str, number: int, asked_tokens: int, spent: Spent) -> None: ...

    def give_back(self, worker: str, number: int, count: int) -> None: ...

    def forget(self, worker: str) -> None: ...


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """What every worker of the run is told."""

    terms: Terms
    per_worker: int
    """How many attempts a worker has at a time."""
    run: str = ""
    """The name of the run."""
    heard: dict[str, int] = {}
    """The last word about money that was heard of each worker that has outlived its driver."""


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    """A worker that is ready."""

    name: str
    pid: int
    node: str
    held: frozenset[tuple[str, int]] = frozenset()
    """Task and number of the attempts that it brings along from the driver before, running or over."""
    is_outdated: bool = False
    """It works on other terms than those of the run now, and gets no new task."""


class Files(Protocol):
    """The files of an attempt that has ended, where its worker left them."""

    async def take(self, into: str) -> list[str]:
        """Put them into a new folder of the driver's, on disk; gives the names of those that lost their end."""
        ...

    async def drop(self) -> None:
        """The record is written, or nobody wants it: they can go."""
        ...


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt has begun."""

    worker: str
    task: str
    attempt: int


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt is over. Everything it spent was told before."""

    worker: str
    task: str
    attempt: int
    outcome: Outcome
    files: Files
    memory: int = 0
    """Bytes that its worker uses."""


class Lost(msgspec.Struct, frozen=True, kw_only=True):
    """A worker is gone, with whatever ran in it."""

    worker: str
    reason: str


Event = Started | Ended | Lost


class Interrupt(msgspec.Struct, frozen=True, kw_only=True, tag="interrupt"):
    """End an attempt before its time. It still ends, with what it came to by then."""

    task: str
    attempt: int


class Revoke(msgspec.Struct, frozen=True, kw_only=True, tag="revoke"):
    """Leases for this provider hold no longer."""

    provider: str


class Release(msgspec.Struct, frozen=True, kw_only=True, tag="release"):
    """The files of an attempt were taken, or nobody wants them."""

    folder: str


Order = Attempt | Interrupt | Revoke | Release


class Engine(Protocol):
    """Four calls. Only `start` raises EngineFailed."""

    async def start(self, spec: Spec, count: int) -> list[Worker]:
        """So many more workers, ready. Called again when one is to be replaced, or a task is to run alone.

        The first call also gives those that have outlived the driver before this one, however many they are."""
        ...

    def submit(self, worker: str, order: Order) -> None:
        """Begin an attempt, or say something of one. A worker that is gone is told as lost."""
        ...

    def events(self) -> AsyncIterator[Event]: ...

    async def stop(self, worker: str | None = None, *, patience_s: float = 0.0) -> None:
        """End a worker, or all: what runs there has so long to end by itself. Nothing of them is left afterwards."""
        ...
