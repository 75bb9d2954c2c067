"""Interrupt, replacement, steering and shutdown, in every state a turn can be in."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from sessions import Start, run, text
from spindle.model.scripted import calls, drops, fails, says, waits
from spindle.protocol.events import (
    AgentMessage,
    AgentMessageContentDelta,
    Error,
    ExecApprovalRequest,
    ExecCommandBegin,
    ExecCommandEnd,
    ExecCommandOutputDelta,
    Msg,
    ShutdownComplete,
    StreamError,
    TaskComplete,
    TaskStarted,
    TurnAborted,
)
from spindle.protocol.ops import Interrupt, UserInput

IDLE_BOUND_S = 2.0
"""Generous: the real bound (200 ms) is measured by the benchmark; here it is that nothing waits for a time-out."""


def terminals(msgs: list[Msg]) -> list[Msg]:
    return [msg for msg in msgs if isinstance(msg, TaskComplete | TurnAborted)]


STATES: dict[str, tuple[list[Any], type[Msg], dict[str, str]]] = {
    "before the first byte": ([[waits(60), says("late")]], TaskStarted, {}),
    "in the middle of a stream": ([says("a b c d e", pace_s=5)], AgentMessageContentDelta, {}),
    "in a command": ([run("sleep 60", "c1")], ExecCommandBegin, {}),
    "in a one-shot shell": ([calls("shell", {"command": ["sleep", "60"]}, "c1")], ExecCommandBegin, {}),
    "in a command that ignores SIGTERM": (
        [run("trap '' TERM INT HUP; while :; do sleep 1; done", "c1")],
        ExecCommandBegin,
        {},
    ),
    "in a command, after the model failed": (
        [[run("sleep 60", "c1"), waits(0.1), fails("no")]],
        ExecCommandBegin,
        {},
    ),
    "in a retry back-off": ([drops(retry_after_s=60)], StreamError, {}),
    "waiting for an approval": (
        [run("touch x", "c1")],
        ExecApprovalRequest,
        {"approval": "untrusted", "sandbox": "workspace-write"},
    ),
}


@pytest.mark.parametrize("state", STATES)
async def test_an_interrupt_ends_the_turn_once_and_the_next_one_works(start: Start, state: str) -> None:
    steps, reached, policy = STATES[state]
    driver = await start(*steps, **policy)
    sub_id = driver.begin("P1")
    await driver.until(reached)
    before = time.monotonic()
    driver.submit(Interrupt())
    msgs = await driver.end_of(sub_id)
    assert time.monotonic() - before < IDLE_BOUND_S
    assert terminals(msgs) == [TurnAborted(turn_id=sub_id, reason="interrupted")]
    assert not [msg for msg in msgs if isinstance(msg, Error)]

    await driver.turn("P2", says("fresh"))
    first, last = driver.inputs[0], driver.inputs[-1]
    assert last[: len(first)] == first
    made = {item["call_id"] for item in last if item["type"] == "function_call"}
    answered = {item["call_id"] for item in last if item["type"] == "function_call_output"}
    assert made == answered
    assert any(item.get("content", [{}])[0].get("text", "").startswith("<turn_aborted>") for item in last)


async def test_an_interrupted_command_is_gone_and_says_so(start: Start, workspace: Path) -> None:
    driver = await start(run("sleep 1 && touch late.txt & sleep 60", "c1"))
    sub_id = driver.begin("P1")
    await driver.until(ExecCommandBegin)
    await asyncio.sleep(0.2)
    driver.submit(Interrupt())
    msgs = await driver.end_of(sub_id)
    assert [msg for msg in msgs if isinstance(msg, ExecCommandEnd)]
    await driver.turn("P2", says("x"))
    (output,) = [item["output"] for item in driver.inputs[-1] if item["type"] == "function_call_output"]
    assert output.startswith("aborted by user after ") and output.endswith("s")
    await asyncio.sleep(1.2)
    assert not (workspace / "late.txt").exists()


async def test_an_interrupted_one_shot_shell_says_so_in_its_own_words(start: Start) -> None:
    driver = await start(calls("shell", {"command": ["sleep", "60"]}, "c1"))
    sub_id = driver.begin("P1")
    await driver.until(ExecCommandBegin)
    driver.submit(Interrupt())
    await driver.end_of(sub_id)
    await driver.turn("P2", says("x"))
    (output,) = [item["output"] for item in driver.inputs[-1] if item["type"] == "function_call_output"]
    assert output.startswith("Wall time: ") and output.endswith(" seconds\naborted by user")


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("exec_command", {"cmd": "echo up; sleep 60"}), ("shell", {"command": ["sh", "-c", "echo up; sleep 60"]})],
)
async def test_a_command_that_is_interrupted_as_soon_as_it_speaks_has_run(
    start: Start, tool: str, arguments: dict[str, Any]
) -> None:
    driver = await start(calls(tool, arguments, "c1"), sandbox="workspace-write")
    sub_id = driver.begin("P1")
    await driver.until(ExecCommandOutputDelta)
    driver.submit(Interrupt())
    (end,) = [msg for msg in await driver.end_of(sub_id) if isinstance(msg, ExecCommandEnd)]
    assert end.aggregated_output == "up\n" and end.exit_code > 0


async def test_an_interrupt_without_a_turn_does_nothing(start: Start) -> None:
    driver = await start()
    driver.submit(Interrupt())
    assert [msg for msg in await driver.idle() if isinstance(msg, TurnAborted | Error)] == []
    assert (await driver.turn("hi", says("x")))[-1] == TaskComplete(
        turn_id="s2", last_agent_message="x", response_id="resp-1"
    )


async def test_new_input_replaces_the_running_turn(start: Start) -> None:
    driver = await start(run("sleep 60", "c1"), says("second"))
    first = driver.begin("P1")
    await driver.until(ExecCommandBegin)
    second = driver.begin("P2")
    msgs = await driver.end_of(second)
    assert [event.msg for event in driver.events if event.id == first][-1] == TurnAborted(
        turn_id=first, reason="replaced"
    )
    assert msgs[-1] == TaskComplete(turn_id=second, last_agent_message="second", response_id="resp-2")
    order = [event.id for event in driver.events if event.id in (first, second)]
    assert order == sorted(order), "events of two turns must not interleave"


async def test_steered_input_joins_the_running_turn_before_the_next_request(start: Start) -> None:
    driver = await start(run("sleep 0.3", "c1"), says("both done"))
    first = driver.begin("P1")
    await driver.until(ExecCommandBegin)
    driver.submit(UserInput(items=text("also this"), mode="steer"))
    msgs = await driver.end_of(first)
    assert len(terminals(msgs)) == 1 and len(driver.model.requests) == 2
    assert driver.inputs[1][-1]["content"][0]["text"] == "also this"
    assert driver.inputs[1][-2]["type"] == "function_call_output"


async def test_input_steered_while_the_last_message_streams_still_gets_an_answer_in_the_same_turn(start: Start) -> None:
    driver = await start(says("a b c", pace_s=0.05), says("and that too"))
    first = driver.begin("P1")
    await driver.until(AgentMessageContentDelta)
    driver.submit(UserInput(items=text("wait"), mode="steer"))
    msgs = await driver.end_of(first)
    assert [msg.message for msg in msgs if isinstance(msg, AgentMessage)] == ["a b c", "and that too"]


async def test_input_steered_right_after_the_last_message_is_answered(start: Start) -> None:
    driver = await start(says("one"), says("two"))
    first = driver.begin("P1")
    await driver.until(AgentMessage)  # the turn has said everything; its terminal event may not be out yet
    driver.submit(UserInput(items=text("one more thing"), mode="steer"))
    await driver.end_of(first)
    while AgentMessage(message="two") not in [event.msg for event in driver.events]:
        await driver.next()  # gives up by itself when nothing comes
    assert driver.inputs[1][-1]["content"][0]["text"] == "one more thing"


async def test_input_steered_into_a_turn_that_fails_is_not_stranded(start: Start) -> None:
    driver = await start([waits(0.3), fails("no")], says("two"))
    first = driver.begin("P1")
    await driver.until(TaskStarted)
    second = driver.submit(UserInput(items=text("one more thing"), mode="steer"))
    assert terminals(await driver.end_of(first)) == [TaskComplete(turn_id=first, last_agent_message=None)]
    answered = TaskComplete(turn_id=second, last_agent_message="two", response_id="resp-2")
    assert terminals(await driver.end_of(second)) == [answered]
    assert driver.inputs[1][-1]["content"][0]["text"] == "one more thing"


async def test_the_tier_of_one_turn_ends_with_it_also_for_input_that_it_left_behind(start: Start) -> None:
    driver = await start([waits(0.1), fails("no")], says("two"))
    driver.begin("P1", service_tier_for_turn="priority")
    await driver.until(TaskStarted)
    await driver.end_of(driver.submit(UserInput(items=text("one more thing"), mode="steer")))
    assert [asked.service_tier for asked in driver.model.requests] == ["priority", None]


async def test_all_that_was_steered_into_a_turn_that_fails_comes_with_the_next_one(start: Start) -> None:
    driver = await start([waits(0.1), fails("no")], says("here you are"))
    driver.begin("go")
    await driver.until(TaskStarted)
    second = driver.submit(UserInput(items=text("one more thing"), mode="steer"))
    driver.submit(UserInput(items=text("and another"), mode="steer"))
    await driver.end_of(second)
    assert [item["content"][0]["text"] for item in driver.inputs[-1][-2:]] == ["one more thing", "and another"]
    assert len(driver.inputs) == 2


async def test_shutdown_in_mid_turn_aborts_flushes_and_closes(start: Start) -> None:
    driver = await start(run("sleep 60", "c1"))
    first = driver.begin("P1")
    await driver.until(ExecCommandBegin)
    await driver.close()
    msgs = await driver.idle()
    assert [type(msg) for msg in msgs if isinstance(msg, TurnAborted | ShutdownComplete)] == [
        TurnAborted,
        ShutdownComplete,
    ]
    assert driver.model.is_closed and first == "s1"
