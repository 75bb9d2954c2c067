"""Threads that become too long, through the installed command, with servers that do not keep to the book."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from fake_server import FakeServer, Received, Turn, call, message, turn
from installed import Spindle
from spindle.context.wording import SUMMARY_PROMPT

LIMIT = 12_000
COMPACTS_AT = ("-c", f"model_auto_compact_token_limit={LIMIT}")
FILLS = {"cmd": "head -c 30000 /dev/zero | tr '\\0' x"}


Run = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def run(spindle: Spindle) -> Run:
    """Run a turn without asking, and give its events."""

    def run_exec(*args: str, returns: int = 0) -> list[dict[str, Any]]:
        done = spindle("exec", "--json", "--dangerously-bypass-approvals-and-sandbox", *COMPACTS_AT, *args)
        assert done.code == returns, done.err + done.out
        return done.events

    return run_exec


def uncounted(*items: dict[str, Any]) -> Turn:
    return turn(*items, end={"type": "response.completed", "response": {"id": "resp_uncounted"}})


def asks_for_summary(request: Received) -> bool:
    return request.json["input"][-1]["content"][0]["text"] == SUMMARY_PROMPT if _ends_in_words(request) else False


def _ends_in_words(request: Received) -> bool:
    return request.json["input"][-1]["type"] == "message"


def test_what_a_server_does_not_count_is_estimated(run: Run, server: FakeServer) -> None:
    server.script(
        turn(call("exec_command", {"cmd": "true"}, "c0"), usage={"input": 3_000}),
        uncounted(call("exec_command", FILLS, "c1")),
        uncounted(call("exec_command", FILLS, "c2")),
        turn(message("SUMMARY")),
        turn(message("done")),
    )
    run("go")
    assert [asks_for_summary(request) for request in server.turns_asked] == [False, False, False, True, False]


def test_outputs_that_no_request_has_shown_yet_count_when_the_thread_is_resumed(run: Run, server: FakeServer) -> None:
    two = [call("exec_command", FILLS, "c1"), call("exec_command", FILLS, "c2")]
    server.script(turn(*two, usage={"input": 3_000}), Turn(status=400, body=b"no more"))
    thread_id = run("-c", "model_auto_compact_token_limit=0", "go", returns=1)[0]["thread_id"]
    server.script(turn(message("SUMMARY")), turn(message("done")))
    run("resume", thread_id, "go on")
    assert [asks_for_summary(request) for request in server.turns_asked[2:]] == [True, False]


def test_a_server_that_says_nothing_of_a_cache_has_missed_nothing(
    run: Run, server: FakeServer, spindle_cmd: list[str], environment: dict[str, str]
) -> None:
    usage = {"input_tokens": 8_000, "output_tokens": 10, "total_tokens": 8_010}
    end = {"type": "response.completed", "response": {"id": "resp", "usage": usage}}
    server.script(*(turn(call("exec_command", {"cmd": "true"}, f"c{number}"), end=end) for number in range(3)))
    server.otherwise(turn(message("done"), end=end))
    thread_id = run("go")[0]["thread_id"]
    told = subprocess.run([*spindle_cmd, "context", thread_id, "--json"], env=environment, check=True, stdout=-1)
    report = json.loads(told.stdout)
    assert len(report["requests"]) == 4 and report["totals"]["lost_tokens"] == {}
