"""A worker: whatever it is told of an attempt, and whenever, the attempt ends with a word."""

from __future__ import annotations

import asyncio

from spindle.fleet.engine import Interrupt
from spindle.fleet.exchange import Asking, Attempt, Lease, Outcome, Refusal, Spent, Task
from spindle.fleet.gate import Gate
from spindle.fleet.worker import Began, Over, Worker


class Bench:
    """Attempts that take until they are ended."""

    async def run(self, attempt: Attempt, gate: Gate) -> Outcome:
        await asyncio.Event().wait()
        raise AssertionError

    def discard(self, folder: str) -> None:
        raise AssertionError


class NoLine:
    """Nobody asks a model here."""

    async def lease(self, asking: Asking) -> Lease | Refusal:
        raise AssertionError

    def settle(self, number: int, asked_tokens: int, spent: Spent) -> None:
        raise AssertionError

    def give_back(self, number: int, count: int) -> None:
        raise AssertionError


async def test_an_attempt_that_is_ended_before_it_has_begun_is_told_as_stopped() -> None:
    told: list[Began | Over] = []
    worker = Worker(Bench(), NoLine(), told.append)
    worker.take(Attempt(task=Task(id="t", prompt="do it"), number=1))
    worker.take(Interrupt(task="t", attempt=1))
    for _ in range(3):
        await asyncio.sleep(0)
    assert [type(message) for message in told] == [Began, Over]
    assert isinstance(told[1], Over) and told[1].outcome.ended == "stopped" and worker.held == []
