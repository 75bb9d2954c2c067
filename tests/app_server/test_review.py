"""`review/start`: a review as a turn of the thread, or in a thread of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app_server.client import Client, methods
from fake_server import FakeServer, Turn, call, message, turn

TEXT = "It breaks.\n\nReview comment:\n\n- [P1] Guard — /w/f.py:2-3\n  Fails for 0."


def reports() -> Turn:
    place = {"absolute_file_path": "/w/f.py", "line_range": {"start": 2, "end": 3}}
    found = {
        "title": "[P1] Guard",
        "body": "Fails for 0.",
        "confidence_score": 1,
        "priority": 1,
        "code_location": place,
    }
    told = {"overall_correctness": "patch is incorrect", "overall_explanation": "It breaks."}
    return turn(message(json.dumps({"findings": [found], **told, "overall_confidence_score": 1})))


def test_a_review_is_a_turn_of_the_thread(client: Client, server: FakeServer) -> None:
    server.script(turn(call("exec_command", {"cmd": "true"}, "c1")), reports())
    thread_id = client.start_thread()
    started = client.result("review/start", {"threadId": thread_id, "target": {"type": "uncommittedChanges"}})
    assert started["reviewThreadId"] == thread_id and started["turn"]["status"] == "inProgress"
    (asked,) = started["turn"]["items"]
    assert asked["type"] == "userMessage" and asked["content"][0]["text"] == "current changes"
    done = client.note("turn/completed")
    assert done["turn"]["id"] == started["turn"]["id"] and done["turn"]["status"] == "completed"
    items = [one["params"]["item"] for one in client.seen if one.get("method") == "item/completed"]
    assert [item["type"] for item in items] == [
        *("enteredReviewMode", "commandExecution", "exitedReviewMode", "agentMessage")
    ]
    assert items[0]["review"] == "current changes" and items[2]["review"] == items[3]["text"] == TEXT
    assert "item/agentMessage/delta" not in methods(client.seen)
    (read,) = client.result("thread/read", {"threadId": thread_id, "includeTurns": True})["thread"]["turns"]
    assert [(item["type"], item.get("review")) for item in read["items"]] == [
        ("enteredReviewMode", "current changes"),
        ("exitedReviewMode", TEXT),
        ("agentMessage", None),
    ]


def test_a_detached_review_has_a_thread_of_its_own(client: Client, server: FakeServer, workspace: Path) -> None:
    server.script(turn(message("hi")), reports())
    thread_id = client.start_thread()
    client.turn(thread_id, "hello")
    wanted = {"threadId": thread_id, "target": {"type": "custom", "instructions": " look "}, "delivery": "detached"}
    started = client.result("review/start", wanted)
    beside = started["reviewThreadId"]
    assert beside != thread_id
    done = client.note("turn/completed", lambda params: params["threadId"] == beside)
    assert done["turn"]["status"] == "completed"
    threads = client.result("thread/list", {})["data"]
    assert {row["id"]: row["preview"] for row in threads} == {thread_id: "hello", beside: "Review: look"}
    (first,) = client.result("thread/read", {"threadId": thread_id, "includeTurns": True})["thread"]["turns"]
    assert first["items"][-1]["text"] == "hi"


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ({"type": "custom", "instructions": "  "}, "instructions must not be empty"),
        ({"type": "baseBranch", "branch": ""}, "branch must not be empty"),
        ({"type": "commit", "sha": " "}, "sha must not be empty"),
        ({"type": "moon"}, "moon"),
    ],
)
def test_a_target_that_cannot_be_is_refused(
    client: Client, server: FakeServer, target: dict[str, str], problem: str
) -> None:
    error = client.error("review/start", {"threadId": client.start_thread(), "target": target})
    assert error["code"] == -32600 and problem in error["message"] and server.turns_asked == []


def test_a_review_can_be_interrupted(client: Client, server: FakeServer) -> None:
    server.script(turn(message("never"), hang_after=1))
    thread_id = client.start_thread()
    started = client.result("review/start", {"threadId": thread_id, "target": {"type": "uncommittedChanges"}})
    turn_id = started["turn"]["id"]
    client.note("item/completed", lambda params: params["item"]["type"] == "enteredReviewMode")
    again = client.error("review/start", {"threadId": thread_id, "target": {"type": "uncommittedChanges"}})
    assert "a turn is running" in again["message"]
    client.result("turn/interrupt", {"threadId": thread_id, "turnId": turn_id})
    assert client.note("turn/completed")["turn"]["status"] == "interrupted"
