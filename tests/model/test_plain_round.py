"""What a thread loads of `model/` when nothing goes wrong."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from fake_server import FakeServer, call, fails, message, refuses, turn

AFTER_FAILURES = {
    *("spindle.model.asking_again", "spindle.model.unanswered", "spindle.model.inflating"),
    *("spindle.model.refusals", "spindle.model.lessons", "spindle.model.wires.responses.seldom"),
}


@pytest.fixture
def loaded(spindle_cmd: list[str], environment: dict[str, str], workspace: Path):
    def run() -> set[str]:
        done = subprocess.run(
            [*spindle_cmd, "exec", "--json", "hello"],
            cwd=workspace,
            env={**environment, "PYTHONPROFILEIMPORTTIME": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert '"turn.completed"' in done.stdout, done.stdout + done.stderr[-2000:]
        return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}

    return run


def test_a_round_without_failures_loads_nothing_that_is_for_them(server: FakeServer, loaded) -> None:
    server.script(turn(call("exec_command", {"cmd": "true"}, "c1")), turn(message("done", deltas=3)))
    found = loaded()
    assert "spindle.model.http" in found
    assert found & AFTER_FAILURES == set()


def test_it_is_loaded_after_one(server: FakeServer, loaded) -> None:
    server.script(refuses(503, "busy"), fails("rate_limit_exceeded", "try again in 10ms"), turn(message("done")))
    assert AFTER_FAILURES - loaded() == {"spindle.model.inflating"}
