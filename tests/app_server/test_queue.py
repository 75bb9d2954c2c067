"""`thread/queue/…`: input that waits for its turn."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from app_server.client import Client
from app_server.conftest import Start
from fake_server import FakeServer, call, fails, message, turn


@pytest.fixture
def client(start: Start) -> Client:
    running = start()
    running.initialize(experimentalApi=True)
    return running


def text(words: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": words}]


def add(client: Client, thread_id: str, words: str) -> str:
    params = {"threadId": thread_id, "input": text(words), "clientUserMessageId": f"id of {words}"}
    return client.result("thread/queue/add", params)["queuedSubmission"]["id"]


def asked(server: FakeServer) -> list[str]:
    """The last thing said in each request."""
    last = [request.json["input"][-1] for request in server.turns_asked]
    return [item["content"][-1]["text"] if item["type"] == "message" else item["type"] for item in last]


def held_turn(client: Client, server: FakeServer, workspace: Path, *after: Any) -> str:
    """A thread whose turn waits at a gate; `release` lets it end."""
    os.mkfifo(workspace / "gate")
    waiting = call("exec_command", {"cmd": "cat gate", "yield_time_ms": 30000}, "c1")
    server.script(turn(waiting), turn(message("first done")), *after)
    thread_id = client.start_thread(cwd=str(workspace))
    client.begin(thread_id, "first")
    client.note("item/started", lambda params: params["item"]["type"] == "commandExecution")
    return thread_id


def completed(client: Client, count: int) -> list[str]:
    """Wait for so many turns; their states."""

    def done() -> list[str]:
        told = [seen["params"] for seen in list(client.seen) if seen.get("method") == "turn/completed"]
        return [params["turn"]["status"] for params in told]

    client.wait(lambda _: len(done()) >= count)
    return done()


def test_what_is_queued_follows_turn_by_turn_in_its_order(client: Client, server: FakeServer, workspace: Path) -> None:
    thread_id = held_turn(client, server, workspace)
    first, second, third = (add(client, thread_id, words) for words in ("one", "two", "three"))
    listed = client.result("thread/queue/list", {"threadId": thread_id, "limit": 2})
    assert [entry["id"] for entry in listed["data"]] == [first, second] and listed["nextCursor"] is not None
    assert listed["data"][0] == {
        "id": first,
        "input": [{"type": "text", "text": "one", "text_elements": []}],
        "clientUserMessageId": "id of one",
    }
    (workspace / "gate").write_text("open")
    assert completed(client, 4) == ["completed"] * 4
    assert asked(server)[2:] == ["one", "two", "three"] and third
    said = [seen["params"]["item"] for seen in client.seen if seen.get("method") == "item/completed"]
    assert [item["clientId"] for item in said if item["type"] == "userMessage"][1:] == [
        "id of one",
        "id of two",
        "id of three",
    ]
    assert client.result("thread/queue/list", {"threadId": thread_id}) == {"data": [], "nextCursor": None}
    client.note("thread/queue/changed")


def test_in_an_idle_thread_it_begins_at_once(client: Client, server: FakeServer) -> None:
    thread_id = client.start_thread()
    add(client, thread_id, "now")
    assert completed(client, 1) == ["completed"] and asked(server) == ["now"]


def test_a_queue_can_be_changed(client: Client, server: FakeServer, workspace: Path) -> None:
    thread_id = held_turn(client, server, workspace)
    here = {"threadId": thread_id}
    first, second, third = (add(client, thread_id, words) for words in ("one", "two", "three"))
    new = client.result("thread/queue/update", {**here, "queuedSubmissionId": third, "input": text("3")})
    assert new["queuedSubmission"]["input"][0]["text"] == "3"
    assert client.result("thread/queue/delete", {**here, "queuedSubmissionId": second}) == {"deleted": True}
    assert client.result("thread/queue/delete", {**here, "queuedSubmissionId": second}) == {"deleted": False}
    wrong = client.error("thread/queue/reorder", {**here, "queuedSubmissionIds": [third]})
    assert wrong["message"] == "queue reorder must include every queued submission exactly once"
    assert client.result("thread/queue/reorder", {**here, "queuedSubmissionIds": [third, first]}) == {}
    gone = client.error("thread/queue/update", {**here, "queuedSubmissionId": second, "input": text("x")})
    assert gone["message"] == f"queued submission not found: {second}"
    empty = {**here, "input": [], "clientUserMessageId": "m"}
    assert "only user input" in client.error("thread/queue/add", empty)["message"]
    (workspace / "gate").write_text("open")
    completed(client, 3)
    assert asked(server)[2:] == ["3", "one"]


def test_after_a_failed_turn_it_waits_to_be_started(client: Client, server: FakeServer, workspace: Path) -> None:
    os.mkfifo(workspace / "gate")
    waiting = call("exec_command", {"cmd": "cat gate", "yield_time_ms": 30000}, "c1")
    server.script(turn(waiting), fails("invalid_prompt", "no"), turn(message("ok")), turn(message("ok")))
    thread_id = client.start_thread(cwd=str(workspace))
    client.begin(thread_id, "first")
    client.note("item/started", lambda params: params["item"]["type"] == "commandExecution")
    one = add(client, thread_id, "one")
    (workspace / "gate").write_text("open")
    assert completed(client, 1) == ["failed"]
    two = add(client, thread_id, "two")
    waiting_now = client.result("thread/queue/list", {"threadId": thread_id})["data"]
    assert [entry["id"] for entry in waiting_now] == [one, two]
    started = client.result("thread/queue/start", {"threadId": thread_id, "queuedSubmissionId": two})["turn"]
    assert started["status"] == "inProgress"
    assert completed(client, 3) == ["failed", "completed", "completed"]
    assert asked(server)[-2:] == ["two", "one"]
    assert client.error("thread/queue/start", {"threadId": thread_id})["message"] == "queue is empty"


@pytest.mark.parametrize(
    ("method", "more"),
    [
        ("list", {}),
        ("update", {"queuedSubmissionId": "q", "input": text("words")}),
        ("delete", {"queuedSubmissionId": "q"}),
        ("reorder", {"queuedSubmissionIds": []}),
        ("start", {}),
    ],
)
def test_a_thread_that_does_not_exist_has_no_queue(client: Client, method: str, more: dict[str, Any]) -> None:
    nobody = "00000000-0000-7000-8000-000000000000"
    error = client.error(f"thread/queue/{method}", {"threadId": nobody, **more})
    assert error["message"] == f"no rollout found for thread id {nobody}"
