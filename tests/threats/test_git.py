"""Git outside the sandbox, by a rule or a yes: it runs what the user set up, and nothing that the agent made.

Through the installed command. `tests/policy/test_git_differential.py` tries the many ways that git has.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from fake_server import FakeServer, call
from installed import Spindle
from repository import needs_git
from threats.engine import ask, run_calls

pytestmark = needs_git
WRITE = ("-s", "workspace-write")
WHY = {"sandbox_permissions": "require_escalated", "justification": "to record the work"}


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder of the user's that is no business of the agent."""
    folder = tmp_path / "outside"
    folder.mkdir()
    return folder


def shell(script: str, call_id: str, **more: Any) -> dict[str, Any]:
    return call("exec_command", {"cmd": script, **more}, call_id)


def planting(folder: str, canary: Path) -> str:
    """What an agent does inside of the sandbox: a repository of its own, with a hook."""
    hook = f"{folder}/.git/hooks/post-index-change"
    text = f"#!/bin/sh\ntouch {shlex.quote(str(canary))}\n"
    return (
        f"git init -q {folder} && mkdir -p {folder}/.git/hooks && printf %s {shlex.quote(text)} > {hook} && "
        f"chmod +x {hook} && cp {hook} {folder}/.git/hooks/pre-commit && echo 1 > {folder}/f"
    )


def allow(spindle: Spindle, *prefix: str) -> None:
    (spindle.home / "rules").mkdir(exist_ok=True)
    words = ", ".join(f'"{word}"' for word in prefix)
    with (spindle.home / "rules/default.rules").open("a") as file:
        file.write(f'prefix_rule(pattern=[{words}], decision="allow")\n')


@pytest.mark.parametrize("words", ["git add f", "git commit -qm x --allow-empty", "git update-index --add f"])
def test_row1_a_rule_does_not_let_out_what_the_agent_made(
    spindle: Spindle, server: FakeServer, outside: Path, words: str
) -> None:
    for name in ("add", "commit", "update-index"):
        allow(spindle, "git", name)
    (spindle.home.parent / ".gitconfig").write_text("[user]name=u\nemail=u@h\n")
    calls = [shell(planting("sub", outside / "ran"), "made"), shell(words, "used", workdir="sub")]
    told = run_calls(spindle, server, calls, *WRITE)
    assert "Process exited with code 0" in told["made"], told
    assert (spindle.workspace / "sub/.git/hooks/pre-commit").exists()
    assert not (outside / "ran").exists(), told


def test_row1_a_rule_still_lets_out_what_the_user_set_up(spindle: Spindle, server: FakeServer, outside: Path) -> None:
    allow(spindle, "git", "add")
    hook = spindle.workspace / ".git/hooks/post-index-change"
    hook.write_text(f"#!/bin/sh\ntouch {shlex.quote(str(outside / 'mine'))}\n")
    hook.chmod(0o755)
    (spindle.workspace / "below").mkdir()
    (spindle.workspace / "below/f").write_text("1\n")
    told = run_calls(spindle, server, [shell("git add f", "c", workdir="below")], *WRITE)
    assert (spindle.workspace / ".git/index").exists(), told
    assert (outside / "mine").exists()


@pytest.mark.parametrize("is_changed", [True, False])
def test_row1_a_yes_for_the_session_ends_when_git_would_run_something_else(
    spindle: Spindle, server: FakeServer, outside: Path, is_changed: bool
) -> None:
    (spindle.workspace / "sub").mkdir()
    between = planting("sub", outside / "ran") if is_changed else "true"
    calls = [
        shell("git status --short", "c1", workdir="sub", **WHY),
        shell(between, "c2"),
        shell("git status --short", "c3", workdir="sub", **WHY),
    ]
    flags = ("-c", "approval_policy=on-request", *WRITE)
    asked = ask(spindle, server, calls, *flags, decision="approved_for_session")
    assert [question["call_id"] for question in asked] == (["c1", "c3"] if is_changed else ["c1"])
    decisions = [one for one in asked[-1]["available_decisions"] if isinstance(one, str)]
    assert ("approved_for_session" in decisions) is not is_changed
    assert ("git may run what" in asked[-1]["if_approved"] and "/sub/.git" in asked[-1]["if_approved"]) is is_changed


def test_row4_the_question_about_a_second_try_says_what_git_would_run(
    spindle: Spindle, server: FakeServer, outside: Path
) -> None:
    with (spindle.workspace / ".git/config").open("a") as file:
        file.write('[filter "x"]\n\tclean = ./evil %f\n')
    (spindle.workspace / "f").write_text("1\n")
    asked = ask(spindle, server, [shell("git add f", "c")], "-c", "approval_policy=on-failure", *WRITE)
    assert len(asked) == 1 and "run it again without the sandbox" in asked[0]["reason"]
    assert "filter.x.clean = ./evil %f" in asked[0]["if_approved"], asked[0]
    assert asked[0].get("proposed_execpolicy_amendment") is None  # ./evil is the agent's to write


def test_row5_an_odd_pointer_makes_the_mode_refuse(spindle: Spindle, server: FakeServer) -> None:
    (spindle.workspace / ".git").rename(spindle.workspace / "g ")
    (spindle.workspace / ".git").write_text("gitdir: g \n")
    told = run_calls(spindle, server, [shell("touch 'g /hooks/pre-commit'; mkdir ok", "c")], *WRITE)
    assert "nothing was run" in told["c"] and "not every program reads alike" in told["c"]
    assert not (spindle.workspace / "ok").exists()
