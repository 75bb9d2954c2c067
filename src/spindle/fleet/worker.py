"""A worker: attempts as tasks of one event loop, whatever engine has started it.

Sessions share the process, because agents wait most of the time. What a worker hears and says is passed in and out as
data; how that travels is the engine's business.
"""

from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import Callable
from typing import Protocol

import msgspec

from spindle.fleet.engine import Interrupt, Order, Release, Revoke
from spindle.fleet.exchange import FILES, Attempt, Failure, Outcome, Terms
from spindle.fleet.gate import Gate
from spindle.fleet.leases import GovernorLine, LeasedGate


class Bench(Protocol):
    """What tries tasks."""

    async def run(self, attempt: Attempt, gate: Gate) -> Outcome:
        """Cancelled, it cleans up and gives what the attempt came to."""
        ...

    def discard(self, folder: str) -> None:
        """The files of an outcome are not wanted any more."""
        ...


class Began(msgspec.Struct, frozen=True, kw_only=True, tag="began"):
    """An attempt has begun."""

    task: str
    attempt: int


class Over(msgspec.Struct, frozen=True, kw_only=True, tag="over"):
    """An attempt is over."""

    task: str
    attempt: int
    outcome: Outcome
    memory: int


class AttemptBench:
    """Real attempts. What dead workers left on this node is removed first."""

    def __init__(self, terms: Terms) -> None:
        from spindle.fleet.attempt import Workshop, run_attempt  # the whole engine comes with it

        self._terms = terms
        self._run = run_attempt
        self._workshop = Workshop(terms)
        self._workshop.sweep()

    async def run(self, attempt: Attempt, gate: Gate) -> Outcome:
        return await self._run(attempt, self._terms, gate, self._workshop)

    def discard(self, folder: str) -> None:
        self._workshop.discard(folder)


class Worker:
    """The attempts that run in this process."""

    def __init__(self, bench: Bench, line: GovernorLine, tell: Callable[[Began | Over], None]) -> None:
        self._bench = bench
        self._gate = LeasedGate(line)
        self._tell = tell
        self._running: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._unbegun: set[tuple[str, int]] = set()
        """Those of which nothing has happened yet: a task that is cancelled then would end without a word."""
        self._kept: dict[str, Over] = {}
        """Attempts that are over and whose files the driver may still want, by the folders of those."""

    def take(self, order: Order) -> None:
        match order:
            case Attempt():
                self._unbegun.add((order.task.id, order.number))
                self._running[order.task.id, order.number] = asyncio.create_task(self._try(order))
            case Interrupt():
                key = (order.task, order.attempt)
                if key in self._unbegun:
                    self._unbegun.discard(key)
                elif (running := self._running.get(key)) is not None:
                    running.cancel()
            case Revoke():
                self._gate.revoke(order.provider)
            case Release():
                self._kept.pop(order.folder, None)
                self._bench.discard(order.folder)

    @property
    def kept(self) -> list[Over]:
        """Those whose files are still here."""
        return [*self._kept.values()]

    @property
    def held(self) -> list[tuple[str, int]]:
        """Attempts that run, or are over and not released: task and number of each."""
        return [*self._running, *((over.task, over.attempt) for over in self.kept)]

    async def stop(self) -> None:
        """End every attempt and wait until nothing of them is left."""
        running = [*self._running.values()]
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
        while self._kept:
            self._bench.discard(self._kept.popitem()[0])

    async def _try(self, attempt: Attempt) -> None:
        name, number = attempt.task.id, attempt.number
        self._tell(Began(task=name, attempt=number))
        try:
            if (name, number) not in self._unbegun:
                raise asyncio.CancelledError
            self._unbegun.discard((name, number))
            outcome = await self._bench.run(attempt, self._gate)
        except asyncio.CancelledError:
            outcome = Outcome(ended="stopped")
        except Exception as error:  # a bug of ours must not take the other attempts with it
            reason = f"{type(error).__name__}: {error}"
            outcome = Outcome(ended="agent_failed", error=Failure(kind="internal", message=reason))
        finally:
            del self._running[name, number]
        if outcome.folder is not None:
            there = [name for name in FILES if os.path.lexists(f"{outcome.folder}/{name}")]
            outcome = msgspec.structs.replace(outcome, files=there)
        over = Over(task=name, attempt=number, outcome=outcome, memory=memory_in_use())
        if outcome.folder is not None:
            self._kept[outcome.folder] = over
        self._tell(over)


def memory_in_use() -> int:
    """Bytes of this process that are in memory; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def allow_files(attempts: int) -> None:
    """Each attempt has a few files and connections open, and the usual limit is made for one of them."""
    needed = 128 + 24 * attempts
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, allowed), hard))
