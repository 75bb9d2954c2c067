"""A permission profile through whole turns: what is asked about, what a yes opens, and what it does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sessions import Driver, Start
from spindle.model.scripted import calls, patches, says
from spindle.protocol.events import ApplyPatchApprovalRequest, ExecApprovalRequest, TaskComplete
from spindle.protocol.ops import ExecApproval, PatchApproval

QUESTIONS = (ExecApprovalRequest, ApplyPatchApprovalRequest)
ESCALATED = {"sandbox_permissions": "require_escalated", "justification": "May I?"}


@pytest.fixture
def secret(workspace: Path) -> Path:
    (workspace / "docs").mkdir()
    path = workspace / "vault" / "key"
    path.parent.mkdir()
    path.write_text("CANARY\n")
    return path


def profile() -> dict[str, Any]:
    files = {":root": "read", ":workspace_roots": {".": "write", "docs": "read", "vault": "deny"}}
    return {"default_permissions": "mine", "permissions": {"mine": {"filesystem": files}}}


async def opened(start: Start, approval: str) -> Any:
    return await start(sandbox=None, approval=approval, config=profile())


async def go(driver: Driver, *decisions: str) -> list[Any]:
    """Run a turn, give each question the next decision, and return the questions."""
    driver.begin("go")
    asked: list[Any] = []
    while isinstance(msg := await driver.until(*QUESTIONS, TaskComplete), QUESTIONS):
        kind = ExecApproval if isinstance(msg, ExecApprovalRequest) else PatchApproval
        driver.submit(kind(id=msg.call_id, decision=decisions[len(asked)]))
        asked.append(msg)
    assert len(asked) == len(decisions)
    return asked


def outputs(driver: Driver) -> list[str]:
    return [str(item["output"]) for item in driver.inputs[-1] if "output" in item]


def patch(*lines: str) -> str:
    return "\n".join(("*** Begin Patch", *lines, "*** End Patch"))


async def test_a_yes_to_leaving_the_sandbox_opens_everything_but_what_is_denied(
    start: Start, tmp_path: Path, secret: Path
) -> None:
    driver = await opened(start, "on-request")
    script = f"cat {secret}; touch {tmp_path}/outside; echo ran"
    driver.model.script(calls("exec_command", {"cmd": script, **ESCALATED}, "c1"), says("done"))
    (asked,) = await go(driver, "approved")
    assert asked.if_approved.endswith("use the network; what your permission profile denies stays closed")
    assert (tmp_path / "outside").exists()
    assert "ran" in outputs(driver)[0] and "CANARY" not in outputs(driver)[0]


async def test_a_command_stopped_by_a_denied_path_runs_again_once_and_is_stopped_again(
    start: Start, secret: Path
) -> None:
    driver = await opened(start, "on-failure")
    driver.model.script(calls("exec_command", {"cmd": f"cat {secret} && true"}, "c1"), says("done"))
    await go(driver, "approved")
    assert "Permission denied" in outputs(driver)[0] and "CANARY" not in outputs(driver)[0]


async def test_a_patch_is_asked_about_where_the_profile_only_reads_and_refused_where_it_denies(
    start: Start, workspace: Path, secret: Path
) -> None:
    driver = await opened(start, "on-request")
    driver.model.script(
        patches(patch("*** Add File: plain.txt", "+x"), "c1"),
        patches(patch("*** Add File: docs/page.txt", "+x"), "c2"),
        patches(patch("*** Add File: vault/page.txt", "+x"), "c3"),
        patches(patch("*** Update File: vault/key", "@@", "-CANARY", "+x"), "c4"),
        patches(patch("*** Delete File: vault/key"), "c5"),
        patches(patch("*** Update File: plain.txt", "*** Move to: vault/plain.txt", "@@", "-x", "+y"), "c6"),
        says("done"),
    )
    (asked,) = await go(driver, "approved")
    assert list(asked.changes) == [str(workspace / "docs/page.txt")]
    assert (workspace / "plain.txt").exists() and (workspace / "docs/page.txt").exists()
    assert secret.read_text() == "CANARY\n" and [path.name for path in secret.parent.iterdir()] == ["key"]
    assert "CANARY" not in str(outputs(driver)[2:])


async def test_a_mode_that_a_client_names_takes_the_place_of_the_profile(start: Start, secret: Path) -> None:
    driver = await opened(start, "never")
    driver.model.script(calls("exec_command", {"cmd": f"cat {secret}"}, "c1"), says("done"))
    await driver.turn("go", sandbox_policy={"type": "read-only"})
    assert "CANARY" in outputs(driver)[0]
