"""Budgets: what a turn, a thread and sub-agents may use; what runs is finished, and the next request is not made."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sessions import Start
from spindle.api.hook_functions import HookMatcher, function_hooks
from spindle.config.load import load_config
from spindle.core import day_budget
from spindle.core.budget import BudgetLedger, Meter, Use
from spindle.core.budgeted_client import BudgetedClient
from spindle.core.day_budget import DayMeter
from spindle.errors import BudgetReached, ConfigError, ModelError
from spindle.features.budget.past import KIND
from spindle.model.client import Completed, ModelEvent
from spindle.model.scripted import ScriptedModel, calls, drops, fails, says
from spindle.protocol.clock import FixedClock, SystemClock
from spindle.protocol.events import Error, ExecCommandEnd, Msg, TaskComplete, Warning
from spindle.protocol.ops import BadSubmission, Compact, UserInput, UserTurn, decode_submission
from spindle.protocol.request import Prices, Request, TokenUsage
from spindle.protocol.settings import BudgetLimits


def used(tokens: int) -> TokenUsage:
    return TokenUsage(input_tokens=tokens - 1, output_tokens=1, total_tokens=tokens)


def run(call_id: str, tokens: int = 100, script: str = "echo hi") -> Any:
    return calls("exec_command", {"cmd": script}, call_id, usage=used(tokens))


def budget(**tables: Any) -> dict[str, Any]:
    return {"spindle": {"budget": tables}}


def failure(msgs: list[Msg]) -> Error | None:
    """Why the turn failed; it has ended all the same."""
    assert isinstance(msgs[-1], TaskComplete)
    errors = [msg for msg in msgs if isinstance(msg, Error)]
    assert len(errors) < 2 and (not errors or msgs[-1].last_agent_message is None)
    return errors[0] if errors else None


def warnings(msgs: list[Msg]) -> list[str]:
    return [msg.message for msg in msgs if isinstance(msg, Warning)]


def reached(driver: Any, limit: str, scope: str, how: str) -> str:
    return (
        f"Budget reached: {limit} {how} {scope}. Work so far is saved; "
        f"continue with: spindle exec resume {driver.session.thread_id}"
    )


# ---- a turn ----------------------------------------------------------------------------------------


async def test_what_runs_is_finished_and_the_next_request_is_not_made(start: Start, workspace: Path) -> None:
    driver = await start(config=budget(max_requests=2))
    msgs = await driver.turn("go", run("c1"), run("c2", script="touch two"))
    error = failure(msgs)
    assert error == Error(
        message=reached(driver, "max_requests", "in this turn", "= 2 (2 used)"),
        codex_error_info="budget_exceeded",
        budget={"scope": "turn", "limit": "max_requests", "max": 2, "used": 2},
    )
    assert len(driver.model.requests) == 2 and (workspace / "two").exists()
    assert [msg.call_id for msg in msgs if isinstance(msg, ExecCommandEnd)] == ["c1", "c2"]
    again = await driver.turn("go on", says("end"))
    assert failure(again) is None and driver.inputs[2][-2]["call_id"] == "c2"  # its output was told with the new turn


async def test_a_turn_that_needs_no_more_is_not_disturbed(start: Start) -> None:
    driver = await start(config=budget(max_requests=2, max_tokens=200))
    msgs = await driver.turn("go", run("c1"), says("end", usage=used(100)))
    assert failure(msgs) is None and warnings(msgs) == []


@pytest.mark.parametrize(
    ("limits", "limit", "how"),
    [
        ({"max_tokens": 150}, "max_tokens", "= 150 (200 used)"),
        ({"max_tokens": 1_234_567, "max_requests": 2}, "max_requests", "= 2 (2 used)"),
        ({"max_cost": 0.0000001}, "max_cost", "= 0 (0.0002 used)"),
    ],
)
async def test_the_first_limit_that_is_used_up_decides(start: Start, limits: Any, limit: str, how: str) -> None:
    prices = {"gpt-5.2": {"input": 1.0, "cached_input": 0.1, "output": 10.0}}
    driver = await start(config={"spindle": {"budget": limits, "prices": prices}})
    error = failure(await driver.turn("go", run("c1"), run("c2"), run("c3")))
    assert error is not None and error.message.startswith(f"Budget reached: {limit} ")
    if limit != "max_cost":
        assert error.message == reached(driver, limit, "in this turn", how)


async def test_seconds_are_looked_at_when_the_command_has_ended(start: Start) -> None:
    clock = FixedClock()
    driver = await start(config=budget(max_seconds=5), clock=clock)
    sub_id = driver.begin("go")
    driver.model.script(lambda request: (clock.advance(6), run("c1"))[1], says("never"))
    msgs = await driver.end_of(sub_id)
    error = failure(msgs)
    assert error is not None and error.budget == {"scope": "turn", "limit": "max_seconds", "max": 5, "used": 6.0}
    assert any(isinstance(msg, ExecCommandEnd) for msg in msgs) and len(driver.model.requests) == 1


async def test_retries_count_and_are_refused_too(start: Start) -> None:
    driver = await start(config=budget(max_requests=2))
    msgs = await driver.turn("go", drops(retry_after_s=0), drops(retry_after_s=0), says("never"))
    error = failure(msgs)
    assert error is not None and error.budget == {"scope": "turn", "limit": "max_requests", "max": 2, "used": 2}
    assert len(driver.model.requests) == 2


@pytest.mark.parametrize(("status", "counts"), [(404, 1), (None, 0)])
async def test_a_request_that_a_server_refused_counts_and_one_that_reached_none_does_not(
    start: Start, status: int | None, counts: int
) -> None:
    driver = await start(config=budget(thread={"max_requests": 5}))
    await driver.turn("go", fails(ModelError("no", {"http_connection_failed": {"http_status_code": status}})))
    (line,) = [record.payload for record in driver.session.thread.history.records if record.kind == KIND]
    assert line["requests"] == counts


async def test_a_compaction_counts_and_is_refused_too(start: Start) -> None:
    driver = await start(config=budget(max_requests=1) | {"features": {"remote_compaction": False}})
    await driver.turn("go", says("one"))
    driver.model.script(says("a summary"))
    done = await driver.end_of(driver.submit(Compact()))
    assert failure(done) is None and len(driver.model.requests) == 2
    config = budget(max_requests=1) | {"model_auto_compact_token_limit": 1000}
    driver = await start(config=config)
    await driver.turn("go", says("one", usage=used(5000)))
    msgs = await driver.turn("more", says("a summary"), says("never"))
    error = failure(msgs)
    assert error is not None and error.codex_error_info == "budget_exceeded"
    assert error.message.startswith("Budget reached: max_requests = 1 (1 used) in this turn.")


async def test_at_four_fifths_there_is_one_warning(start: Start) -> None:
    driver = await start(config=budget(max_requests=10, max_tokens=10_000))
    msgs = await driver.turn("go", *(run(f"c{number}") for number in range(8)), says("end"))
    assert failure(msgs) is None
    assert warnings(msgs) == ["80% of a budget is used: max_requests = 10 (8 used) in this turn"]


async def test_the_price_of_an_unknown_model_is_not_taken_for_zero_and_the_turn_runs(start: Start) -> None:
    driver = await start(config=budget(max_cost=0.000001), model="nobody-knows-7b")
    msgs = await driver.turn("go", run("c1", 10_000), says("end"))
    assert failure(msgs) is None
    (text,) = [text for text in warnings(msgs) if "cost" in text]
    assert text == (
        "the cost of model nobody-knows-7b is unknown, so max_cost cannot be kept; "
        'a price under [spindle.prices."nobody-knows-7b"] would help'
    )


@pytest.mark.parametrize(
    ("model", "tier", "cost"),
    [("gpt-6.1-sol", None, 0.2), ("gpt-6.1-sol", "flex", 0.2), ("gpt-6.1-sol", "priority", 0.4), ("o3", "fast", None)],
)
async def test_faster_service_costs_more(start: Start, model: str, tier: str | None, cost: float | None) -> None:
    config = budget(max_cost=0.1) | ({"service_tier": tier} if tier else {})
    driver = await start(config=config, model=model)
    usage = TokenUsage(input_tokens=100_000, output_tokens=0, total_tokens=100_000)
    msgs = await driver.turn("go", calls("update_plan", {"plan": []}, "c1", usage=usage), says("end"))
    error = failure(msgs)
    if cost is None:
        assert error is None and warnings(msgs) == [
            "the cost of model o3 with faster service is unknown, so max_cost cannot be kept; "
            'a price under [spindle.prices."o3"] would help'
        ]
    else:
        assert error is not None and error.budget is not msgspec.UNSET and error.budget["used"] == cost


async def test_a_turn_can_bring_a_budget_along(start: Start) -> None:
    driver = await start()
    msgs = await driver.turn("go", run("c1"), run("c2"), budget=BudgetLimits(max_requests=1))
    error = failure(msgs)
    assert error is not None and error.budget == {"scope": "turn", "limit": "max_requests", "max": 1, "used": 1}
    again = await driver.turn("more", says("end"), budget=BudgetLimits(max_requests=5, max_tokens=10_000))
    assert failure(again) is None
    free = await driver.turn("and more", run("c3"), run("c4"), says("end"))
    assert failure(free) is None


async def test_input_that_comes_too_late_for_a_turn_is_within_its_budget(start: Start) -> None:
    async def says_more(data: dict[str, Any]) -> None:
        driver.submit(UserInput(items=[{"type": "text", "text": "and that"}], mode="steer"), "late")
        await driver.session.settle()

    driver = await start(hooks=function_hooks({"Stop": [HookMatcher(None, says_more)]}))
    msgs = await driver.turn("go", says("one"), says("never"), budget=BudgetLimits(max_requests=1))
    assert failure(msgs) is None
    rest = failure(await driver.end_of("late"))
    assert rest is not None and rest.budget == {"scope": "turn", "limit": "max_requests", "max": 1, "used": 1}


async def test_an_ephemeral_thread_is_not_said_to_be_saved(start: Start) -> None:
    driver = await start(config=budget(max_requests=1), ephemeral=True)
    error = failure(await driver.turn("go", run("c1")))
    assert error is not None and error.message == "Budget reached: max_requests = 1 (1 used) in this turn."


# ---- a thread --------------------------------------------------------------------------------------


async def test_a_thread_keeps_its_budget_over_processes_until_it_is_raised(start: Start) -> None:
    config = budget(thread={"max_tokens": 500})
    first = await start(config=config)
    assert failure(await first.turn("P1", says("one", usage=used(600)))) is None
    thread_id = first.session.thread_id
    await first.close()
    second = await start(config=config, thread=thread_id)
    error = failure(await second.turn("P2", says("never")))
    assert error is not None and second.model.requests == []
    assert error.message == reached(second, "max_tokens", "in this thread", "= 500 (600 used)")
    await second.close()
    third = await start(config=budget(thread={"max_tokens": 5000}), thread=thread_id)
    assert failure(await third.turn("P3", says("two"))) is None
    said = [part["text"] for item in third.inputs[0] for part in item.get("content", ())]
    assert "P2" in said  # what could not be sent is in the record


@pytest.mark.parametrize("had_budget", [True, False])
async def test_requests_of_former_processes_are_known_from_the_record(start: Start, had_budget: bool) -> None:
    first = await start(config=budget(thread={"max_requests": 100}) if had_budget else None)
    await first.turn("P1", run("c1"), drops(retry_after_s=0), says("one"))
    await first.turn("P2", says("two"))
    thread_id = first.session.thread_id
    await first.close()
    counted = 4 if had_budget else 3  # nobody wrote the retry down
    second = await start(config=budget(thread={"max_requests": counted + 1}), thread=thread_id)
    error = failure(await second.turn("P3", run("c2"), says("never")))
    assert error is not None and len(second.model.requests) == 1
    assert error.budget == {"scope": "thread", "limit": "max_requests", "max": counted + 1, "used": counted + 1}


async def test_seconds_of_a_thread_are_those_of_its_turns(start: Start) -> None:
    clock = FixedClock()
    driver = await start(config=budget(thread={"max_seconds": 10}), clock=clock)
    for _ in range(3):
        sub_id = driver.begin("go")
        driver.model.script(lambda request: (clock.advance(4), says("one"))[1])
        assert failure(await driver.end_of(sub_id)) is None
        clock.advance(1000)
    error = failure(await driver.turn("go", says("never")))
    assert error is not None and error.budget == {"scope": "thread", "limit": "max_seconds", "max": 10, "used": 12.0}


async def test_a_thread_without_a_budget_leaves_no_lines_about_it(start: Start) -> None:
    driver = await start(config=budget(max_requests=5))
    await driver.turn("go", says("one"))
    assert not [record for record in driver.session.thread.history.records if record.kind == "spindle_budget"]


async def test_the_caller_limits_a_thread_as_long_as_it_is_open(start: Start) -> None:
    driver = await start(budget=BudgetLimits(max_requests=2))
    await driver.turn("P1", says("one"))
    await driver.turn("P2", says("two"))
    error = failure(await driver.turn("P3", says("never")))
    assert error is not None and error.budget == {"scope": "thread", "limit": "max_requests", "max": 2, "used": 2}
    thread_id = driver.session.thread_id
    await driver.close()
    again = await start(budget=BudgetLimits(max_requests=2), thread=thread_id)
    assert failure(await again.turn("P4", says("three"))) is None


# ---- sub-agents ------------------------------------------------------------------------------------

SPAWN = calls("spawn_agent", {"message": "AGENT-TASK"}, "a1")


def waits_for_agent(request: Any) -> Any:
    (told,) = [item["output"] for item in request.input if item.get("call_id") == "a1" and "output" in item]
    return calls("wait", {"ids": [json.loads(told)["agent_id"]], "timeout_ms": 20_000}, "a2")


def of_agent(request: Any) -> bool:
    return "PARENT-TASK" not in json.dumps(request.input)


@pytest.mark.parametrize(
    ("tables", "scope"), [({"max_requests": 4}, "turn"), ({"thread": {"max_requests": 4}}, "thread")]
)
async def test_what_sub_agents_use_counts_for_the_turn_and_the_thread(start: Start, tables: Any, scope: str) -> None:
    """Two requests of the parent, and those of its sub-agent, which would go on for long."""
    asked: list[str] = []

    def answer(request: Any) -> Any:
        asked.append("agent" if of_agent(request) else "parent")
        if of_agent(request):
            return run(f"c{len(asked)}")
        return waits_for_agent(request) if asked.count("parent") > 1 else SPAWN

    driver = await start(config=budget(**tables) | {"features": {"collab": True}})
    sub_id = driver.begin("PARENT-TASK")
    driver.model.script(*[answer] * 20)
    error = failure(await driver.end_of(sub_id))
    assert error is not None and error.budget == {"scope": scope, "limit": "max_requests", "max": 4, "used": 4}
    assert sorted(asked) == ["agent", "agent", "parent", "parent"]


async def test_sub_agents_have_a_budget_of_their_own_together(start: Start) -> None:
    asked: list[str] = []

    def answer(request: Any) -> Any:
        if of_agent(request):
            asked.append("agent")
            return run(f"c{len(asked)}")
        said = json.dumps(request.input)
        return says("end") if '"a2"' in said else waits_for_agent(request) if '"a1"' in said else SPAWN

    driver = await start(config=budget(tree={"max_requests": 2}) | {"features": {"collab": True}})
    sub_id = driver.begin("PARENT-TASK")
    driver.model.script(*[answer] * 20)
    assert failure(await driver.end_of(sub_id)) is None
    told = [item["output"] for item in driver.inputs[-1] if item.get("call_id") == "a2" and "output" in item]
    assert "Budget reached: max_requests = 2 (2 used) by the sub-agents of this thread." in told[0]
    assert len(asked) == 2


async def test_what_sub_agents_used_together_is_known_in_another_process(start: Start) -> None:
    """Under the older name of the limit, too."""

    def answer(request: Any) -> Any:
        if of_agent(request):
            return says("done", usage=used(700))
        said = json.dumps(request.input)
        return says("end") if '"a2"' in said else waits_for_agent(request) if '"a1"' in said else SPAWN

    config = {"spindle": {"agents": {"max_tokens": 600}}, "features": {"collab": True}}
    first = await start(config=config)
    sub_id = first.begin("PARENT-TASK")
    first.model.script(*[answer] * 5)
    assert failure(await first.end_of(sub_id)) is None
    thread_id = first.session.thread_id
    await first.close()
    second = await start(config=config, thread=thread_id)
    await second.turn("PARENT-TASK once more", calls("spawn_agent", {"message": "x"}, "a3"), says("end"))
    told = [item["output"] for item in second.inputs[-1] if item.get("call_id") == "a3" and "output" in item]
    assert "Budget reached: max_tokens = 600 (700 used) by the sub-agents of this thread." in told[0]


async def test_the_unknown_price_of_a_model_is_said_once_for_all_sub_agents(start: Start) -> None:
    def answer(request: Any) -> Any:
        if of_agent(request):
            return says("done")
        said = json.dumps(request.input)
        return says("end") if '"a2"' in said else waits_for_agent(request) if '"a1"' in said else SPAWN

    config = budget(max_cost=1.0) | {"features": {"collab": True}}
    driver = await start(config=config, model="nobody-knows-7b")
    sub_id = driver.begin("PARENT-TASK")
    driver.model.script(*[answer] * 5)
    await driver.end_of(sub_id)
    everything = json.dumps([msgspec.to_builtins(event.msg) for event in driver.events])
    assert everything.count("so max_cost cannot be kept") == 1


@pytest.mark.parametrize("scope", ["turn", "tree"])
async def test_fifty_sub_agents_racing_pass_a_limit_by_one_request_at_most(start: Start, scope: str) -> None:
    """Each request comes to far more than its size tells, and the parent's own were small."""
    asked: list[int] = []
    limit, each = 50_000, 9_000

    def answer(request: Any) -> Any:
        if of_agent(request):
            asked.append(each)
            return says("done", usage=used(each), delay_s=0.05)  # the others ask meanwhile
        said = json.dumps(request.input)
        if '"function_call_output"' in said:
            told = [item["output"] for item in request.input if item.get("type") == "function_call_output"]
            if any("timed_out" in output for output in told):
                return says("end", usage=used(10))
            ids = [json.loads(output)["agent_id"] for output in told if output.startswith("{")]
            return calls("wait", {"ids": ids, "timeout_ms": 20_000}, "w", usage=used(10))
        return [calls("spawn_agent", {"message": f"T{number}"}, f"a{number}", usage=used(10)) for number in range(50)]

    tables = {"max_tokens": limit} if scope == "turn" else {"tree": {"max_tokens": limit}}
    config = budget(**tables) | {"features": {"collab": True}, "agents": {"max_threads": 50}}
    driver = await start(config=config)
    sub_id = driver.begin("PARENT-TASK")
    driver.model.script(*[answer] * 60)
    await driver.end_of(sub_id)
    assert limit <= sum(asked) < limit + each, "all there is, and one request more"


# ---- a day -----------------------------------------------------------------------------------------


async def test_all_threads_of_a_home_share_the_budget_of_a_day(start: Start) -> None:
    config = budget(day={"max_tokens": 1000})
    first = await start(config=config)
    assert failure(await first.turn("P1", says("one", usage=used(600)))) is None
    second = await start(config=config)
    msgs = await second.turn("P2", says("two", usage=used(350)))
    assert failure(msgs) is None and warnings(msgs) == ["80% of a budget is used: max_tokens = 1000 (950 used) today"]
    assert failure(await first.turn("P3", says("three", usage=used(100)))) is None
    error = failure(await second.turn("P4", says("never")))
    assert error == Error(
        message=reached(second, "max_tokens", "today", "= 1000 (1050 used)"),
        codex_error_info="budget_exceeded",
        budget={"scope": "day", "limit": "max_tokens", "max": 1000, "used": 1050},
    )


async def test_a_new_day_has_a_new_budget(start: Start) -> None:
    clock = FixedClock()
    driver = await start(config=budget(day={"max_requests": 1}), clock=clock)
    assert failure(await driver.turn("P1", says("one"))) is None
    assert failure(await driver.turn("P2", says("never"))) is not None
    clock.advance(24 * 3600)
    assert failure(await driver.turn("P3")) is None, "what was scripted before is said now"


async def test_what_was_used_today_without_such_a_budget_is_read_from_the_record(start: Start) -> None:
    prices = {"prices": {"gpt-5.2": {"input": 10.0, "output": 0.0}}}
    clock = SystemClock()  # files are as old as they are
    first = await start(config={"spindle": prices}, clock=clock)
    await first.turn("P1", run("c1", 100_001), says("one", usage=used(50_001)))
    limits = {"budget": {"day": {"max_cost": 1.5, "max_requests": 9}}}
    second = await start(config={"spindle": prices | limits}, clock=clock)
    error = failure(await second.turn("P2", says("never")))
    assert error is not None and error.budget == {"scope": "day", "limit": "max_cost", "max": 1.5, "used": 1.5}


async def test_seconds_of_a_day_are_those_of_all_turns(start: Start) -> None:
    clock = FixedClock()
    config = budget(day={"max_seconds": 10})
    driver = await start(config=config, clock=clock)
    for number in range(3):
        driver = await start(config=config, clock=clock)
        sub_id = driver.begin("go")
        driver.model.script(lambda request: (clock.advance(4), says("one"))[1])
        assert failure(await driver.end_of(sub_id)) is None, number
    error = failure(await driver.turn("go", says("never")))
    assert error is not None and error.budget == {"scope": "day", "limit": "max_seconds", "max": 10, "used": 12.0}


async def test_every_second_of_a_turn_with_several_requests_counts_for_the_day(start: Start) -> None:
    clock = FixedClock()
    driver = await start(config=budget(day={"max_seconds": 10}), clock=clock)
    for number in range(2):
        sub_id = driver.begin("go")
        driver.model.script(
            lambda request: (clock.advance(3), run(f"c{number}"))[1],  # noqa: B023  asked before the next one
            lambda request: (clock.advance(3), says("one"))[1],
        )
        assert failure(await driver.end_of(sub_id)) is None, number
    error = failure(await driver.turn("go", says("never")))
    assert error is not None and error.budget == {"scope": "day", "limit": "max_seconds", "max": 10, "used": 12.0}


# ---- the ledger ------------------------------------------------------------------------------------


def ledger_of(**limits: Any) -> tuple[BudgetLedger, Meter]:
    ledger = BudgetLedger(clock=FixedClock(), find_prices=lambda model, tier: Prices(input=1.0), thread_id="t")
    ledger.begin_turn(Meter(ledger, "turn", BudgetLimits(**limits)))
    return ledger, ledger.turn[0]


async def many(ledgers: list[BudgetLedger], tokens: int) -> int:
    """How many requests could be made by all who ask at once, again and again, until there is nothing left."""
    made = 0

    async def work(ledger: BudgetLedger) -> None:
        nonlocal made
        while True:
            try:
                reservation = await ledger.reserve("m", 10)
            except BudgetReached:
                return
            made += 1
            await asyncio.sleep(0)
            ledger.commit(reservation, used(tokens))

    await asyncio.gather(*map(work, ledgers))
    return made


async def test_with_many_at_work_a_limit_is_passed_by_one_request_at_most() -> None:
    """Fifty ask at once; each request comes to 1,000 tokens, and its estimate is far too low."""
    ledger, meter = ledger_of(max_tokens=10_500)
    assert await many([ledger] * 50, 1000) == 11
    assert (meter.used.tokens, meter.reserved.tokens) == (11_000, 0)


async def test_a_request_waits_while_others_may_use_up_what_is_left_and_goes_on_if_they_do_not() -> None:
    ledger, meter = ledger_of(max_requests=2)
    first, second = await ledger.reserve("m", 1), await ledger.reserve("m", 1)
    third = asyncio.ensure_future(ledger.reserve("m", 1))
    await asyncio.sleep(0)
    assert not third.done()
    ledger.commit(first, None, has_reached=False)
    ledger.commit(await third, None)
    assert (meter.used.requests, meter.reserved.requests) == (1, 1)
    ledger.commit(second, None)
    with pytest.raises(BudgetReached) as refused:
        await ledger.reserve("m", 1)
    assert refused.value.budget == {"scope": "turn", "limit": "max_requests", "max": 2, "used": 2}


async def test_somebody_who_stops_waiting_is_in_nobodys_way() -> None:
    ledger, meter = ledger_of(max_requests=1)
    first = await ledger.reserve("m", 1)
    waiting = asyncio.ensure_future(ledger.reserve("m", 1))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    ledger.commit(first, None, has_reached=False)
    assert meter.reserved.requests == 0
    ledger.commit(await ledger.reserve("m", 1), None)


def day_of(home: Path, clock: FixedClock, **limits: Any) -> BudgetLedger:
    ledger = BudgetLedger(clock=clock, find_prices=lambda model, tier: None, thread_id="t")
    meter = DayMeter(ledger, BudgetLimits(**limits), home=str(home), clock=clock, past=lambda moment: (Use(), 0.0))
    meter.poll_s = 0.001
    ledger.thread.append(meter)
    return ledger


async def test_processes_that_race_on_a_day_pass_its_limit_by_one_request_at_most(tmp_path: Path) -> None:
    clock = FixedClock()
    ledgers = [day_of(tmp_path, clock, max_tokens=5_500) for _ in range(20)]
    assert await many(ledgers, 1000) == 6


def started(racers: list[subprocess.Popen[str]]) -> list[subprocess.Popen[str]]:
    """All of them, with the word to go."""
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    return racers


RACER = """
import asyncio, sys
from spindle.core.budget import BudgetLedger, Use
from spindle.core.day_budget import DayMeter
from spindle.errors import BudgetReached
from spindle.protocol.clock import SystemClock
from spindle.protocol.settings import BudgetLimits

async def race():
    clock, granted = SystemClock(), 0
    ledger = BudgetLedger(clock=clock, find_prices=lambda model, tier: None, thread_id="t")
    limits = BudgetLimits(max_requests=60)
    meter = DayMeter(ledger, limits, home=sys.argv[1], clock=clock, past=lambda moment: (Use(), 0.0))
    meter.poll_s = 0.01
    ledger.thread.append(meter)
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        while True:
            taken = await ledger.reserve("m", 1)
            await asyncio.sleep(0.005)  # as long as the shortest request takes
            ledger.commit(taken, None)
            granted += 1
    except BudgetReached:
        print(granted)

asyncio.run(race())
"""


def test_no_request_of_another_process_is_forgotten(tmp_path: Path) -> None:
    command = [sys.executable, "-c", RACER, str(tmp_path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    racers = [subprocess.Popen(command, **pipes) for _ in range(4)]
    for racer in racers:
        assert racer.stdout is not None and racer.stdout.readline() == "ready\n"
    granted = [int(out) for out in (racer.communicate(timeout=50)[0] for racer in started(racers))]
    assert sum(granted) == 60
    assert sum(1 for count in granted if count) > 1, "they took turns"


@contextmanager
def locked(home: Path) -> Iterator[None]:
    """Another program has the file of the day."""
    (home / "spindle").mkdir(exist_ok=True)
    fd = os.open(home / "spindle/day.json.lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(fd)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody stands still for the file of the day."""
    for name in ("_ASKING_PATIENCE_S", "_BOOKING_PATIENCE_S", "_LAST_PATIENCE_S"):
        monkeypatch.setattr(day_budget, name, 0.0)


@pytest.mark.usefixtures("impatient")
async def test_a_request_waits_while_another_process_has_the_file_of_the_day(tmp_path: Path) -> None:
    """Whoever read it without the lock would take what the other one takes."""
    ledger = day_of(tmp_path, FixedClock(), max_requests=1)
    with locked(tmp_path):
        asked = asyncio.ensure_future(ledger.reserve("m", 1))
        await asyncio.wait([asked], timeout=0.01)
        assert not asked.done()
    ledger.commit(await asked, None)


@pytest.mark.usefixtures("impatient")
async def test_what_could_not_be_booked_at_once_is_booked_and_nobody_uses_it_meanwhile(tmp_path: Path) -> None:
    clock = FixedClock()
    ledger, other = (day_of(tmp_path, clock, max_requests=2) for _ in range(2))
    ledger.commit(await ledger.reserve("m", 1), None)
    taken = await ledger.reserve("m", 1)
    with locked(tmp_path):
        ledger.commit(taken, None)
    asked = asyncio.ensure_future(other.reserve("m", 1))
    await asyncio.wait([asked], timeout=0.01)
    assert not asked.done(), "it is still set aside"
    for meter in ledger.thread:
        meter.close()
    with pytest.raises(BudgetReached):
        await asked


@pytest.mark.usefixtures("impatient")
async def test_a_program_that_keeps_the_file_of_the_day_locked_stops_nobody_and_is_named(tmp_path: Path) -> None:
    clock, said = FixedClock(), []
    ledger = day_of(tmp_path, clock, max_requests=2)
    ledger.warn = said.append
    with locked(tmp_path):
        asked = asyncio.ensure_future(ledger.reserve("m", 1))
        await asyncio.wait([asked], timeout=0.01)
        clock.advance(11)
        ledger.commit(await asked, None)
        ledger.commit(await ledger.reserve("m", 1), None)
        with pytest.raises(BudgetReached):
            await ledger.reserve("m", 1)
    assert len(said) == 1 and "another program keeps it locked" in said[0]


async def test_what_nobody_of_this_process_has_set_aside_is_free(tmp_path: Path) -> None:
    """It was set aside by a process that had the same number."""
    ledger = day_of(tmp_path, FixedClock(), max_requests=1)
    ledger.commit(await ledger.reserve("m", 1), None, has_reached=False)
    file = tmp_path / "spindle/day.json"
    day = json.loads(file.read_text())
    held = {"use": {"requests": 1}, "pid": os.getpid(), "host": os.uname().nodename, "since": FixedClock().now()}
    file.write_text(json.dumps({**day, "held": {"somebody": held}}))
    await asyncio.wait_for(ledger.reserve("m", 1), 10)


async def test_what_was_set_aside_an_hour_ago_is_free_again_though_its_process_lives(tmp_path: Path) -> None:
    clock = FixedClock()
    await day_of(tmp_path, clock, max_requests=1).reserve("m", 1)
    late = day_of(tmp_path, clock, max_requests=1)
    clock.advance(3601)
    late.commit(await asyncio.wait_for(late.reserve("m", 1), 10), None)


async def test_what_a_dead_process_had_set_aside_is_free_again(tmp_path: Path) -> None:
    clock = FixedClock()
    dead = subprocess.Popen(["true"])
    dead.wait()
    await day_of(tmp_path, clock, max_requests=1).reserve("m", 1)
    file = tmp_path / "spindle/day.json"
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_text(file.read_text().replace(f'"pid":{os.getpid()}', f'"pid":{dead.pid}'))
    ledger = day_of(tmp_path, clock, max_requests=1)
    ledger.commit(await ledger.reserve("m", 1), None)


@pytest.mark.parametrize("content", ["{", "[]", '{"day":5}', ""])
async def test_a_damaged_file_of_the_day_begins_anew(tmp_path: Path, content: str) -> None:
    (tmp_path / "spindle").mkdir()
    (tmp_path / "spindle/day.json").write_text(content)
    ledger = day_of(tmp_path, FixedClock(), max_requests=1)
    ledger.commit(await ledger.reserve("m", 1), None)
    with pytest.raises(BudgetReached):
        await ledger.reserve("m", 1)


async def test_where_the_file_cannot_be_written_the_budget_holds_for_the_thread_and_that_is_said(
    tmp_path: Path,
) -> None:
    (tmp_path / "spindle").write_text("in the way")
    ledger, said = day_of(tmp_path, FixedClock(), max_requests=2), []
    ledger.warn = said.append
    for _ in range(2):
        ledger.commit(await ledger.reserve("m", 1), None)
    with pytest.raises(BudgetReached):
        await ledger.reserve("m", 1)
    assert said[0].startswith("the budget of the day holds for this thread alone: ") and len(said) == 1


# ---- what nobody counts ----------------------------------------------------------------------------


class SilentModel(ScriptedModel):
    """Does not count tokens."""

    async def stream(self, request: Request, turn_state: Any = None) -> AsyncGenerator[ModelEvent, None]:
        async for event in super().stream(request, turn_state):
            yield msgspec.structs.replace(event, usage=None) if isinstance(event, Completed) else event


async def test_what_a_server_does_not_count_is_estimated() -> None:
    ledger, meter = ledger_of(max_tokens=100_000)
    request = Request(model="m", instructions=b"i" * 400, items=[], tools=b"t" * 400, prompt_cache_key="k")
    async for _ in BudgetedClient(SilentModel(says("x" * 4000)), ledger).stream(request):
        pass
    assert 1_200 < meter.used.tokens < 1_250, "200 were asked, and somewhat more than 1,000 answered"


async def test_an_answer_that_broke_off_has_cost_something(start: Start) -> None:
    driver = await start(config=budget(max_tokens=3_000))
    error = failure(await driver.turn("go", drops("half an answer", retry_after_s=0), says("never")))
    assert error is not None and len(driver.model.requests) == 1


# ---- what is configured ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({"max_requests": -1}, "spindle.budget.max_requests"),
        ({"max_cost": "much"}, "spindle.budget.max_cost"),
        ({"thread": {"max_tokens": 1.5}}, "spindle.budget.thread.max_tokens"),
    ],
)
def test_a_budget_that_is_none_is_refused(tmp_path: Path, table: Any, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        load_config(cwd=str(tmp_path), env={"HOME": str(tmp_path)}, config={"spindle": {"budget": table}})


def test_a_limit_of_zero_is_none() -> None:
    assert not BudgetLimits(max_tokens=0, max_requests=0, max_cost=0.0, max_seconds=0)


def test_a_turn_of_protocol_v1_brings_its_budget_along() -> None:
    line = '{"id":"1","op":{"type":"user_turn","items":[],"budget":{"max_requests":2,"max_seconds":1.5}}}'
    op = decode_submission(line).op
    assert isinstance(op, UserTurn) and op.budget == BudgetLimits(max_requests=2, max_seconds=1.5)
    for wrong in ('"two"', "-1", "1.5"):
        with pytest.raises(BadSubmission, match=r"bad user_turn op: .*budget\.max_requests"):
            decode_submission(line.replace('"max_requests":2', f'"max_requests":{wrong}'))
