"""Open questions: several at once, the same one twice, answers that fit none, and every way a question can end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from sessions import Driver, Start, outputs, run
from spindle.model.scripted import patches, says
from spindle.protocol.events import (
    ApplyPatchApprovalRequest,
    Error,
    ExecApprovalRequest,
    ExecCommandBegin,
    TaskComplete,
    TurnAborted,
    Warning,
)
from spindle.protocol.ops import ExecApproval, Interrupt, PatchApproval, RevokeGrant, Shutdown

ASKS = {"approval": "untrusted", "sandbox": "workspace-write"}
ESCALATED = {"sandbox_permissions": "require_escalated"}


def questions(driver: Driver) -> list[str]:
    return [event.msg.call_id for event in driver.events if isinstance(event.msg, ExecApprovalRequest)]


async def both_asked(driver: Driver) -> None:
    await driver.until(ExecApprovalRequest)
    await driver.until(ExecApprovalRequest)


async def test_questions_that_are_open_together_are_told_apart_by_their_call(start: Start, workspace: Path) -> None:
    driver = await start([run("touch one", "c1"), run("touch two", "c2")], says("done"), **ASKS)
    sub_id = driver.begin("go")
    await both_asked(driver)
    driver.submit(ExecApproval(id="c2", decision="approved"))
    driver.submit(ExecApproval(id="c1", decision="denied"))
    await driver.end_of(sub_id)
    assert (workspace / "two").exists() and not (workspace / "one").exists()
    assert outputs(driver.inputs[-1])["c1"] == "exec command rejected by user"


async def test_by_the_id_of_the_turn_the_oldest_question_is_answered_first(start: Start, workspace: Path) -> None:
    driver = await start([run("touch one", "c1"), run("touch two", "c2")], says("done"), **ASKS)
    sub_id = driver.begin("go")
    await both_asked(driver)
    first, second = questions(driver)
    driver.submit(ExecApproval(id=sub_id, decision="denied"))
    driver.submit(ExecApproval(id=sub_id, decision="approved"))
    await driver.end_of(sub_id)
    assert outputs(driver.inputs[-1])[first] == "exec command rejected by user"
    assert (workspace / {"c1": "one", "c2": "two"}[second]).exists()


async def test_an_answer_about_a_patch_is_none_about_a_command(start: Start, workspace: Path) -> None:
    driver = await start(run("touch one", "c1"), says("done"), **ASKS)
    sub_id = driver.begin("go")
    await driver.until(ExecApprovalRequest)
    driver.submit(PatchApproval(id=sub_id, decision="approved"), "stray")
    assert "no open approval request" in (await driver.until(Warning, sub_id="stray")).message
    assert not (workspace / "one").exists()
    driver.submit(ExecApproval(id=sub_id, decision="denied"))
    await driver.end_of(sub_id)


async def test_an_answer_that_fits_no_question_is_reported_and_a_second_one_changes_nothing(
    start: Start, workspace: Path
) -> None:
    driver = await start(run("touch one", "c1"), says("done"), **ASKS)
    driver.submit(ExecApproval(id="nobody", decision="approved"), "early")
    assert "'nobody'" in (await driver.until(Warning, sub_id="early")).message
    sub_id = driver.begin("go")
    await driver.until(ExecApprovalRequest)
    driver.submit(ExecApproval(id="c1", decision="denied"))
    driver.submit(ExecApproval(id="c1", decision="approved"), "second")
    await driver.until(Warning, sub_id="second")
    await driver.end_of(sub_id)
    assert not (workspace / "one").exists()


@pytest.mark.parametrize(
    "decision", [None, 1, True, [], {}, "", "yes", "APPROVED", "denied", "deny", {"deny": {}}, {"x": "approved"}]
)
async def test_whatever_is_not_clearly_a_yes_is_a_no(start: Start, workspace: Path, decision: Any) -> None:
    driver = await start(run("touch one", "c1"), says("done"), **ASKS)
    sub_id = driver.begin("go")
    await driver.until(ExecApprovalRequest)
    driver.submit(ExecApproval(id="c1", decision=decision))
    await driver.end_of(sub_id)
    assert not (workspace / "one").exists() and outputs(driver.inputs[-1]) == {"c1": "exec command rejected by user"}


@pytest.mark.parametrize("decision", ["allow", "approved", {"approved": {}}])
async def test_the_words_for_yes(start: Start, workspace: Path, decision: Any) -> None:
    driver = await start(run("touch one", "c1"), says("done"), **ASKS)
    sub_id = driver.begin("go")
    await driver.until(ExecApprovalRequest)
    driver.submit(ExecApproval(id="c1", decision=decision))
    await driver.end_of(sub_id)
    assert (workspace / "one").exists()


# ---- the same question twice -------------------------------------------------------------------------


def storm(count: int) -> list[Any]:
    return [run("echo x >> log", f"c{number}") for number in range(count)]


async def test_the_same_command_five_times_at_once_is_asked_about_one_by_one(start: Start, workspace: Path) -> None:
    driver = await start(storm(5), says("done"), **ASKS)
    sub_id = driver.begin("go")
    for asked in range(5):
        question = await driver.until(ExecApprovalRequest)
        await driver.idle()
        assert len(questions(driver)) == asked + 1
        driver.submit(ExecApproval(id=question.call_id, decision="approved"))
    await driver.end_of(sub_id)
    assert (workspace / "log").read_text() == "x\n" * 5


async def test_one_no_answers_the_same_command_five_times(start: Start, workspace: Path) -> None:
    # After the first command what every command needs is known, and the five arrive at their question together.
    driver = await start(run("true", "first"), storm(5), says("done"), **ASKS)
    sub_id = driver.begin("go")
    await driver.until(ExecApprovalRequest)
    await driver.idle()
    driver.submit(ExecApproval(id=sub_id, decision="denied"))
    await driver.end_of(sub_id)
    assert len(questions(driver)) == 1 and not (workspace / "log").exists()
    refused = [output for call_id, output in outputs(driver.inputs[-1]).items() if call_id != "first"]
    assert refused == ["exec command rejected by user"] * 5


async def test_one_yes_for_the_session_answers_the_same_command_five_times(start: Start, workspace: Path) -> None:
    driver = await start(storm(5), says("done"), **ASKS)
    sub_id = driver.begin("go")
    await driver.until(ExecApprovalRequest)
    driver.submit(ExecApproval(id=sub_id, decision="approved_for_session"))
    await driver.end_of(sub_id)
    assert len(questions(driver)) == 1 and (workspace / "log").read_text() == "x\n" * 5


async def test_one_rule_answers_all_who_wait_for_it(start: Start, tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.mkdir()
    both = [run(f"touch {made}/x", f"c{number}", **ESCALATED) for number in range(3)]
    driver = await start(both, says("done"), approval="on-request", sandbox="workspace-write")
    sub_id = driver.begin("go")
    await driver.until(ExecApprovalRequest)
    driver.submit(ExecApproval(id=sub_id, decision="approved_execpolicy_amendment"))
    await driver.end_of(sub_id)
    assert len(questions(driver)) == 1 and (made / "x").exists()


async def test_two_calls_with_one_id_are_never_open_at_the_same_time(start: Start, workspace: Path) -> None:
    """Else a screen that knows questions by their call would show the one and answer the other."""
    driver = await start([run("touch one", "same"), run("touch two", "same")], says("done"), **ASKS)
    sub_id = driver.begin("go")
    first = await driver.until(ExecApprovalRequest)
    await driver.idle()
    assert len(questions(driver)) == 1
    driver.submit(ExecApproval(id="same", decision="denied"))
    second = await driver.until(ExecApprovalRequest)
    assert first.command != second.command
    driver.submit(ExecApproval(id="same", decision="approved"))
    await driver.end_of(sub_id)
    assert sorted(path.name for path in workspace.iterdir() if path.name != ".git") == [second.command[-1].split()[1]]


async def test_a_call_named_like_its_turn_does_not_catch_the_answer_to_another(start: Start, workspace: Path) -> None:
    driver = await start([run("touch one", "c1"), run("touch two", "s1")], says("done"), **ASKS)
    assert driver.begin("go") == "s1"
    first = await driver.until(ExecApprovalRequest)
    await driver.idle()
    assert len(questions(driver)) == 1
    driver.submit(ExecApproval(id="s1", decision="approved"))
    second = await driver.until(ExecApprovalRequest)
    assert {first.call_id, second.call_id} == {"c1", "s1"}
    driver.submit(ExecApproval(id="s1", decision="denied"))
    await driver.end_of("s1")
    assert [path.name for path in workspace.iterdir() if path.name != ".git"] == [first.command[-1].split()[1]]


# ---- how a question can end --------------------------------------------------------------------------


async def test_an_abort_asks_the_model_nothing_more_and_stops_what_else_waits(start: Start, workspace: Path) -> None:
    driver = await start([run("touch one", "c1"), run("touch two", "c2")], says("never"), **ASKS)
    sub_id = driver.begin("go")
    await both_asked(driver)
    driver.submit(ExecApproval(id="c1", decision="abort"))
    assert (await driver.end_of(sub_id))[-1] == TurnAborted(turn_id=sub_id, reason="interrupted")
    assert len(driver.model.requests) == 1
    driver.submit(ExecApproval(id="c2", decision="approved"), "late")
    await driver.until(Warning, sub_id="late")
    assert not list(workspace.glob("[ot]*"))


async def test_an_interrupt_closes_the_question(start: Start, workspace: Path) -> None:
    driver = await start(run("touch one", "c1"), says("never"), **ASKS)
    sub_id = driver.begin("go")
    await driver.until(ExecApprovalRequest)
    driver.submit(Interrupt())
    assert (await driver.end_of(sub_id))[-1] == TurnAborted(turn_id=sub_id, reason="interrupted")
    driver.submit(ExecApproval(id="c1", decision="approved"), "late")
    await driver.until(Warning, sub_id="late")
    assert not (workspace / "one").exists()
    # The thread is whole: the call has its answer, and the next turn works.
    assert isinstance((await driver.turn("again", says("fine")))[-1], TaskComplete)
    assert "aborted" in outputs(driver.inputs[-1])["c1"]


async def test_new_input_closes_the_question_too(start: Start, workspace: Path) -> None:
    driver = await start(run("touch one", "c1"), says("fine"), **ASKS)
    first = driver.begin("go")
    await driver.until(ExecApprovalRequest)
    second = driver.begin("something else")
    assert (await driver.end_of(first))[-1] == TurnAborted(turn_id=first, reason="replaced")
    assert isinstance((await driver.end_of(second))[-1], TaskComplete)
    assert not (workspace / "one").exists()


async def test_a_shutdown_does_not_wait_for_an_answer(start: Start, workspace: Path) -> None:
    driver = await start(run("touch one", "c1"), says("never"), **ASKS)
    driver.begin("go")
    await driver.until(ExecApprovalRequest)
    driver.submit(Shutdown())
    await asyncio.wait_for(driver._actor, 5)
    assert not (workspace / "one").exists()


async def test_a_turn_with_a_time_limit_does_not_wait_for_ever(start: Start, workspace: Path) -> None:
    limit = {"spindle": {"limits": {"turn_timeout_sec": 0.3}}}
    driver = await start(run("touch one", "c1"), says("never"), config=limit, **ASKS)
    sub_id = driver.begin("go")
    msgs = await driver.end_of(sub_id)
    assert [msg for msg in msgs if isinstance(msg, Error) and "turn_timeout_sec" in msg.message]
    assert isinstance(msgs[-1], TaskComplete) and not (workspace / "one").exists()
    driver.submit(ExecApproval(id="c1", decision="approved"), "late")
    await driver.until(Warning, sub_id="late")


async def test_a_grant_can_be_revoked_while_its_command_runs(start: Start, workspace: Path) -> None:
    slow = "sleep 0.3; echo x >> log"
    driver = await start(run(slow, "c1"), run(slow, "c2"), says("done"), **ASKS)
    sub_id = driver.begin("go")
    await driver.until(ExecApprovalRequest)
    driver.submit(ExecApproval(id="c1", decision="approved_for_session"))
    await driver.until(ExecCommandBegin)
    driver.submit(RevokeGrant(id="grant-1"))
    second = await driver.until(ExecApprovalRequest)
    driver.submit(ExecApproval(id=second.call_id, decision="denied"))
    await driver.end_of(sub_id)
    assert (workspace / "log").read_text() == "x\n"


async def test_a_question_about_a_patch_ends_with_the_turn(start: Start, workspace: Path) -> None:
    add = "*** Begin Patch\n*** Add File: n.txt\n+x\n*** End Patch\n"
    driver = await start(patches(add, "p1"), says("never"), **ASKS)
    sub_id = driver.begin("go")
    await driver.until(ApplyPatchApprovalRequest)
    driver.submit(PatchApproval(id=sub_id, decision="abort"))
    assert (await driver.end_of(sub_id))[-1] == TurnAborted(turn_id=sub_id, reason="interrupted")
    assert len(driver.model.requests) == 1 and not (workspace / "n.txt").exists()


async def test_escalation_is_exactly_one_question_or_a_refusal(start: Start, tmp_path: Path) -> None:
    """A model that tries again and again outside of the sandbox gets a question each time, never a run without one."""
    target = tmp_path / "outside.txt"
    asks = [run(f"touch {target}", f"c{number}", **ESCALATED) for number in range(3)]
    refused = await start(*asks, says("done"), approval="never", sandbox="workspace-write")
    await refused.end_of(refused.begin("go"))
    assert all(
        text.startswith("approval policy is Never; reject command") for text in outputs(refused.inputs[-1]).values()
    )
    assert questions(refused) == [] and not target.exists()
    asked = await start(*asks, says("done"), approval="on-request", sandbox="workspace-write")
    sub_id = asked.begin("go")
    for _ in asks:
        question = await asked.until(ExecApprovalRequest)
        assert not target.exists()
        asked.submit(ExecApproval(id=question.call_id, decision="denied"))
    await asked.end_of(sub_id)
    assert questions(asked) == ["c0", "c1", "c2"] and not target.exists()
