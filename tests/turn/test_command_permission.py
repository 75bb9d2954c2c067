"""Permission to run or to write, through whole turns: rules, amendments, retries outside, grants taken back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from repository import needs_git
from sessions import Driver, Start
from spindle.model.scripted import calls, patches, says
from spindle.protocol.answers import ListGrantsResponse
from spindle.protocol.events import (
    ApplyPatchApprovalRequest,
    Error,
    ExecApprovalRequest,
    ExecCommandBegin,
    ExecCommandEnd,
    GrantAdded,
    GrantRevoked,
    PatchApplyBegin,
    PatchApplyEnd,
    TaskComplete,
    TurnAborted,
    Warning,
)
from spindle.protocol.ops import ExecApproval, ListGrants, PatchApproval, RevokeGrant
from spindle.workspace.shell import user_shell

SHELL = user_shell().path
QUESTIONS = (ExecApprovalRequest, ApplyPatchApprovalRequest)
ENDS = (*QUESTIONS, TaskComplete, TurnAborted)
ESCALATED = {"sandbox_permissions": "require_escalated", "justification": "May I write there?"}
SHELLS = ["exec_command", "shell_command", "shell"]


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder that no sandbox of these tests may write."""
    folder = tmp_path / "outside"
    folder.mkdir()
    return folder


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    folder = tmp_path / "codex-home" / "rules"
    folder.mkdir(parents=True)
    return folder


def shell(script: str, call_id: str = "c1", tool: str = "exec_command", **more: Any) -> Any:
    words: Any = {"exec_command": script, "shell_command": script, "shell": ["bash", "-c", script]}[tool]
    return calls(tool, {"cmd" if tool == "exec_command" else "command": words, **more}, call_id)


async def go(driver: Driver, *decisions: Any, **settings: Any) -> list[Any]:
    """Run a turn, give each question the next decision, and return the questions."""
    driver.begin("go", **settings)
    asked: list[Any] = []
    while isinstance(msg := await driver.until(*ENDS), QUESTIONS):
        kind = ExecApproval if isinstance(msg, ExecApprovalRequest) else PatchApproval
        driver.submit(kind(id=msg.call_id, decision=decisions[len(asked)]))
        asked.append(msg)
    assert len(asked) == len(decisions)
    return asked


def seen(driver: Driver, *kinds: type[Any]) -> list[Any]:
    return [event.msg for event in driver.events if isinstance(event.msg, kinds)]


def last_output(driver: Driver) -> str:
    return next(item["output"] for item in reversed(driver.inputs[-1]) if "output" in item)


# ---- rules -------------------------------------------------------------------------------------------


async def test_what_a_rule_allows_runs_without_the_sandbox_and_without_a_question(
    start: Start, outside: Path, rules: Path
) -> None:
    (rules / "mine.rules").write_text('prefix_rule(pattern=["touch"])\n')
    driver = await start(shell(f"touch {outside}/x"), shell(f"touch {outside}/y && tac /dev/null; id -u > {outside}/z"))
    driver.model.script(says("done"))
    await go(driver, sandbox_policy={"type": "workspace-write"}, approval_policy="on-request")
    assert sorted(path.name for path in outside.iterdir()) == ["x"]


async def test_a_rule_that_forbids_is_told_with_its_reason_and_the_refusal_is_seen(
    start: Start, workspace: Path, rules: Path
) -> None:
    (rules / "mine.rules").write_text(
        'prefix_rule(pattern=["touch"], decision="forbidden", justification="use the editor")\n'
    )
    driver = await start(shell("touch x", login=False), says("ok"), sandbox="workspace-write", approval="untrusted")
    await go(driver)
    assert last_output(driver) == f"`{SHELL} -c 'touch x'` rejected: use the editor"
    (end,) = seen(driver, ExecCommandEnd)
    assert (end.exit_code, end.aggregated_output) == (-1, last_output(driver))
    assert not (workspace / "x").exists()


async def test_a_rule_that_asks_is_a_refusal_where_nobody_may_be_asked(
    start: Start, workspace: Path, rules: Path
) -> None:
    (rules / "mine.rules").write_text('prefix_rule(pattern=["touch"], decision="prompt")\n')
    driver = await start(shell("touch x"), says("ok"), sandbox="danger-full-access", approval="never")
    await go(driver)
    assert "approval is required by policy, but the approval policy is never" in last_output(driver)
    assert not (workspace / "x").exists()


async def test_a_project_that_is_not_trusted_can_forbid_but_not_allow(
    start: Start, workspace: Path, outside: Path
) -> None:
    (workspace / ".codex" / "rules").mkdir(parents=True)
    (workspace / ".codex" / "rules" / "p.rules").write_text(
        'prefix_rule(pattern=["touch"])\nprefix_rule(pattern=["mkdir"], decision="forbidden")\n'
    )
    driver = await start(shell(f"touch {outside}/x"), shell("mkdir sub"), says("ok"), sandbox="workspace-write")
    await go(driver)
    assert not (outside / "x").exists() and not (workspace / "sub").exists()


async def test_the_reasons_of_a_project_that_is_not_trusted_are_not_given_as_ours(
    start: Start, workspace: Path
) -> None:
    (workspace / ".codex" / "rules").mkdir(parents=True)
    (workspace / ".codex" / "rules" / "p.rules").write_text(
        'prefix_rule(pattern=["make"], decision="prompt", justification="checked by your administrator\u202e")\n'
    )
    driver = await start(shell("make"), says("ok"), sandbox="workspace-write", approval="on-request")
    (question,) = await go(driver, "denied")
    assert question.reason == r"a rule of the project, which you do not trust: checked by your administrator\u{202E}"


async def test_a_trusted_project_can_allow(start: Start, workspace: Path, outside: Path) -> None:
    (workspace / ".codex" / "rules").mkdir(parents=True)
    (workspace / ".codex" / "rules" / "p.rules").write_text('prefix_rule(pattern=["touch"])\n')
    trust = {"projects": {str(workspace): {"trust_level": "trusted"}}}
    driver = await start(shell(f"touch {outside}/x"), says("ok"), sandbox="workspace-write", config=trust)
    await go(driver)
    assert (outside / "x").exists()


async def test_rules_can_be_switched_off(start: Start, outside: Path, rules: Path) -> None:
    (rules / "mine.rules").write_text('prefix_rule(pattern=["touch"])\n')
    driver = await start(
        shell(f"touch {outside}/x"), says("ok"), sandbox="workspace-write", config={"features": {"exec_policy": False}}
    )
    await go(driver)
    assert not (outside / "x").exists()


async def test_what_is_wrong_with_a_rule_file_is_said_once(start: Start, rules: Path) -> None:
    (rules / "bad.rules").write_text("import os\n")
    driver = await start(shell("true", "c1"), shell("true", "c2"), says("ok"), sandbox="workspace-write")
    await go(driver)
    assert len([warning for warning in seen(driver, Warning) if "bad.rules" in warning.message]) == 1


async def test_a_rule_that_the_model_writes_first_is_none_for_this_thread(
    start: Start, tmp_path: Path, workspace: Path
) -> None:
    rule = f"*** Begin Patch\n*** Add File: {tmp_path}/codex-home/rules/x.rules\n"
    rule += '+prefix_rule(pattern=["rm"])\n*** End Patch\n'
    driver = await start(
        patches(rule, "p1"), shell("rm -rf x"), says("ok"), sandbox="danger-full-access", approval="on-request"
    )
    await go(driver, "denied")
    assert (tmp_path / "codex-home" / "rules" / "x.rules").exists()


async def test_rules_are_read_once_per_thread(start: Start, outside: Path, rules: Path) -> None:
    driver = await start(shell("true"), says("ok"), sandbox="workspace-write")
    await go(driver)
    (rules / "late.rules").write_text('prefix_rule(pattern=["touch"])\n')
    driver.model.script(shell(f"touch {outside}/x"), says("ok"))
    await go(driver)
    assert not (outside / "x").exists()


@pytest.mark.parametrize("sandbox", ["workspace-write", "read-only"])
async def test_a_rule_does_not_let_a_planted_program_out(
    start: Start, workspace: Path, outside: Path, rules: Path, monkeypatch: pytest.MonkeyPatch, sandbox: str
) -> None:
    """A rule for `tool` means the installed one. What lies in the project runs inside, rule or not, whoever put it."""
    (rules / "mine.rules").write_text('prefix_rule(pattern=["touch"])\nprefix_rule(pattern=["tool"])\n')
    planted = workspace / "bin"
    planted.mkdir()
    for name in ("bash", "tool"):
        (planted / name).write_text(f"#!/bin/sh\ntouch {outside}/$(basename $0)\n")
        (planted / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{planted}:/usr/local/bin:/usr/bin:/bin")
    driver = await start(
        shell("touch x", "c1", shell=str(planted / "bash")),
        calls("shell", {"command": [str(planted / "bash"), "-c", "touch x"]}, "c2"),
        calls("shell", {"command": ["bin/bash", "-c", "touch x"]}, "c3"),
        calls("shell", {"command": ["bash", "-c", "touch x"]}, "c4"),
        shell("tool", "c5", login=False),
        shell(f"touch {outside}/allowed", "c6", login=False),
        says("ok"),
        sandbox=sandbox,
        approval="never",
    )
    await go(driver)
    assert [path.name for path in outside.iterdir()] == ["allowed"]


async def test_a_relative_path_in_a_rule_means_the_file_in_the_threads_folder(
    start: Start, workspace: Path, outside: Path, rules: Path
) -> None:
    (rules / "mine.rules").write_text('prefix_rule(pattern=["./build"])\nprefix_rule(pattern=["~/build"])\n')
    for folder in (workspace, workspace / "sub", workspace / "~"):
        folder.mkdir(exist_ok=True)
        (folder / "build").write_text(f"#!/bin/sh\ntouch {outside}/{folder.name}\n")
        (folder / "build").chmod(0o755)
    driver = await start(
        shell("./build", "c1", workdir="sub"),
        calls("shell", {"command": ["./build"], "workdir": "sub"}, "c2"),
        calls("shell", {"command": ["~/build"]}, "c5"),
        shell("cd sub && ./build", "c3"),
        shell("./build", "c4"),
        says("ok"),
        sandbox="workspace-write",
        approval="never",
    )
    await go(driver)
    assert [path.name for path in outside.iterdir()] == [workspace.name]


async def test_a_question_says_when_a_program_is_not_the_installed_one(
    start: Start, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = workspace / "bin"
    planted.mkdir()
    (planted / "git").write_text("#!/bin/sh\n")
    (planted / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{planted}:/usr/local/bin:/usr/bin:/bin")
    driver = await start(
        shell("git push && touch x", "c1", **ESCALATED),
        shell("touch x", "c2", **ESCALATED),
        says("ok"),
        sandbox="workspace-write",
        approval="on-request",
    )
    first, second = await go(driver, "denied", "denied")
    assert first.if_approved.endswith("; found where the agent can write: git")
    assert "agent can write" not in second.if_approved and first.proposed_execpolicy_amendment is None


@needs_git
async def test_looking_at_a_repository_runs_no_program_of_its_own(
    start: Start, workspace: Path, tmp_path: Path
) -> None:
    canary = tmp_path / "canary"
    spy = tmp_path / "spy"
    spy.write_text(f"#!/bin/sh\ntouch {canary}\n")
    spy.chmod(0o755)
    config = workspace / ".git" / "config"
    config.write_text(f"{config.read_text()}[core]\n\tfsmonitor = {spy}\n")
    driver = await start(shell("git status"), says("ok"), sandbox="danger-full-access", approval="untrusted")
    await go(driver)
    assert "No commits yet" in last_output(driver) and not canary.exists()
    driver.model.script(shell("git -c a.b=c status", "c2"), says("ok"))
    await go(driver, "approved")
    assert canary.exists()  # the trap works: this command is not one that only looks
    canary.unlink()
    config.write_text(f"{config.read_text()}[diff]\n\texternal = {spy}\n")
    driver.model.script(shell("git log --oneline; git diff", "c3"), says("ok"))
    (question,) = await go(driver, "denied")
    assert question.call_id == "c3" and not canary.exists()


@pytest.mark.parametrize("sandbox", ["read-only", "workspace-write", "danger-full-access"])
async def test_a_program_of_the_project_is_not_known_safe_by_its_name(
    start: Start, workspace: Path, monkeypatch: pytest.MonkeyPatch, sandbox: str
) -> None:
    """Many have a folder of the project in their PATH; a repository may bring its own `ls` along there."""
    (workspace / "bin").mkdir()
    (workspace / "bin" / "ls").write_text("#!/bin/sh\necho it ran\n")
    (workspace / "bin" / "ls").chmod(0o755)
    monkeypatch.setenv("PATH", f"{workspace}/bin:/usr/local/bin:/usr/bin:/bin")
    driver = await start(
        shell("ls", "c1", login=False),
        calls("shell", {"command": ["ls"]}, "c2"),
        shell("cat x", "c3", login=False),
        shell("/bin/ls", "c4", login=False),
        says("ok"),
        sandbox=sandbox,
        approval="untrusted",
    )
    assert [question.call_id for question in await go(driver, "denied", "denied")] == ["c1", "c2"]


# ---- amendments --------------------------------------------------------------------------------------


def amendment(*prefix: str) -> dict[str, Any]:
    return {"approved_execpolicy_amendment": {"proposed_execpolicy_amendment": list(prefix)}}


@pytest.mark.parametrize("as_object", [False, True])
async def test_an_amendment_is_written_used_at_once_and_told_to_the_model(
    start: Start, outside: Path, tmp_path: Path, as_object: bool
) -> None:
    ask = {**ESCALATED, "prefix_rule": ["touch", str(outside / "x")]}
    driver = await start(
        shell(f"touch {outside}/x", "c1", **ask),
        shell(f"touch {outside}/x -c", "c2", **ESCALATED),
        shell(f"touch {outside}/x -a", "c3"),
        says("done"),
        sandbox="workspace-write",
        approval="on-request",
    )
    prefix = ["touch", str(outside / "x")]
    (asked,) = await go(driver, amendment(*prefix) if as_object else "approved_execpolicy_amendment")
    assert asked.proposed_execpolicy_amendment == prefix and asked.reason == "May I write there?"
    file = tmp_path / "codex-home" / "rules" / "default.rules"
    assert file.read_text() == f'prefix_rule(pattern=["touch", "{outside}/x"], decision="allow")\n'
    assert (outside / "x").exists()
    (added,) = seen(driver, GrantAdded)
    assert added.grant["scope"] == {"type": "prefix", "prefix": prefix}
    assert "approved prefixes" not in json.dumps(driver.inputs[-1]).lower()
    driver.model.script(says("again"))
    await go(driver)
    appended = driver.inputs[-1][len(driver.inputs[-2]) :]
    assert driver.inputs[-1][: len(driver.inputs[-2])] == driver.inputs[-2]
    (message,) = [item for item in appended if item.get("role") == "developer"]
    assert json.dumps(prefix, separators=(",", ":")) in message["content"][0]["text"]


async def test_an_amendment_holds_for_the_very_command_that_was_asked_about(start: Start, outside: Path) -> None:
    driver = await start(shell(f"touch {outside}/x"), says("done"), sandbox="workspace-write", approval="untrusted")
    (asked,) = await go(driver, "approved_execpolicy_amendment")
    assert "in the sandbox" in asked.if_approved
    (grant,) = [offer["grants"][0] for offer in asked.offers if isinstance(offer["decision"], dict)]
    assert "without the sandbox" in grant["text"] and (outside / "x").exists()


async def test_rules_that_are_there_at_the_start_are_told_in_the_first_request(
    start: Start, rules: Path, workspace: Path
) -> None:
    (rules / "mine.rules").write_text('prefix_rule(pattern=["git", ["push", "fetch"]])\n')
    driver = await start(says("hi"), says("again"), sandbox="workspace-write", approval="on-request")
    await go(driver)
    told = driver.inputs[0][0]["content"][0]["text"]
    assert '["git","fetch"]\n["git","push"]' in told
    await go(driver)
    assert driver.inputs[1][: len(driver.inputs[0])] == driver.inputs[0]
    assert not [item for item in driver.inputs[1][len(driver.inputs[0]) :] if item.get("role") == "developer"]


async def test_an_amendment_that_would_allow_anything_is_only_a_yes(
    start: Start, outside: Path, tmp_path: Path
) -> None:
    driver = await start(
        shell(f"touch {outside}/x", **ESCALATED), says("done"), sandbox="workspace-write", approval="on-request"
    )
    await go(driver, amendment("sudo"))
    assert (outside / "x").exists() and not (tmp_path / "codex-home" / "rules").exists()
    assert [warning for warning in seen(driver, Warning) if "sudo" in warning.message]


async def test_no_amendment_is_offered_for_what_cannot_be_judged(start: Start, tmp_path: Path) -> None:
    driver = await start(
        shell("python3 -", **{**ESCALATED, "prefix_rule": ["python3"]}),
        says("done"),
        sandbox="workspace-write",
        approval="on-request",
    )
    (asked,) = await go(driver, "approved_execpolicy_amendment")
    assert asked.proposed_execpolicy_amendment is None
    assert not (tmp_path / "codex-home" / "rules").exists()
    assert [warning for warning in seen(driver, Warning) if "no rule was offered" in warning.message]


async def test_a_secret_in_a_command_does_not_end_in_a_rule_file(start: Start, outside: Path, tmp_path: Path) -> None:
    name = f"{outside}/ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    driver = await start(
        shell(f"touch {name}", **ESCALATED), says("done"), sandbox="workspace-write", approval="on-request"
    )
    (asked,) = await go(driver, amendment("touch", name))
    assert asked.proposed_execpolicy_amendment is None
    assert Path(name).exists() and not (tmp_path / "codex-home" / "rules").exists()


# ---- retries outside ---------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", SHELLS)
async def test_on_failure_a_command_that_the_sandbox_stopped_runs_again_outside_after_a_yes(
    start: Start, outside: Path, tool: str
) -> None:
    driver = await start(
        shell(f"echo ran >> {outside}/x && echo fine", tool=tool),
        says("done"),
        sandbox="workspace-write",
        approval="on-failure",
    )
    driver.begin("go")
    asked = await driver.until(*ENDS)
    assert isinstance(asked, ExecApprovalRequest) and "without the sandbox" in str(asked.reason)
    assert not (outside / "x").exists()
    driver.submit(ExecApproval(id=asked.call_id, decision="approved"))
    await driver.until(TaskComplete)
    assert (outside / "x").read_text() == "ran\n"
    kinds = [type(msg).__name__ for msg in seen(driver, ExecCommandBegin, ExecCommandEnd, ExecApprovalRequest)]
    run = ["ExecCommandBegin", "ExecCommandEnd"]
    assert kinds == [*run, "ExecApprovalRequest", *run]
    assert [end.exit_code == 0 for end in seen(driver, ExecCommandEnd)] == [False, True]
    assert "fine" in last_output(driver) and "denied" not in last_output(driver)


@pytest.mark.parametrize("tool", SHELLS)
async def test_a_no_to_the_retry_gives_the_model_the_failure(start: Start, outside: Path, tool: str) -> None:
    driver = await start(
        shell(f"touch {outside}/x", tool=tool), says("done"), sandbox="workspace-write", approval="on-failure"
    )
    await go(driver, "denied")
    assert not (outside / "x").exists()
    assert "Read-only file system" in last_output(driver)


@pytest.mark.parametrize("tool", SHELLS)
@pytest.mark.parametrize("policy", ["never", "on-request"])
async def test_under_other_policies_the_failure_is_simply_told(
    start: Start, outside: Path, policy: str, tool: str
) -> None:
    driver = await start(
        shell(f"touch {outside}/x", tool=tool), says("done"), sandbox="workspace-write", approval=policy
    )
    await go(driver)
    assert not (outside / "x").exists() and "Read-only file system" in last_output(driver)


async def test_a_yes_to_a_run_inside_is_no_yes_to_one_outside(start: Start, outside: Path) -> None:
    driver = await start(shell(f"touch {outside}/x"), says("done"), sandbox="workspace-write", approval="untrusted")
    (asked,) = await go(driver, "approved")
    assert "in the sandbox" in asked.if_approved
    assert not (outside / "x").exists() and "Read-only file system" in last_output(driver)


async def test_under_untrusted_a_safe_command_that_the_sandbox_stopped_is_asked_about(
    start: Start, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3\n")
    secret.chmod(0)  # not even root of a sandbox may read it
    driver = await start(shell(f"cat {secret}"), says("done"), sandbox="workspace-write", approval="untrusted")
    await go(driver, "approved")
    assert len(seen(driver, ExecCommandBegin)) == 2


async def test_a_retry_that_was_granted_for_the_session_is_not_asked_about_again(start: Start, outside: Path) -> None:
    again = [shell(f"echo x >> {outside}/x", f"c{number}") for number in range(2)]
    driver = await start(*again, says("done"), sandbox="workspace-write", approval="on-failure")
    await go(driver, "approved_for_session")
    assert (outside / "x").read_text() == "x\nx\n"
    assert [end.exit_code == 0 for end in seen(driver, ExecCommandEnd)] == [False, True, False, True]


async def test_a_failure_of_its_own_is_not_blamed_on_the_sandbox(start: Start) -> None:
    driver = await start(shell("ls /nonexistent"), says("done"), sandbox="workspace-write", approval="on-failure")
    await go(driver)
    assert len(seen(driver, ExecCommandBegin)) == 1


async def test_where_there_is_no_sandbox_there_is_nothing_to_retry(start: Start) -> None:
    script = "echo permission denied; exit 1"
    driver = await start(shell(script), says("done"), sandbox="danger-full-access", approval="on-failure")
    await go(driver)
    assert len(seen(driver, ExecCommandBegin)) == 1


async def test_a_command_that_ran_out_of_time_is_not_run_again(start: Start) -> None:
    slow = shell("echo permission denied; sleep 20", tool="shell_command", timeout_ms=300)
    driver = await start(slow, says("done"), sandbox="workspace-write", approval="on-failure")
    await go(driver)
    assert "timed out" in last_output(driver) and len(seen(driver, ExecCommandBegin)) == 1


async def test_an_abort_at_a_retry_ends_the_turn(start: Start, outside: Path) -> None:
    driver = await start(shell(f"touch {outside}/x"), says("never"), sandbox="workspace-write", approval="on-failure")
    await go(driver, "abort")
    assert isinstance(driver.events[-1].msg, TurnAborted) and not (outside / "x").exists()
    assert len(driver.model.requests) == 1


def add_file(path: Path | str) -> str:
    return f"*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch\n"


@pytest.mark.parametrize(("decision", "written"), [("approved", True), ("denied", False)])
async def test_on_failure_a_patch_that_the_sandbox_stopped_is_asked_about(
    start: Start, outside: Path, workspace: Path, decision: str, written: bool
) -> None:
    both = f"*** Begin Patch\n*** Add File: in.txt\n+x\n*** Add File: {outside}/out.txt\n+x\n*** End Patch\n"
    driver = await start(patches(both, "p1"), says("done"), sandbox="workspace-write", approval="on-failure")
    (asked,) = await go(driver, decision)
    assert "without the sandbox" in asked.reason
    # Nothing is half done: the file inside is written with the other one, or not at all.
    assert (outside / "out.txt").exists() == (workspace / "in.txt").exists() == written
    begins = [begin.auto_approved for begin in seen(driver, PatchApplyBegin)]
    ends = [end.success for end in seen(driver, PatchApplyEnd)]
    assert (begins, ends) == (([True, False], [False, True]) if written else ([True], [False]))
    if not written:
        assert "No files were changed" in last_output(driver)


# ---- grants ------------------------------------------------------------------------------------------


async def grants(driver: Driver) -> list[Any]:
    driver.submit(ListGrants(), "list")
    return (await driver.until(ListGrantsResponse, sub_id="list")).grants


async def test_a_question_says_what_each_answer_would_grant(start: Start, workspace: Path, outside: Path) -> None:
    driver = await start(
        shell(f"touch {outside}/x", login=False, **ESCALATED),
        says("done"),
        sandbox="workspace-write",
        approval="on-request",
    )
    (asked,) = await go(driver, "denied")
    command = [SHELL, "-c", f"touch {outside}/x"]
    scope = {"type": "command", "command": command, "cwd": str(workspace)}
    offers = asked.offers
    words = [offer["decision"] for offer in offers]
    prefix = ["touch", f"{outside}/x"]
    assert words == ["approved", "approved_for_session", amendment(*prefix), "denied", "abort"]
    assert words == asked.available_decisions
    assert [[(grant["effect"], grant["scope"], grant["expires"]) for grant in offer["grants"]] for offer in offers] == [
        [("run_without_sandbox", scope, "once")],
        [("run_without_sandbox", scope, "session")],
        [("run_without_sandbox", {"type": "prefix", "prefix": prefix}, "revoked")],
        [],
        [],
    ]
    assert "without the sandbox" in asked.if_approved and "network" in asked.if_approved
    assert await grants(driver) == []


async def test_hidden_characters_are_shown_and_the_argument_list_stays_exact(start: Start) -> None:
    script = "echo a\u202eb\u200b\x07"
    driver = await start(
        shell(script, login=False, sandbox_permissions="require_escalated", justification="safe\u202e?"),
        says("done"),
        sandbox="workspace-write",
        approval="on-request",
    )
    (asked,) = await go(driver, "denied")
    assert asked.command == [SHELL, "-c", script]
    assert asked.display == SHELL + r" -c 'echo a\u{202E}b\u{200B}\u{7}'"
    assert asked.reason == asked.justification == r"safe\u{202E}?"
    assert all("\u202e" not in grant["text"] for offer in asked.offers for grant in offer["grants"])


async def test_a_reason_does_not_push_the_question_out_of_sight(start: Start) -> None:
    asks = shell("touch x", sandbox_permissions="require_escalated", justification="please " * 100_000)
    driver = await start(asks, says("ok"), sandbox="workspace-write", approval="on-request")
    (question,) = await go(driver, "denied")
    assert question.reason.startswith("please please") and question.reason.endswith("… (699999 characters)")
    assert len(question.reason) < 1100


async def test_what_the_model_says_does_not_replace_what_is_known(start: Start) -> None:
    driver = await start(
        shell("rm -rf build", justification="only looks around"),
        says("done"),
        sandbox="workspace-write",
        approval="on-request",
    )
    (asked,) = await go(driver, "denied")
    assert asked.reason == "the command may destroy files or work; the model says: only looks around"
    assert asked.justification == "only looks around"


async def test_grants_are_listed_and_a_revoked_one_is_asked_about_again(start: Start, workspace: Path) -> None:
    def run(call_id: str) -> Any:
        return shell("echo x >> log", call_id)

    driver = await start(run("c1"), run("c2"), says("done"), sandbox="workspace-write", approval="untrusted")
    await go(driver, "approved_for_session")
    (grant,) = await grants(driver)
    assert (grant["effect"], grant["expires"], grant["scope"]["cwd"]) == ("run_in_sandbox", "session", str(workspace))
    assert [added.grant for added in seen(driver, GrantAdded)] == [grant]
    driver.submit(RevokeGrant(id=grant["id"]), "revoke")
    assert (await driver.until(GrantRevoked, sub_id="revoke")).grant == grant
    assert await grants(driver) == []
    driver.model.script(run("c3"), says("done"))
    await go(driver, "denied")
    driver.submit(RevokeGrant(id=grant["id"]), "twice")
    assert "no grant" in (await driver.until(Error, sub_id="twice")).message


async def test_a_rule_of_an_amendment_is_listed_and_revoked_at_once(
    start: Start, outside: Path, tmp_path: Path
) -> None:
    def run(call_id: str) -> Any:
        return shell(f"touch {outside}/x", call_id, **ESCALATED)

    driver = await start(run("c1"), says("done"), sandbox="workspace-write", approval="on-request")
    await go(driver, "approved_execpolicy_amendment")
    (grant,) = await grants(driver)
    assert (grant["expires"], grant["scope"]["prefix"]) == ("revoked", ["touch", f"{outside}/x"])
    driver.submit(RevokeGrant(id=grant["id"]), "revoke")
    await driver.until(GrantRevoked, sub_id="revoke")
    assert (tmp_path / "codex-home" / "rules" / "default.rules").read_text() == ""
    driver.model.script(run("c2"), says("done"))
    await go(driver, "denied")


@pytest.mark.parametrize(
    "change",
    [
        {"sandbox_policy": {"type": "danger-full-access"}},
        {"sandbox_policy": {"type": "read-only"}},
        {"sandbox_policy": {"type": "workspace-write", "network_access": True}},
        {"sandbox_policy": {"type": "workspace-write", "writable_roots": ["/var"]}},
        {"cwd": "elsewhere"},
    ],
)
async def test_a_grant_ends_with_the_folder_or_the_sandbox_it_was_given_in(
    start: Start, workspace: Path, tmp_path: Path, change: dict[str, Any]
) -> None:
    script = f"cd {workspace} && echo x >> log"
    same = {"workdir": str(workspace)}
    driver = await start(shell(script, "c1", **same), says("done"), sandbox="workspace-write", approval="untrusted")
    await go(driver, "approved_for_session")
    if "cwd" in change:
        (tmp_path / "elsewhere").mkdir()
        change = {"cwd": str(tmp_path / "elsewhere")}
    driver.model.script(shell(script, "c2", **same), says("done"))
    await go(driver, "denied", **change)
    (revoked,) = seen(driver, GrantRevoked)
    assert revoked.reason == "settings_changed" and await grants(driver) == []
    # Nor does it come back when the settings do.
    driver.model.script(shell(script, "c3", **same), says("done"))
    await go(driver, "denied", cwd=str(workspace), sandbox_policy={"type": "workspace-write"})
    assert (workspace / "log").read_text() == "x\n"


async def test_a_grant_for_the_sandbox_is_none_for_outside_and_holds_for_one_folder_only(
    start: Start, workspace: Path
) -> None:
    (workspace / "sub").mkdir()
    run = "rm -f nothing"
    driver = await start(shell(run, "c1"), says("done"), sandbox="workspace-write", approval="on-request")
    await go(driver, "approved_for_session")
    driver.model.script(shell(run, "c2", **ESCALATED), shell(run, "c3", workdir="sub"), shell(run, "c4"), says("done"))
    asked = await go(driver, "denied", "denied")
    assert [question.call_id for question in asked] == ["c2", "c3"]


async def test_a_grant_is_for_the_folder_and_not_for_a_link_to_it(start: Start, workspace: Path) -> None:
    for name in ("one", "two"):
        (workspace / name).mkdir()
    (workspace / "link").symlink_to("one")
    driver = await start(
        shell("echo x >> log", "c1", workdir="link"), says("done"), sandbox="workspace-write", approval="untrusted"
    )
    await go(driver, "approved_for_session")
    (workspace / "link").unlink()
    (workspace / "link").symlink_to("two")
    driver.model.script(
        shell("echo x >> log", "c2", workdir="link"), shell("echo x >> log", "c3", workdir="one"), says("done")
    )
    asked = await go(driver, "denied")
    assert [question.cwd for question in asked] == [f"{workspace}/two"]
    assert (workspace / "one" / "log").read_text() == "x\nx\n" and not (workspace / "two" / "log").exists()


async def test_a_yes_is_for_the_folder_that_was_shown(start: Start, workspace: Path) -> None:
    for name in ("one", "two"):
        (workspace / name).mkdir()
    (workspace / "link").symlink_to("one")
    driver = await start(
        shell("touch made", "c1", workdir="link"), says("done"), sandbox="workspace-write", approval="untrusted"
    )
    driver.begin("go")
    asked = await driver.until(ExecApprovalRequest)
    assert asked.cwd == f"{workspace}/one"
    (workspace / "link").unlink()
    (workspace / "link").symlink_to("two")
    driver.submit(ExecApproval(id=asked.call_id, decision="approved"))
    await driver.until(TaskComplete)
    assert not (workspace / "one" / "made").exists() and not (workspace / "two" / "made").exists()
    assert "nothing was run" in last_output(driver)


async def test_all_files_of_a_later_patch_must_have_been_granted(start: Start, workspace: Path) -> None:
    def change(*names: str) -> str:
        hunks = "".join(f"*** Add File: {name}\n+x\n" for name in names)
        return f"*** Begin Patch\n{hunks}*** End Patch\n"

    move = "*** Begin Patch\n*** Update File: a\n*** Move to: c\n@@\n-x\n+y\n*** End Patch\n"
    driver = await start(
        patches(change("a", "b"), "p1"),
        patches(change("b"), "p2"),
        patches(change("a", "new"), "p3"),
        patches(move, "p4"),
        says("done"),
        sandbox="workspace-write",
        approval="untrusted",
    )
    asked = await go(driver, "approved_for_session", "denied", "approved")
    assert [question.call_id for question in asked] == ["p1", "p3", "p4"]
    assert [grant["scope"]["path"] for grant in await grants(driver)] == [f"{workspace}/a", f"{workspace}/b"]
    assert asked[0].grant_root is None
    assert (workspace / "c").read_text() == "y\n" and not (workspace / "new").exists()


@pytest.mark.parametrize(
    ("policy", "mode", "target", "text"),
    [
        (
            "never",
            "workspace-write",
            "../outside/x",
            "writing outside of the project; rejected by user approval settings",
        ),
        ("never", "read-only", "x", "writing is blocked by read-only sandbox; rejected by user approval settings"),
        ("on-request", "read-only", "x", "by user"),
        ("untrusted", "workspace-write", "x", "by user"),
    ],
)
async def test_a_refused_patch_writes_nothing_and_the_model_is_told_why(
    start: Start, outside: Path, workspace: Path, policy: str, mode: str, target: str, text: str
) -> None:
    driver = await start(patches(add_file(target), "p1"), says("done"), sandbox=mode, approval=policy)
    await go(driver, *(["denied"] if text == "by user" else []))
    refusal = "patch rejected by user" if text == "by user" else f"patch rejected: {text}"
    assert last_output(driver) == refusal
    assert not (workspace / target).resolve().exists() and not seen(driver, PatchApplyBegin)


async def test_an_empty_patch_is_rejected(start: Start) -> None:
    driver = await start(patches("*** Begin Patch\n*** End Patch\n", "p1"), says("done"), sandbox="workspace-write")
    await go(driver)
    assert last_output(driver) == "patch rejected: empty patch"
