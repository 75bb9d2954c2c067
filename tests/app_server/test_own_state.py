"""What the server says of itself and of what it keeps, and searches for files whose query changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from app_server.client import Client
from app_server.conftest import Start
from fake_server import FakeServer, message, turn


@pytest.fixture
def client(start: Start) -> Client:
    running = start()
    running.initialize(experimentalApi=True)
    return running


def test_the_server_tells_how_it_is(client: Client) -> None:
    client.start_thread()
    told = client.result("server/diagnostics")
    assert told["process"]["id"] == client.process.pid and told["process"]["residentMemoryBytes"] > 1 << 20
    gauges = {gauge["name"]: gauge["value"] for gauge in told["gauges"]}
    assert (gauges["app.requests.in_flight"], gauges["app.threads.loaded"], gauges["app.connections"]) == (1, 1, 1)


def test_the_notes_of_models_are_counted_and_forgotten(client: Client, home: Path) -> None:
    assert client.result("memory/status")["notes"] == 0
    for place in ("p1/build.md", "p1/deep/more.md", "p2/x.md"):
        file = home / "spindle" / "memory" / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("note")
    status = client.result("memory/status", {"minConsolidatedThreads": 3})
    assert (status["projects"], status["notes"], status["v2ConsolidatedThreads"]) == (2, 3, 0)
    assert client.error("memory/status", {"minConsolidatedThreads": 0})["code"] == -32602
    assert client.result("memory/reset") == client.result("memory/reset") == {}
    assert not (home / "spindle" / "memory").exists() and client.result("memory/status")["notes"] == 0


def test_the_tokens_of_all_threads_are_counted_by_day(client: Client, server: FakeServer, home: Path) -> None:
    server.script(turn(message("a")), turn(message("b")), turn(message("c")))
    thread_id = client.start_thread()
    client.turn(thread_id, "one")
    first = client.result("account/usage/read")
    spent = first["summary"]["lifetimeTokens"]
    assert spent > 0 and [bucket["tokens"] for bucket in first["dailyUsageBuckets"]] == [spent]
    client.turn(thread_id, "two")
    client.result("thread/fork", {"threadId": thread_id})
    twice = client.result("account/usage/read")["summary"]
    assert twice["lifetimeTokens"] == twice["peakDailyTokens"] == 2 * spent, "what a fork copied counts once"
    assert (twice["currentStreakDays"], twice["longestStreakDays"]) == (1, 1)


def test_a_search_follows_its_query(client: Client, workspace: Path) -> None:
    (workspace / "alpha.txt").write_text("")
    (workspace / "beta.txt").write_text("")
    here = {"sessionId": "s"}
    missing = client.error("fuzzyFileSearch/sessionUpdate", {**here, "query": "a"})
    assert missing["message"] == "fuzzy file search session not found: s"
    assert client.result("fuzzyFileSearch/sessionStart", {**here, "roots": [str(workspace)]}) == {}
    for query, name in (("alp", "alpha.txt"), ("bet", "beta.txt")):
        assert client.result("fuzzyFileSearch/sessionUpdate", {**here, "query": query}) == {}
        found = client.note("fuzzyFileSearch/sessionUpdated", lambda note, query=query: note["query"] == query)
        assert [file["path"] for file in found["files"]] == [name] and found["sessionId"] == "s"
    client.note("fuzzyFileSearch/sessionCompleted", lambda note: note == {"sessionId": "s"})
    assert (
        client.result("fuzzyFileSearch/sessionStop", here) == client.result("fuzzyFileSearch/sessionStop", here) == {}
    )
    assert "not found" in client.error("fuzzyFileSearch/sessionUpdate", {**here, "query": "a"})["message"]
    assert "absolute" in client.error("fuzzyFileSearch/sessionStart", {**here, "roots": ["x"]})["message"]
    assert "empty" in client.error("fuzzyFileSearch/sessionStart", {"sessionId": "", "roots": []})["message"]
