"""The decision tables for commands and patches, with the texts the model reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from spindle.policy.approval import (
    Allow,
    Ask,
    Circumstances,
    Decision,
    Refuse,
    decide_command,
    decide_patch,
    looks_denied,
)
from spindle.policy.sandbox import boundary_of
from spindle.protocol.settings import ApprovalPolicy, SandboxMode, SandboxPolicy

BUILD = ["bash", "-lc", "make"]


def decide(
    policy: ApprovalPolicy,
    mode: SandboxMode,
    *,
    argv: list[str] = BUILD,
    escalated: bool = False,
    available: bool = True,
) -> Decision:
    sandbox = SandboxPolicy(mode=mode)
    circumstances = Circumstances(policy=policy, sandbox=sandbox, sandbox_available=available)
    return decide_command(argv, circumstances, escalated=escalated)


@pytest.mark.parametrize("mode", ["read-only", "workspace-write"])
@pytest.mark.parametrize("policy", ["never", "on-failure", "on-request"])
def test_a_plain_command_runs_in_the_sandbox_unasked(policy: ApprovalPolicy, mode: SandboxMode) -> None:
    assert decide(policy, mode) == Allow(sandboxed=True)


@pytest.mark.parametrize("policy", ["never", "on-failure", "on-request"])
def test_full_access_runs_everything_bare(policy: ApprovalPolicy) -> None:
    assert decide(policy, "danger-full-access", escalated=True) == Allow(sandboxed=False)


def test_untrusted_asks_for_whatever_is_not_known_safe() -> None:
    assert decide("untrusted", "workspace-write") == Ask()
    assert decide("untrusted", "danger-full-access") == Ask(sandboxed_if_approved=False)
    assert decide("untrusted", "workspace-write", argv=["ls"]) == Allow(sandboxed=True)


@pytest.mark.parametrize(
    ("policy", "name"), [("never", "Never"), ("on-failure", "OnFailure"), ("untrusted", "UnlessTrusted")]
)
def test_leaving_the_sandbox_can_only_be_asked_for_on_request(policy: ApprovalPolicy, name: str) -> None:
    decision = decide(policy, "workspace-write", argv=["ls"], escalated=True)
    assert isinstance(decision, Refuse)
    assert decision.message.startswith(f"approval policy is {name}; reject command")
    assert decide("on-request", "read-only", escalated=True) == Ask(sandboxed_if_approved=False)


def test_row_11_what_destroys_runs_where_nobody_can_be_asked_and_a_catastrophe_is_refused_with_its_reason() -> None:
    argv = ["/bin/bash", "-lc", "rm -rf 'my build'"]
    assert decide("never", "workspace-write", argv=argv) == Allow(sandboxed=True)
    assert decide("never", "danger-full-access", argv=argv) == Allow(sandboxed=False)
    for mode in ("workspace-write", "danger-full-access"):
        assert decide("never", mode, argv=["/bin/bash", "-lc", "rm -rf ."]) == Refuse(
            message="`/bin/bash -lc 'rm -rf .'` rejected: nobody can be asked here, and it would delete the whole "
            "workspace; name the files or folders inside it that are to go"
        )


def test_without_a_sandbox_nothing_runs_bare_unasked() -> None:
    for policy in ("untrusted", "on-failure", "on-request"):
        decision = decide(policy, "workspace-write", argv=["ls"], available=False)
        assert isinstance(decision, Ask)
        assert not decision.sandboxed_if_approved
    # Starting it fails with the reason; a decision could only say "no".
    assert decide("never", "workspace-write", available=False) == Allow(sandboxed=True)
    assert decide("never", "danger-full-access", available=False) == Allow(sandboxed=False)


def test_a_patch_inside_the_roots_needs_no_question(tmp_path: Path) -> None:
    def judge(path: str, policy: ApprovalPolicy, mode: SandboxMode = "workspace-write") -> Decision:
        sandbox = SandboxPolicy(mode=mode, exclude_slash_tmp=True, exclude_tmpdir_env_var=True)
        return decide_patch([path], policy=policy, boundary=boundary_of(sandbox, cwd=str(tmp_path), env={}, home=""))

    inside, outside = str(tmp_path / "a.txt"), str(tmp_path.parent / "b.txt")
    assert judge(inside, "never") == Allow(sandboxed=True)
    assert judge(inside, "untrusted") == Ask()
    assert judge(outside, "on-failure") == Allow(sandboxed=True)
    assert isinstance(judge(outside, "on-request"), Ask)
    assert judge(outside, "never") == Refuse(
        message="patch rejected: writing outside of the project; rejected by user approval settings"
    )
    assert judge(str(tmp_path / ".git" / "config"), "never") == judge(outside, "never")
    assert judge(inside, "never", "read-only") == Refuse(
        message="patch rejected: writing is blocked by read-only sandbox; rejected by user approval settings"
    )
    assert judge(outside, "never", "danger-full-access") == Allow(sandboxed=False)


def test_one_bad_path_spoils_the_patch(tmp_path: Path) -> None:
    sandbox = SandboxPolicy(mode="workspace-write", exclude_slash_tmp=True, exclude_tmpdir_env_var=True)
    paths = [str(tmp_path / "a"), "/etc/passwd"]
    boundary = boundary_of(sandbox, cwd=str(tmp_path), env={}, home="")
    assert isinstance(decide_patch(paths, policy="never", boundary=boundary), Refuse)
    assert decide_patch([], policy="on-request", boundary=boundary) == Refuse(message="patch rejected: empty patch")


@pytest.mark.parametrize(
    ("code", "output", "denied"),
    [
        (1, "touch: cannot touch 'x': Read-only file system", True),
        (1, "PERMISSION DENIED", True),
        (0, "permission denied", False),
        (1, "no such file", False),
        (127, "not found", False),
        (159, "", True),
    ],
)
def test_a_denied_run_is_known_by_its_words(code: int, output: str, denied: bool) -> None:
    assert looks_denied(code, output) is denied
