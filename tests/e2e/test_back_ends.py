"""The agent on systems with less than bubblewrap: it asks, it refuses, and it uses what the user accepted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from e2e.proto_client import OpenProto, Proto
from fake_server import FakeServer, call, message, turn
from installed import Spindle
from spindle.process.sandbox import landlock

NONE = ("-c", "spindle.sandbox.backend=none")
LANDLOCK = ("-c", "spindle.sandbox.backend=landlock")
needs_landlock = pytest.mark.skipif(
    landlock.unusable(landlock.abi()) is not None, reason="this kernel has no Landlock of use"
)
Run = Callable[..., dict[str, Any]]


def command(script: str, call_id: str = "c1") -> dict[str, Any]:
    return call("exec_command", {"cmd": script, "login": False}, call_id)


@pytest.fixture
def execute(spindle: Spindle, server: FakeServer) -> Run:
    """One turn of `spindle exec` in which the model runs `script`: what it was told."""

    def run_script(script: str, *options: str) -> dict[str, Any]:
        server.script(turn(command(script)), turn(message("done")))
        done = spindle("exec", "-s", "workspace-write", *options, "go")
        assert done.code == 0, done.err
        return server.turns_asked[-1].json["input"][-1]

    return run_script


@pytest.fixture
def proto(open_proto: OpenProto) -> Proto:
    opened = open_proto("-s", "workspace-write", "-a", "on-request", *NONE)
    opened.until("session_configured")
    return opened


def test_without_a_back_end_exec_refuses_what_it_would_have_confined(execute: Run, workspace: Path) -> None:
    assert execute("touch ran", *NONE)["output"].endswith("so nothing was run")
    assert not (workspace / "ran").exists()


def test_without_a_back_end_even_a_safe_command_is_not_run_bare(execute: Run) -> None:
    output = execute("cat README.md /etc/passwd", *NONE)["output"]
    assert "nothing was run" in output and "root:" not in output


@pytest.mark.parametrize(("answer", "ran"), [("approved", True), ("denied", False)])
def test_without_a_back_end_a_person_is_asked_before_each_command(
    proto: Proto, server: FakeServer, workspace: Path, answer: str, ran: bool
) -> None:
    server.script(turn(command("touch ran")), turn(message("done")))
    proto.say("s", "go")
    question = proto.until("exec_approval_request", "task_complete")[-1]["msg"]
    assert question["type"] == "exec_approval_request"
    assert not (workspace / "ran").exists()
    proto.send("a", "exec_approval", id=question["call_id"], decision=answer)
    proto.until("task_complete")
    assert (workspace / "ran").exists() is ran


@needs_landlock
def test_the_agent_works_behind_landlock_when_the_user_accepted_it(execute: Run, workspace: Path) -> None:
    output = execute("touch inside; touch ../outside; cat /etc/hostname >/dev/null; echo over", *LANDLOCK)["output"]
    assert "over" in output and "Permission denied" in output
    assert (workspace / "inside").exists() and not (workspace.parent / "outside").exists()


@needs_landlock
def test_a_project_cannot_choose_the_weaker_fence(execute: Run, home: Path, workspace: Path) -> None:
    config = home / "config.toml"
    config.write_text(config.read_text() + f'\n[projects."{workspace}"]\ntrust_level = "trusted"\n')
    (workspace / ".codex").mkdir()
    (workspace / ".codex" / "config.toml").write_text('[spindle.sandbox]\nbackend = "landlock"\n')
    assert "Read-only file system" in execute("touch .git/hooks/pre-commit")["output"]
