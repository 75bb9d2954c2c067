"""A thread with a goal goes from the real Codex to Spindle and back: whoever opens it goes on with the goal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app_server.client import Client
from e2e.test_interop import Agent, codex, quiet_environment, spindle  # noqa: F401  fixtures
from fake_server import FakeServer, call, message, turn
from installed import wait_for
from npm_cache import installed

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="session")
def codex_program() -> str:
    """Only the newer generation has goals."""
    place = installed("codex-0.166.0", "@openai/codex@0.166.0")
    native = (place / "node_modules" / "@openai").glob("codex-*/vendor/*/*/codex")
    program = next((path for path in sorted(native) if path.is_file()), None)
    if program is None:
        pytest.skip("Codex 0.166.0 has no program for this platform")
    return str(program)


@pytest.fixture
def codex_server(codex: Agent) -> Any:  # noqa: F811  the fixture
    """Codex's own app-server."""
    client = Client([*codex.command, "app-server"], codex.workspace, codex.environment)
    client.initialize(experimentalApi=True)
    yield client
    if client.process.stdin is not None and not client.process.stdin.closed:
        client.process.kill()
        client.close()


def reports(status: str) -> Any:
    return turn(call("update_goal", {"status": status}, "g1"))


def goal_lines(home: Path, thread: str) -> list[dict[str, Any]]:
    (rollout,) = home.rglob(f"rollout-*{thread}.jsonl")
    lines = [json.loads(line) for line in rollout.read_bytes().splitlines()]
    payloads = [line["payload"] for line in lines if line["type"] == "event_msg"]
    return [payload for payload in payloads if payload["type"] == "thread_goal_updated"]


def set_goal(client: Client) -> str:
    settings = {"approvalPolicy": "never", "sandbox": "danger-full-access"}
    thread: str = client.result("thread/start", settings)["thread"]["id"]
    client.result("thread/goal/set", {"threadId": thread, "objective": "Count to ten.", "tokenBudget": 90_000})
    return thread


def test_spindle_goes_on_with_a_goal_of_codex(
    codex_server: Client,
    spindle: Agent,  # noqa: F811  the fixture
    server: FakeServer,
    home: Path,
) -> None:
    server.script(turn(message("one, two")), turn(message("never"), delay_s=60))
    thread = set_goal(codex_server)
    wait_for(lambda: len(server.turns_asked) == 2, "the second request of Codex")
    codex_server.process.kill()
    codex_server.process.wait()
    server.script(reports("complete"), turn(message("ten")))
    events = spindle("--dangerously-bypass-approvals-and-sandbox", "resume", thread)
    goals = [event["goal"] for event in events if event["type"] == "goal.updated"]
    assert [goal["status"] for goal in goals] == ["active", "complete", "complete"]
    assert goals[-1]["objective"] == "Count to ten." and goals[-1]["tokenBudget"] == 90_000
    assert goals[-1]["tokensUsed"] == 3 * 110  # one of Codex's requests was answered
    # Ours are the same lines: no name that Codex does not use.
    theirs, *_, ours = goal_lines(home, thread)
    assert set(ours) - {"turnId"} == set(theirs) and set(ours["goal"]) == set(theirs["goal"])


def test_what_the_model_reported_to_codex_is_known_here(
    codex_server: Client,
    spindle: Agent,  # noqa: F811  the fixture
    server: FakeServer,
) -> None:
    server.script(reports("complete"), turn(message("ten")))
    thread = set_goal(codex_server)
    codex_server.note("turn/completed")
    codex_server.close()
    server.script(turn(message("you are welcome")))
    events = spindle("--dangerously-bypass-approvals-and-sandbox", "resume", thread, "Thanks.")
    goals = [event["goal"]["status"] for event in events if event["type"] == "goal.updated"]
    assert goals == ["complete"] and len([event for event in events if event["type"] == "turn.completed"]) == 1


def test_codex_goes_on_with_a_thread_that_had_a_goal_here(
    codex: Agent,  # noqa: F811  the fixture
    spindle: Agent,  # noqa: F811  the fixture
    server: FakeServer,
) -> None:
    server.script(turn(message("one, two")), reports("complete"), turn(message("ten")))
    events = spindle("--dangerously-bypass-approvals-and-sandbox", "--goal", "Count to ten.", "Slowly.")
    server.script(turn(message("you are welcome")))
    codex.resume(events[0]["thread_id"], "Thanks.")
    ours, theirs = (server.turns_asked[number].json["input"] for number in (-2, -1))
    said = [item["content"] for item in ours if item.get("role") == "user"]
    assert [item["content"] for item in theirs if item.get("role") == "user"][: len(said)] == said


def test_a_goal_that_was_cleared_in_codex_is_cleared_here(
    codex_server: Client,
    spindle: Agent,  # noqa: F811  the fixture
    server: FakeServer,
) -> None:
    server.script(turn(message("hello")), turn(message("never"), delay_s=60))
    thread = set_goal(codex_server)
    wait_for(lambda: len(server.turns_asked) == 2, "the second request of Codex")
    codex_server.result("thread/goal/clear", {"threadId": thread})
    codex_server.process.kill()
    codex_server.process.wait()
    server.script(turn(message("you are welcome")))
    events = spindle("--dangerously-bypass-approvals-and-sandbox", "resume", thread, "Thanks.")
    assert [event["type"] for event in events if event["type"] in ("goal.updated", "turn.completed")] == [
        "turn.completed"
    ]
