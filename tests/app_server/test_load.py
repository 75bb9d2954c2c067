"""Many threads at a time, in small; `bench/app_server_load.py` is the same at full size, with memory and time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from app_server.client import Client, Message
from app_server.conftest import Start
from fake_server import FakeServer, Received, Turn, call, message, turn
from spindle.api.resting import MOST_AWAKE

THREADS, ROUNDS, PIECES = 8, 5, 4


def said_last(asked: Received) -> str:
    """What the person said last."""
    texts = [item["content"][-1]["text"] for item in asked.json["input"] if item.get("role") == "user"]
    return texts[-1]


def echo(asked: Received) -> Turn:
    """Says it after the person in pieces; in the first round of a thread it runs a command before that."""
    text = said_last(asked)
    if text.endswith("round 0") and asked.json["input"][-1]["type"] == "message":
        return turn(call("exec_command", {"cmd": f"echo {text}"}, f"c-{text.replace(' ', '-')}"))
    return turn(message(f"you said: {text}.", deltas=PIECES))


def told_of(seen: list[Message], turn_id: str) -> list[tuple[str, Any]]:
    """The deltas and the finished items of a turn, in their order."""
    told: list[tuple[str, Any]] = []
    for note in seen:
        params = note.get("params", {})
        if params.get("turnId") != turn_id:
            continue
        if note["method"] == "item/agentMessage/delta":
            told.append(("delta", params["delta"]))
        elif note["method"] == "item/completed":
            item = params["item"]
            told.append((item["type"], item.get("text") or item.get("aggregatedOutput")))
    return told


def test_nothing_is_lost_or_reordered_when_many_threads_work_at_a_time(
    client: Client, server: FakeServer, home: Path
) -> None:
    server.otherwise(echo)
    threads = [client.start_thread() for _ in range(THREADS)]
    turns: dict[str, str] = {}
    for number in range(ROUNDS):
        begun = {
            client.begin(thread_id, f"thread {place} round {number}"): f"thread {place} round {number}"
            for place, thread_id in enumerate(threads)
        }
        for turn_id in begun:
            done = client.note("turn/completed", lambda params, turn_id=turn_id: params["turn"]["id"] == turn_id)
            assert done["turn"]["status"] == "completed"
        turns |= begun
    for turn_id, text in turns.items():
        told = told_of(client.seen, turn_id)
        answer = f"you said: {text}."
        deltas = [piece for kind, piece in told if kind == "delta"]
        assert "".join(deltas) == answer and len(deltas) == PIECES
        whole = [entry for entry in told if entry[0] != "delta"]
        ran = [("commandExecution", f"{text}\n")] if text.endswith("round 0") else []
        assert whole == [("userMessage", None), *ran, ("agentMessage", answer)]
    for place, thread_id in enumerate(threads):
        kept = client.result("thread/read", {"threadId": thread_id, "includeTurns": True})["thread"]["turns"]
        texts = [entry["items"][0]["content"][0]["text"] for entry in kept]
        assert texts == [f"thread {place} round {number}" for number in range(ROUNDS)]
        (record,) = (home / "sessions").rglob(f"*{thread_id}.jsonl")
        lines = [json.loads(line) for line in record.read_text().splitlines()]
        messages = [line["payload"] for line in lines if line["payload"].get("type") == "user_message"]
        assert [entry["message"] for entry in messages] == texts


def resting(client: Client, count: int) -> bool:
    """Whether so many threads come to rest; that happens between requests, so a few of them are enough."""
    for _ in range(1000):
        gauges = client.result("server/diagnostics")["gauges"]
        if {"name": "app.threads.resting", "value": count} in gauges:
            return True
    return False


def test_a_thread_that_rests_is_read_forked_cut_back_and_gone_on_with(start: Start, server: FakeServer) -> None:
    server.otherwise(lambda asked: turn(message(f"you said: {said_last(asked)}")))
    client = start()
    client.initialize(experimentalApi=True)
    threads = [client.start_thread() for _ in range(MOST_AWAKE + 3)]
    for round_number in range(2):
        for place, thread_id in enumerate(threads):
            client.turn(thread_id, f"thread {place} round {round_number}")
    assert resting(client, 3)
    read, cut, forked = threads[:3]
    turns = client.result("thread/read", {"threadId": read, "includeTurns": True})["thread"]["turns"]
    assert [[item.get("text") for item in entry["items"]] for entry in turns] == [
        [None, f"you said: thread 0 round {number}"] for number in range(2)
    ]
    assert resting(client, 3)  # one that was looked at has taken the place of another
    assert len(client.result("thread/rollback", {"threadId": cut, "numTurns": 1})["thread"]["turns"]) == 1
    fork_id = client.result("thread/fork", {"threadId": forked})["thread"]["id"]
    for thread_id, heard in ((cut, ["thread 1 round 0"]), (fork_id, ["thread 2 round 0", "thread 2 round 1"])):
        client.turn(thread_id, "thread again")
        (asked,) = [one.json["input"] for one in server.turns_asked[-1:]]
        texts = [item["content"][-1]["text"] for item in asked if item.get("role") in ("user", "assistant")]
        said = [text for text in texts if text.startswith(("thread ", "you said"))]
        assert said == [one for text in heard for one in (text, f"you said: {text}")] + ["thread again"]
    assert resting(client, 4)
    client.process.kill()  # nothing of a resting thread is held in memory alone
    client.process.wait()
    again = start()
    again.initialize()
    for place, thread_id in enumerate(threads):
        rounds = 1 if thread_id == cut else 2
        turns = again.result("thread/resume", {"threadId": thread_id})["thread"]["turns"]
        texts = [entry["items"][0]["content"][0]["text"] for entry in turns]
        expected = [f"thread {place} round {number}" for number in range(rounds)]
        assert texts == expected + (["thread again"] if thread_id == cut else [])
