"""The gate of a worker: what it asks the governor, and what it gives back."""

from __future__ import annotations

import asyncio

import pytest

from spindle.fleet.exchange import Asking, Lease, Refusal, Spent
from spindle.fleet.gate import RunBudgetReached
from spindle.fleet.leases import LeasedGate

ASKING = Asking(provider="p", model="m", input_tokens=10)
SPENT = Spent(task="t", attempt=1, provider="p", model="m")


class Line:
    """A governor that answers when it is told to."""

    def __init__(self, granted: int = 3, valid_s: float = 60.0) -> None:
        self.granted, self.valid_s = granted, valid_s
        self.asked = 0
        self.settled: list[int] = []
        self.given_back: list[tuple[int, int]] = []
        self.open = asyncio.Event()
        self.open.set()
        self.refuses = False

    async def lease(self, asking: Asking) -> Lease | Refusal:
        self.asked += 1
        number = self.asked
        await self.open.wait()
        if self.refuses:
            return Refusal(number=number, reason="used up")
        return Lease(number=number, granted=self.granted, valid_s=self.valid_s)

    def settle(self, number: int, asked_tokens: int, spent: Spent) -> None:
        self.settled.append(number)

    def give_back(self, number: int, count: int) -> None:
        self.given_back.append((number, count))


async def test_a_lease_covers_as_many_requests_as_it_says_and_then_another_is_asked_for() -> None:
    line = Line(granted=3)
    gate = LeasedGate(line)
    leaves = await asyncio.gather(*(gate.admit(ASKING) for _ in range(7)))
    assert line.asked == 3 and [leave.held for leave in leaves] == [1, 1, 1, 2, 2, 2, 3]
    for leave in leaves:
        gate.settle(leave, SPENT)
    assert line.settled == [1, 1, 1, 2, 2, 2, 3] and gate.in_flight == 0


async def test_what_is_not_begun_in_time_is_given_back() -> None:
    line = Line(granted=3, valid_s=0.0)
    gate = LeasedGate(line)
    await gate.admit(ASKING)
    while not line.given_back:
        await asyncio.sleep(0)
    assert line.given_back == [(1, 2)]
    await gate.admit(ASKING)
    assert line.asked == 2


async def test_a_server_that_wants_to_be_left_alone_takes_back_the_leases_for_it_alone() -> None:
    line = Line()
    gate = LeasedGate(line)
    await gate.admit(ASKING)
    await gate.admit(Asking(provider="other", model="m", input_tokens=1))
    gate.revoke("p")
    assert line.given_back == [(1, 2)]
    await gate.admit(Asking(provider="other", model="m", input_tokens=1))
    assert line.asked == 2


async def test_a_request_that_is_stopped_while_it_waits_leaves_the_answer_to_the_next() -> None:
    line = Line(granted=1)
    gate = LeasedGate(line)
    line.open.clear()
    first, second = (asyncio.create_task(gate.admit(ASKING)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    line.open.set()
    assert (await second).held == 1 and line.asked == 1 and first.cancelled()


async def test_when_the_budget_of_the_run_is_used_up_nobody_is_let_through_any_more() -> None:
    line = Line()
    gate = LeasedGate(line)
    line.refuses = True
    waiting = [asyncio.create_task(gate.admit(ASKING)) for _ in range(3)]
    for task in waiting:
        with pytest.raises(RunBudgetReached, match="used up"):
            await task
    with pytest.raises(RunBudgetReached):
        await gate.admit(Asking(provider="other", model="m", input_tokens=1))
    assert line.asked == 1
