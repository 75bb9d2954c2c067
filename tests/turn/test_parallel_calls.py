"""Calls that run at the same time: recorded when each is over, then shown as over; told in the order of the calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sessions import Driver, Start
from spindle.model.scripted import calls, says
from spindle.protocol.events import ExecApprovalRequest, ExecCommandEnd, Msg, PatchApplyEnd, TaskComplete
from spindle.protocol.ops import ExecApproval, Interrupt
from spindle.thread.history import History
from spindle.thread.reading import read_rollout

pytestmark = pytest.mark.timeout(60)

SLOW = "until test -e fast.done; do sleep 0.01; done; echo slow"
"""Ends after the fast one, whatever the machine does."""
FAST = "echo fast; touch fast.done"


def shell(script: str, name: str) -> Any:
    return calls("shell_command", {"command": script}, name)


def outputs(items: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(item["call_id"], item["output"].splitlines()[-1]) for item in items if "output" in item]


def on_disk(driver: Driver) -> list[dict[str, Any]]:
    """The items that a program would find that resumes the thread now."""
    history = History.replay(read_rollout(driver.session.thread.history.writer.path))
    return [entry.item for entry in history.entries]


async def test_a_call_that_is_shown_as_over_is_recorded_while_another_runs(start: Start, workspace: Path) -> None:
    driver = await start([shell("until test -e go; do sleep 0.01; done; echo slow", "a"), shell("echo fast", "b")])
    driver.begin("go")
    ended = await driver.until(ExecCommandEnd)
    assert ended.call_id == "b"
    assert outputs(on_disk(driver)) == [("b", "fast")]
    (workspace / "go").touch()
    await driver.until(TaskComplete)
    assert outputs(driver.inputs[-1]) == [("a", "slow"), ("b", "fast")]


async def test_the_prompt_has_the_order_of_the_calls_whoever_ends_first_also_after_resume_and_fork(
    start: Start,
) -> None:
    driver = await start()
    await driver.turn("go", [shell(SLOW, "a"), shell(FAST, "b")], says("ok"))
    sent = driver.model.requests[-1].raw.input
    assert outputs(driver.inputs[-1]) == [("a", "slow"), ("b", "fast")]
    await driver.close()
    for request in ({"thread": driver.session.thread_id}, {"thread": driver.session.thread_id, "fork": True}):
        again = await start(**request)
        await again.turn("on", says("ok"))
        assert again.model.requests[0].raw.input[: len(sent)] == sent
        await again.close()


async def test_nobody_hears_of_an_end_before_the_record_has_it(start: Start) -> None:
    """Heard at once, in the very call that emits it: there is no moment between being recorded and being shown."""
    driver = await start()
    known: list[tuple[str, bool]] = []

    class Listener:
        rounds = 0

        def push(self, event: Any) -> None:
            if isinstance(event.msg, ExecCommandEnd | PatchApplyEnd):
                found = outputs(on_disk(driver))
                known.append((event.msg.call_id, event.msg.call_id in [name for name, _ in found]))

        def close(self) -> None: ...

    driver.session.listen(Listener())
    patch = "*** Begin Patch\n*** Add File: new.txt\n+x\n*** End Patch\n"
    mixed = [shell(SLOW, "a"), shell(FAST, "b"), calls("apply_patch", {"input": patch}, "c"), shell("exit 3", "d")]
    await driver.turn("go", mixed, says("ok"))
    assert sorted(known) == [("a", True), ("b", True), ("c", True), ("d", True)]


async def test_a_session_that_ends_while_a_call_waits_for_it_is_shown_as_over_with_that_call(
    start: Start, workspace: Path
) -> None:
    driver = await start(model="gpt-5.5")
    session: list[int] = []

    def look(request: Any) -> Any:
        text = request.input[-1]["output"]
        session.append(int(text.split("session ID ")[1].split()[0]))
        (workspace / "go").touch()
        return calls("write_stdin", {"session_id": session[0], "yield_time_ms": 30_000}, "b")

    script = {"cmd": "until test -e go; do sleep 0.01; done; echo over", "yield_time_ms": 250}
    seen: list[list[tuple[str, str]]] = []

    class Listener:
        rounds = 0

        def push(self, event: Any) -> None:
            if isinstance(event.msg, ExecCommandEnd):
                seen.append(outputs(on_disk(driver)))

        def close(self) -> None: ...

    driver.session.listen(Listener())
    await driver.turn("go", calls("exec_command", script, "a"), look, says("ok"))
    assert [found[-1] for found in seen] == [("b", "over")]


async def test_a_stopped_turn_keeps_what_was_over_and_answers_the_rest(start: Start) -> None:
    driver = await start([shell("sleep 30", "a"), shell("echo fast", "b")])
    sub_id = driver.begin("go")
    await driver.until(ExecCommandEnd)
    driver.submit(Interrupt())
    await driver.end_of(sub_id)
    told = outputs(on_disk(driver))
    assert [name for name, _ in told] == ["a", "b"]
    assert "aborted by user" in told[0][1] and told[1][1] == "fast"


async def test_an_end_that_is_not_the_last_word_is_shown_before_a_person_is_asked(start: Start) -> None:
    """A command that the sandbox stopped is put to the person, who must see what it did."""
    driver = await start(sandbox="read-only", approval="on-failure")
    driver.model.script(shell("touch here; echo refused; exit 1", "a"), says("ok"))
    sub_id = driver.begin("go")
    asked = await driver.until(ExecApprovalRequest)
    assert any(isinstance(event.msg, ExecCommandEnd) for event in driver.events)
    driver.submit(ExecApproval(id=asked.call_id, decision="denied"))
    await driver.end_of(sub_id)


async def test_two_calls_with_one_id_are_answered_in_their_order(start: Start) -> None:
    driver = await start()
    await driver.turn("go", [shell("sleep 0.1; echo one", "a"), shell("echo two", "a")], says("ok"))
    assert outputs(driver.inputs[-1]) == [("a", "one"), ("a", "two")]


def test_every_message_that_ends_a_call_waits_for_the_record() -> None:
    from spindle.protocol import agent_events, failed_calls, questions, tool_servers  # noqa: F401  so that their messages exist

    kinds = {str(kind.__struct_config__.tag): kind for kind in Msg.__subclasses__()}
    of_the_server = {"web_search_end"}  # recorded as the item that it is
    ends = {tag for tag in kinds if tag.endswith("_end")} - of_the_server
    others = {"turn_diff", "plan_update", "view_image_tool_call", "dynamic_tool_call_response", "tool_call_failed"}
    assert {tag for tag, kind in kinds.items() if kind.ends_call} == ends | others
