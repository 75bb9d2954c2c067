"""What a program brings into a thread from outside of the conversation: `toolOutput` of `turn/start`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app_server.client import Client, items
from app_server.conftest import Start
from fake_server import FakeServer, call, message, turn

PNG = "data:image/png;base64,iVBORw0KGgo="
PARTS = [{"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": PNG, "detail": "high"}]


def bring(client: Client, thread_id: str, output: Any, **more: Any) -> tuple[Any, list[Any]]:
    """A turn that a program begins."""
    tool = {"name": "notifications", "output": output, **more.pop("tool", {})}
    since = len(client.seen)
    params = {"threadId": thread_id, "input": [], "toolOutput": tool, **more}
    turn_id = client.result("turn/start", params)["turn"]["id"]
    done = client.note("turn/completed", lambda params: params["turn"]["id"] == turn_id, since)
    return done["turn"], client.seen[since:]


def externals(request: Any) -> list[Any]:
    return [item for item in request.json["input"] if item["type"] == "function_call_output"]


@pytest.mark.parametrize(("tool", "output"), [({"namespace": "slack"}, "deployed"), ({}, PARTS)], ids=["text", "parts"])
def test_it_is_told_sent_recorded_and_kept(
    tool: dict[str, str], output: Any, start: Start, server: FakeServer, home: Path
) -> None:
    server.script(turn(message("noted")), turn(message("still there")))
    client = start()
    client.initialize()
    thread_id = client.start_thread()
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    _, seen = bring(client, thread_id, output, tool=tool, outputSchema=schema, clientUserMessageId="unused")
    (begun,), (done,) = items(seen, "functionCallOutput", "item/started"), items(seen, "functionCallOutput")
    shown = {"type": "functionCallOutput", "name": "notifications", "namespace": None, "output": output, **tool}
    assert {name: done[name] for name in shown} == shown and done["id"] == begun["id"]
    assert done["id"].startswith("fco_") and items(seen, "userMessage") == []
    sent = {"type": "function_call_output", "id": done["id"], "name": "notifications", **tool, "output": output}
    assert externals(server.requests[0]) == [sent] and server.requests[0].json["input"][-1] == sent
    assert server.requests[0].json["text"]["format"]["schema"] == schema
    assert client.result("thread/list", {})["data"] == [], "a list is of what people asked for"
    client.close()

    (path,) = home.glob("sessions/**/*.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert sent in [line["payload"] for line in lines if line["type"] == "response_item"]
    events = [line["payload"] for line in lines if line["type"] == "event_msg"]
    kept = {**sent, "type": "FunctionCallOutput"}
    assert [event["item"] for event in events if event["type"] == "item_completed"] == [kept]
    assert not any(event["type"] == "user_message" for event in events)

    client = start()
    client.initialize()
    thread = client.result("thread/resume", {"threadId": thread_id})["thread"]
    (again, _) = thread["turns"][0]["items"]
    assert {name: again[name] for name in shown} == shown and again["id"] == done["id"] and thread["preview"] == ""
    fork = client.result("thread/fork", {"threadId": thread_id})["thread"]
    assert [item["type"] for item in fork["turns"][0]["items"]] == ["functionCallOutput", "agentMessage"]
    client.turn(thread_id, "and now?")
    assert externals(server.requests[1]) == [sent], "as it was sent before"
    assert client.result("thread/read", {"threadId": thread_id})["thread"]["preview"] == "and now?"


def test_it_joins_the_turn_that_runs_before_its_next_request(client: Client, server: FakeServer) -> None:
    server.script(turn(call("exec_command", {"cmd": "sleep 1"}, "c1")), turn(message("done")))
    thread_id = client.start_thread()
    turn_id = client.begin(thread_id, "wait")
    client.note("item/started", lambda params: params["item"]["type"] == "commandExecution")
    joined = client.result(
        "turn/start", {"threadId": thread_id, "input": [], "toolOutput": {"name": "ci", "output": "red"}}
    )
    assert joined["turn"]["id"] == turn_id
    client.note("turn/completed")
    last = server.requests[1].json["input"]
    assert (last[-2]["call_id"], last[-1]["name"], last[-1]["output"]) == ("c1", "ci", "red")
    assert "call_id" not in last[-1]


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"toolOutput": {"name": "", "output": "x"}}, "`toolOutput.name` must not be empty"),
        (
            {"input": [{"type": "text", "text": "hi"}], "toolOutput": {"name": "n", "output": "x"}},
            "`toolOutput` and `input` cannot be given together; leave `input` empty",
        ),
        ({"toolOutput": {"output": "x"}}, "missing field `name`"),
        ({"toolOutput": {"name": "n", "output": 5}}, "Expected `str | array`"),
        ({"toolOutput": {"name": "n", "output": [{"type": "input_audio", "audio_url": "x"}]}}, "input_audio"),
        ({"toolOutput": {"name": "n", "output": "x" * (1 << 20) + "y"}}, "`toolOutput.output` is 1048577 characters"),
        ({}, "input must not be empty"),
    ],
)
def test_what_is_wrong_with_it_is_said(params: dict[str, Any], reason: str, client: Client) -> None:
    thread_id = client.start_thread()
    error = client.error("turn/start", {"threadId": thread_id, "input": [], **params})
    assert reason in error["message"]


def test_steering_takes_words_of_a_person_alone(client: Client, server: FakeServer) -> None:
    server.script(turn(call("exec_command", {"cmd": "sleep 1"}, "c1")), turn(message("done")))
    thread_id = client.start_thread()
    turn_id = client.begin(thread_id, "wait")
    client.note("item/started", lambda params: params["item"]["type"] == "commandExecution")
    params = {"threadId": thread_id, "expectedTurnId": turn_id, "toolOutput": {"name": "n", "output": "x"}}
    assert client.error("turn/steer", {**params, "input": []})["message"] == "input must not be empty"
    client.note("turn/completed")
    assert externals(server.requests[1])[0]["call_id"] == "c1" and len(externals(server.requests[1])) == 1


def test_a_rollback_counts_what_people_said_and_a_revert_finds_its_turn(client: Client, server: FakeServer) -> None:
    server.script(*[turn(message(f"answer {number}"), response_id=f"r{number}") for number in range(6)])
    thread_id = client.start_thread()
    client.turn(thread_id, "first")
    bring(client, thread_id, "A")
    client.turn(thread_id, "second")
    done, _ = bring(client, thread_id, "B")

    def kinds(thread: Any) -> list[str]:
        return [turn["items"][0]["type"] for turn in thread["turns"]]

    left = client.result("thread/revert", {"threadId": thread_id, "beforeTurnId": done["id"]})["thread"]
    assert kinds(left) == ["userMessage", "functionCallOutput", "userMessage"]
    bring(client, thread_id, "C")
    left = client.result("thread/rollback", {"threadId": thread_id, "numTurns": 1})["thread"]
    assert kinds(left) == ["userMessage", "functionCallOutput"]
    client.turn(thread_id, "go on")
    assert [item["output"] for item in externals(server.requests[-1])] == ["A"]


def test_a_revert_takes_back_what_began_a_turn_that_a_person_joined(client: Client, server: FakeServer) -> None:
    sleeps = turn(call("exec_command", {"cmd": "sleep 1"}, "c1"), response_id="r1")
    server.script(
        turn(message("a"), response_id="r0"), sleeps, *[turn(message("b"), response_id=f"s{n}") for n in (1, 2)]
    )
    thread_id = client.start_thread()
    client.turn(thread_id, "first")
    tool = {"name": "ci", "output": "red"}
    since = len(client.seen)
    turn_id = client.result("turn/start", {"threadId": thread_id, "input": [], "toolOutput": tool})["turn"]["id"]
    client.note("item/started", lambda params: params["item"]["type"] == "commandExecution")
    assert client.begin(thread_id, "me too") == turn_id
    client.note("turn/completed", since=since)
    left = client.result("thread/revert", {"threadId": thread_id, "beforeTurnId": turn_id})["thread"]
    assert len(left["turns"]) == 1
    client.turn(thread_id, "go on")
    assert externals(server.requests[-1]) == []
