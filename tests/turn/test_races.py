"""Ops that arrive at awkward moments: before a turn has taken its first step, while one ends, and all at once."""

from __future__ import annotations

from typing import Any

import pytest

from sessions import Start, text
from spindle.model.scripted import calls, says, waits
from spindle.protocol.events import (
    TERMINAL,
    Error,
    ExecCommandBegin,
    ExecCommandEnd,
    TaskComplete,
    TaskStarted,
    TokenCount,
    TurnAborted,
    UserMessage,
    Warning,
)
from spindle.protocol.ops import ExecApproval, Interrupt, ListSkills, OverrideTurnContext, UserInput, UserTurn

pytestmark = pytest.mark.timeout(60)


async def test_turns_submitted_all_at_once_each_begin_and_end_once_in_order(start: Start) -> None:
    driver = await start(*[[waits(30)]] * 299, [says("done")])
    ids = [driver.submit(UserTurn(items=text(f"number {n}"))) for n in range(300)]
    last = await driver.end_of(ids[-1])
    assert isinstance(last[-1], TaskComplete)
    ends = [event for event in driver.events if isinstance(event.msg, (TaskStarted, *TERMINAL))]
    aborted = [pair for sub_id in ids[:-1] for pair in ((sub_id, TaskStarted), (sub_id, TurnAborted))]
    assert [(event.id, type(event.msg)) for event in ends] == [
        *aborted,
        (ids[-1], TaskStarted),
        (ids[-1], TaskComplete),
    ]
    assert {event.msg.reason for event in ends if isinstance(event.msg, TurnAborted)} == {"replaced"}


async def test_a_turn_that_is_interrupted_before_its_first_step_ends_and_the_next_one_works(start: Start) -> None:
    driver = await start([says("fine")])
    first = driver.submit(UserTurn(items=text("one")))
    driver.submit(Interrupt())
    second = driver.submit(UserTurn(items=text("two")))
    assert isinstance((await driver.end_of(first))[-1], TurnAborted)
    assert isinstance((await driver.end_of(second))[-1], TaskComplete)


async def test_input_steered_into_a_turn_that_is_then_replaced_does_not_come_back(start: Start) -> None:
    driver = await start([waits(30)], [says("fine")])
    first = driver.begin("one")
    await driver.until(UserMessage)
    steered = driver.submit(UserInput(items=text("and this"), mode="steer"))
    second = driver.begin("two")
    await driver.end_of(second)
    ended = [(event.id, type(event.msg)) for event in driver.events if isinstance(event.msg, TERMINAL)]
    assert ended == [(first, TurnAborted), (second, TaskComplete)]
    said = [event.msg.message for event in driver.events if isinstance(event.msg, UserMessage)]
    assert said == ["one", "two"]
    assert [type(event.msg) for event in driver.events if event.id == steered] == [Warning]


async def test_an_interrupt_also_drops_what_was_steered_and_says_so(start: Start) -> None:
    driver = await start([waits(30)])
    first = driver.begin("one")
    await driver.until(UserMessage)
    steered = driver.submit(UserInput(items=text("and this"), mode="steer"))
    driver.submit(Interrupt())
    await driver.end_of(first)
    assert await driver.idle() == []
    assert [type(event.msg) for event in driver.events if event.id == steered] == [Warning]
    assert isinstance(driver.events[-1].msg, TurnAborted)


@pytest.mark.parametrize(
    "op",
    [
        UserTurn(items=text("x"), cwd="/nul\0byte"),
        UserTurn(items=text("x"), sandbox_policy={"type": "workspace-write", "writable_roots": 5}),
        UserTurn(items=text("x"), last_response_id="\ud800"),
        OverrideTurnContext(cwd="/\ud800"),
        ListSkills(cwds=["/nul\0byte"]),
        ExecApproval(id="nobody", decision=5),
    ],
)
async def test_no_value_of_an_op_ends_the_session(start: Start, op: Any) -> None:
    driver = await start([says("still here")])
    bad = driver.submit(op)
    await driver.until(Error, Warning, sub_id=bad)
    assert isinstance((await driver.turn("hello"))[-1], TaskComplete)


async def test_input_items_that_make_no_sense_do_not_end_the_session(start: Start) -> None:
    driver = await start([says("still here")])
    for items in ([{"type": "text", "text": 5, "text_elements": 7}], [{"type": "skill", "name": 3, "path": 4}], [{}]):
        await driver.end_of(driver.submit(UserTurn(items=items)))
    assert isinstance((await driver.turn("hello", [says("x")]))[-1], TaskComplete)


async def test_what_a_response_cost_is_booked_though_its_calls_are_interrupted(start: Start) -> None:
    driver = await start([calls("exec_command", {"cmd": "sleep 60"}, "c1")])
    first = driver.begin("one")
    await driver.until(ExecCommandBegin)
    driver.submit(Interrupt())
    msgs = await driver.end_of(first)
    assert [type(msg) for msg in msgs[-3:]] == [ExecCommandEnd, TokenCount, TurnAborted]
    recorded = [record.payload.get("type", record.kind) for record in driver.session.thread.history.records]
    assert recorded[-5:] == ["function_call_output", "spindle_bookmark", "token_count", "message", "turn_aborted"]
