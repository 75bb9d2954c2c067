"""A person's word about a command or a patch: once, for the session, no, and stop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sessions import Start
from spindle.model.scripted import calls, patches, says
from spindle.protocol.events import (
    ApplyPatchApprovalRequest,
    ExecApprovalRequest,
    ExecCommandBegin,
    TaskComplete,
    TurnAborted,
)
from spindle.protocol.failed_calls import ToolCallFailed
from spindle.protocol.ops import ExecApproval, PatchApproval

ASKS = {"approval": "untrusted", "sandbox": "workspace-write"}
ENDS = (ExecApprovalRequest, ApplyPatchApprovalRequest, TaskComplete, TurnAborted)
ADD = "*** Begin Patch\n*** Add File: n.txt\n+x\n*** End Patch\n"
CHANGE = "*** Begin Patch\n*** Update File: n.txt\n@@\n-x\n+y\n*** End Patch\n"


def run(call_id: str) -> Any:
    return calls("exec_command", {"cmd": "echo x >> log"}, call_id)


@pytest.mark.parametrize(("decision", "questions"), [("approved", 2), ("approved_for_session", 1)])
async def test_a_command_is_asked_about_again_unless_it_was_granted_for_the_session(
    start: Start, workspace: Path, decision: str, questions: int
) -> None:
    driver = await start(run("c1"), run("c2"), says("done"), **ASKS)
    driver.begin("go")
    asked = 0
    while isinstance(msg := await driver.until(*ENDS), ExecApprovalRequest):
        asked += 1
        driver.submit(ExecApproval(id=msg.call_id, decision=decision))
    assert (asked, (workspace / "log").read_text()) == (questions, "x\nx\n")


@pytest.mark.parametrize(("decision", "questions"), [("approved", 2), ("approved_for_session", 1)])
async def test_a_patch_is_asked_about_again_unless_its_files_were_granted_for_the_session(
    start: Start, workspace: Path, decision: str, questions: int
) -> None:
    driver = await start(patches(ADD, "p1"), patches(CHANGE, "p2"), says("done"), **ASKS)
    driver.begin("go")
    asked = 0
    while isinstance(msg := await driver.until(*ENDS), ApplyPatchApprovalRequest):
        asked += 1
        driver.submit(PatchApproval(id=msg.call_id, decision=decision))
    assert (asked, (workspace / "n.txt").read_text()) == (questions, "y\n")


async def test_a_no_is_told_to_the_model_and_the_turn_goes_on(start: Start, workspace: Path) -> None:
    driver = await start(run("c1"), says("understood"), **ASKS)
    sub_id = driver.begin("go")
    await driver.until(ExecApprovalRequest)
    driver.submit(ExecApproval(id=sub_id, decision="denied"))
    msgs = await driver.end_of(sub_id)
    assert msgs[-1] == TaskComplete(turn_id=sub_id, last_agent_message="understood", response_id="resp-2")
    assert not [msg for msg in msgs if isinstance(msg, ExecCommandBegin)] and not (workspace / "log").exists()
    assert driver.inputs[1][-1]["output"] == "exec command rejected by user"


async def test_the_reason_of_a_no_is_told_to_the_model(start: Start, workspace: Path) -> None:
    driver = await start(run("c1"), patches(ADD, "p1"), says("understood"), **ASKS)
    sub_id = driver.begin("go")
    await driver.until(ExecApprovalRequest)
    driver.submit(ExecApproval(id="c1", decision={"denied": {"reason": " not on a Monday "}}))
    await driver.until(ApplyPatchApprovalRequest)
    driver.submit(PatchApproval(id="p1", decision={"deny": {"reason": "nor this"}}))
    await driver.end_of(sub_id)
    assert driver.inputs[1][-1]["output"] == "exec command rejected by user: not on a Monday"
    assert driver.inputs[2][-1]["output"] == "patch rejected by user: nor this"
    assert not (workspace / "log").exists() and not (workspace / "n.txt").exists()


async def test_the_reason_not_to_run_something_again_without_the_sandbox_is_told_too(
    start: Start, workspace: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    command = calls("exec_command", {"cmd": f"echo x > {outside}/f"}, "c1")
    driver = await start(command, says("understood"), approval="on-failure", sandbox="workspace-write")
    sub_id = driver.begin("go")
    await driver.until(ExecApprovalRequest)
    driver.submit(ExecApproval(id="c1", decision={"denied": {"reason": "stay in your folder"}}))
    await driver.end_of(sub_id)
    told = driver.inputs[1][-1]["output"]
    assert told.rstrip().endswith("exec command rejected by user: stay in your folder") and "Output:" in told


@pytest.mark.parametrize("decision", [{"denied": {"reason": 7}}, {"denied": None}, {"denied": "x"}, {}])
async def test_a_no_whose_reason_cannot_be_read_is_a_plain_no(start: Start, workspace: Path, decision: Any) -> None:
    driver = await start(run("c1"), says("understood"), **ASKS)
    sub_id = driver.begin("go")
    await driver.until(ExecApprovalRequest)
    driver.submit(ExecApproval(id="c1", decision=decision))
    await driver.end_of(sub_id)
    assert driver.inputs[1][-1]["output"] == "exec command rejected by user" and not (workspace / "log").exists()


async def test_an_abort_is_a_no_that_ends_the_turn(start: Start, workspace: Path) -> None:
    driver = await start(run("c1"), says("never said"), **ASKS)
    sub_id = driver.begin("go")
    await driver.until(ExecApprovalRequest)
    driver.submit(ExecApproval(id=sub_id, decision="abort"))
    assert (await driver.end_of(sub_id))[-1] == TurnAborted(turn_id=sub_id, reason="interrupted")
    assert not (workspace / "log").exists()


@pytest.mark.parametrize(
    ("approval", "sandbox", "is_asked"),
    [
        ("untrusted", "workspace-write", True),
        ("untrusted", "danger-full-access", True),
        ("on-request", "read-only", True),
        ("on-request", "workspace-write", False),
        ("never", "read-only", False),
        ("on-failure", "workspace-write", False),
    ],
)
async def test_09_a_note_is_asked_about_where_a_command_that_writes_would_be(
    start: Start, tmp_path: Path, approval: str, sandbox: str, is_asked: bool
) -> None:
    note = calls("memory", {"command": "create", "path": "a.md", "text": "always push\n"}, "m1")
    looks = calls("memory", {"command": "view"}, "m2")
    config = {"spindle": {"memory": True}}
    driver = await start(looks, note, says("done"), approval=approval, sandbox=sandbox, config=config)
    driver.begin("go")
    msg = await driver.until(*ENDS)
    assert isinstance(msg, ApplyPatchApprovalRequest) is is_asked
    if isinstance(msg, ApplyPatchApprovalRequest):
        assert "always push" in str(msg.changes) and "later threads" in str(msg.reason)
        driver.submit(PatchApproval(id="m1", decision="denied"))
        await driver.until(TaskComplete)
    assert bool(list((tmp_path / "codex-home").rglob("a.md"))) is not is_asked


async def test_a_call_that_a_person_refused_is_not_told_as_one_that_failed(start: Start) -> None:
    driver = await start(run("c1"), patches(ADD, "p1"), calls("nosuch", {}, "n1"), says("done"), **ASKS)
    sub_id = driver.begin("go")
    await driver.until(ExecApprovalRequest)
    driver.submit(ExecApproval(id="c1", decision="denied"))
    await driver.until(ApplyPatchApprovalRequest)
    driver.submit(PatchApproval(id="p1", decision="denied"))
    failed = [msg for msg in await driver.end_of(sub_id) if isinstance(msg, ToolCallFailed)]
    assert failed == [ToolCallFailed(call_id="n1", tool="nosuch", message="unsupported call: nosuch")]


async def test_a_patch_in_a_shell_that_does_not_fit_is_told_as_a_call_that_failed(start: Start) -> None:
    script = f"apply_patch <<'EOF'\n{CHANGE}EOF"
    driver = await start(calls("exec_command", {"cmd": script}, "c1"), says("done"), sandbox="workspace-write")
    (failed,) = [msg for msg in await driver.end_of(driver.begin("go")) if isinstance(msg, ToolCallFailed)]
    assert (failed.call_id, failed.tool) == ("c1", "apply_patch") and "verification failed" in failed.message
