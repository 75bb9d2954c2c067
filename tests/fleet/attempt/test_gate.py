"""Every model request of an attempt goes through the gate, and what it came to is told once."""

from __future__ import annotations

import asyncio
import json

from fake_server import Received, Turn, call, message, refuses, turn
from fleet_attempts import Fleet, runs
from spindle.fleet.exchange import Asking, Spent
from spindle.fleet.gate import Leave, RunBudgetReached


class NotingGate:
    """Notes what happens in its order, and lets so many requests through."""

    def __init__(self, most: int = 1000) -> None:
        self.told: list[str] = []
        self.spent: list[Spent] = []
        self.open: set[int] = set()
        self._most = most
        self._number = 0

    async def admit(self, asking: Asking) -> Leave:
        assert asking.provider == "fake" and asking.input_tokens > 0
        if self._number == self._most:
            raise RunBudgetReached
        self._number += 1
        self.open.add(self._number)
        self.told.append("admitted")
        return Leave(asking=asking, held=self._number)

    def settle(self, leave: Leave, spent: Spent) -> None:
        self.open.remove(leave.held)
        self.told.append(f"settled {spent.status or spent.used.output_tokens}")
        self.spent.append(spent)


def waits_for_its_agent(received: Received) -> Turn:
    outputs = [item["output"] for item in received.json["input"] if item["type"] == "function_call_output"]
    started = [json.loads(output)["agent_id"] for output in outputs if "agent_id" in output]
    if started and len(outputs) == 1:
        return turn(call("wait", {"ids": started}, "c2"), usage={"input": 900})
    return turn(message("done"))


async def test_each_repetition_of_a_request_is_admitted_and_each_refusal_told_at_once(fleet: Fleet) -> None:
    fleet.configure(retries=2)
    fleet.gate = gate = NotingGate()
    fleet.server.script(refuses(500), refuses(503, headers={"retry-after": "1"}), turn(message("done")))
    outcome = await fleet.run()
    assert outcome.ended == "ok", outcome.error
    assert gate.told == ["admitted", "settled 500", "admitted", "settled 503", "admitted", "settled 10"]
    assert gate.spent[1].retry_after_s == 1.0
    assert outcome.used.requests == 3 and not gate.open


async def test_a_429_is_told_with_the_time_that_the_server_asks_for(fleet: Fleet) -> None:
    fleet.gate = gate = NotingGate()
    fleet.server.script(refuses(429, {"error": {"message": "slow down"}}, headers={"retry-after": "7"}))
    outcome = await fleet.run()
    assert (outcome.ended, outcome.may_retry) == ("model_error", True)
    assert [(spent.status, spent.retry_after_s) for spent in gate.spent] == [(429, 7.0)]
    assert outcome.cost_usd == 0.0


async def test_a_server_that_cannot_be_reached_was_not_asked(fleet: Fleet) -> None:
    text = (fleet.home / "config.toml").read_text().replace(fleet.server.base_url, "http://127.0.0.1:9/v1")
    (fleet.home / "config.toml").write_text(text)
    fleet.gate = gate = NotingGate()
    await fleet.run()
    assert [spent.used.requests for spent in gate.spent] == [0] and not gate.open


async def test_at_the_end_of_the_runs_budget_an_attempt_is_stopped_and_not_recorded(fleet: Fleet) -> None:
    fleet.gate = gate = NotingGate(most=1)
    fleet.server.script(*runs("true"))
    outcome = await fleet.run()
    assert outcome.ended == "stopped" and not outcome.may_retry
    assert outcome.used.requests == 1 and len(fleet.server.turns_asked) == 1
    assert not gate.open and fleet.left() == []


async def test_whoever_is_stopped_while_waiting_for_leave_or_for_an_answer_leaves_no_leave_open(fleet: Fleet) -> None:
    waiting = asyncio.Event()

    class Slow(NotingGate):
        async def admit(self, asking: Asking) -> Leave:
            waiting.set()
            await asyncio.sleep(100)
            return await super().admit(asking)

    fleet.gate = Slow()
    task = fleet.start()
    await waiting.wait()
    task.cancel()
    assert (await task).ended == "stopped" and not fleet.server.requests

    fleet.gate = gate = NotingGate()
    fleet.server.script(turn(message("a long answer", deltas=5), hang_after=4))
    task = fleet.start()
    while not fleet.server.turns_asked:
        await asyncio.sleep(0.01)
    task.cancel()
    assert (await task).ended == "stopped"
    assert not gate.open and len(gate.spent) == 1


async def test_sub_agents_and_compactions_go_through_the_gate(fleet: Fleet) -> None:
    fleet.configure("model_auto_compact_token_limit = 500\n[features]\ncollab = true\n")
    fleet.gate = gate = NotingGate()
    fleet.server.script(turn(call("spawn_agent", {"message": "look around"}, "c1")))
    fleet.server.otherwise(waits_for_its_agent)
    outcome = await fleet.run()
    assert outcome.ended == "ok", outcome.error
    asked = len(fleet.server.turns_asked)
    assert asked >= 5, "the first, the sub-agent's, the one that waits, a summary, and the last"
    assert len(gate.spent) == asked == outcome.used.requests
    assert not gate.open


async def test_an_answer_that_breaks_off_is_booked_as_far_as_it_came(fleet: Fleet) -> None:
    fleet.gate = gate = NotingGate()
    fleet.server.script(turn(message("half of an answer", deltas=4), drop_after=4))
    outcome = await fleet.run()
    assert outcome.ended == "model_error"
    assert gate.spent[0].used.input_tokens > 0 and (gate.spent[0].cost_usd or 0) > 0


class SlowGate(NotingGate):
    """Lets each request wait for longer than a turn may take."""

    async def admit(self, asking: Asking) -> Leave:
        await asyncio.sleep(3.0)
        return await super().admit(asking)


async def test_time_at_the_gate_is_not_counted_as_time_of_the_attempt(fleet: Fleet) -> None:
    fleet.gate = gate = SlowGate()
    outcome = await fleet.run(timeout=2.5)
    assert outcome.ended == "ok", outcome.error
    assert gate.told.count("admitted") == 1


async def test_after_the_gate_the_time_of_the_attempt_goes_on(fleet: Fleet) -> None:
    fleet.gate = SlowGate()
    fleet.server.script(turn(message("never"), delay_s=3600))
    outcome = await fleet.run(timeout=2.5)
    assert outcome.ended == "timeout", outcome.error
