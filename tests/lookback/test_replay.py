"""Requests that are built again from the record: the corpus, what is said of a difference, and what cannot be done."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fake_server import FakeServer, call, message, turn
from installed import Spindle, wait_for
from replay_corpus import FOLDER, SCENES, StageTaken, play
from spindle.lookback.replay import Difference, Replayed, replay_thread
from spindle.thread.reading import read_rollout

RENEW = "if the change is meant: `.venv/bin/python scripts/replay-corpus`, and commit what it writes"
CODEX = Path(__file__).parents[1] / "fixtures" / "rollouts"

Line = dict[str, Any]


def lines_of(path: Path) -> list[Line]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def digests(text: bytes) -> list[str]:
    lines = [json.loads(line) for line in text.splitlines()]
    return [line["payload"]["sha256"] for line in lines if line["type"] == "spindle_request"]


# ---- the corpus ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.jsonl")), ids=lambda path: path.stem)
def test_a_recorded_thread_is_asked_as_it_was_asked_then(path: Path) -> None:
    found = replay_thread(read_rollout(str(path)))
    assert found.first_difference is None, f"{path.name}: requests are built in another way now; {RENEW}"
    assert found.identical == found.requests > 0


@pytest.mark.slow
@pytest.mark.parametrize("scene", SCENES)
def test_the_same_work_leads_to_the_same_requests(scene: str) -> None:
    """Beyond the first test: the words of prompts and tools are in the record, and no replay would miss them."""
    try:
        played = play(scene)
    except StageTaken as taken:
        pytest.skip(str(taken))
    for name, text in played.items():
        recorded = (FOLDER / f"{name}.jsonl").read_bytes()
        assert digests(text) == digests(recorded), f"{name}: models are told something else now; {RENEW}"


def test_the_corpus_has_every_kind_of_request_on_every_wire() -> None:
    told: set[str] = set()
    for path in FOLDER.glob("*.jsonl"):
        terms: Line = {}
        for line in lines_of(path):
            if line["type"] == "spindle_terms":
                terms |= line["payload"].get("set", {})
            elif line["type"] == "spindle_request":
                told.add(f"{terms['wire']} {line['payload'].get('kind', 'question')}")
    wires = ("responses", "chat", "messages")
    assert told == {f"{wire} {kind}" for wire in wires for kind in ("question", "summary")} | {"responses compaction"}


# ---- differences ---------------------------------------------------------------------------------------


def changed(name: str, tmp_path: Path, change: Callable[[Line], None]) -> Replayed:
    """What comes of a thread of the corpus when someone has changed its lines."""
    lines = lines_of(FOLDER / f"{name}.jsonl")
    for line in lines:
        change(line)
    path = tmp_path / "rollout-2027-01-15T08-00-00-01a3185c-5000-7000-8000-000000000001.jsonl"
    path.write_text("".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines))
    return replay_thread(read_rollout(str(path)))


def other_output(line: Line) -> None:
    if line["payload"].get("type") == "function_call_output" and line["payload"]["call_id"] == "c1":
        line["payload"]["output"] += "!"


@pytest.mark.parametrize(
    ("wire", "path"),
    [("responses", "input[6]"), ("chat", "messages[4]"), ("messages", "messages[2].content[0]")],
)
def test_a_changed_output_is_named_by_the_first_request_that_has_it(tmp_path: Path, wire: str, path: str) -> None:
    found = changed(f"conversation-{wire}", tmp_path, other_output)
    assert (found.requests, found.identical) == (6, 1)
    assert found.first_difference == Difference(2, path)


def test_changed_terms_are_named_by_their_place_in_the_body(tmp_path: Path) -> None:
    def tools(line: Line) -> None:
        if "tools" in line["payload"].get("set", {}):
            line["payload"]["set"]["tools"][1]["description"] = "does something else"

    def effort(line: Line) -> None:
        if "settings" in line["payload"].get("set", {}):
            line["payload"]["set"]["settings"]["effort"] = "low"

    def base_text(line: Line) -> None:
        if line["type"] == "session_meta":
            line["payload"]["base_instructions"]["text"] = "Be long."

    found = [changed("conversation-responses", tmp_path, change) for change in (tools, effort, base_text)]
    assert [replayed.first_difference for replayed in found] == [
        Difference(1, "tools[1].description"),
        Difference(1, "reasoning.effort"),
        Difference(1, "instructions"),
    ]
    assert [replayed.identical for replayed in found] == [0, 0, 0]


def test_a_message_that_is_missing_or_too_much_is_found(tmp_path: Path) -> None:
    def other_kind(line: Line) -> None:
        if line["payload"].get("role") == "user" and "go on" in json.dumps(line["payload"]):
            line["type"] = "gone"

    assert changed("conversation-chat", tmp_path, other_kind).first_difference == Difference(3, "messages[7]")


# ---- the command ---------------------------------------------------------------------------------------


def test_the_command_says_how_many_requests_are_identical_and_sends_nothing(
    spindle: Spindle, server: FakeServer
) -> None:
    server.script(turn(call("exec_command", {"cmd": "echo LONG-WORD"}, "c1")), turn(message("done")))
    thread = spindle("exec", "--json", "--yolo", "go").thread_id
    asked = len(server.requests)
    done = spindle("replay", thread)
    assert (done.code, done.out) == (0, "2 of 2 requests identical\n"), done.err
    (path,) = spindle.rollouts()
    (first, second) = [line["payload"] for line in lines_of(path) if line["type"] == "spindle_request"]
    assert (first["number"], second["number"]) == (1, 2) and len(first["sha256"]) == 64
    assert first["bytes"] == len(server.turns_asked[0].body) and first["response_id"]

    path.write_text(path.read_text().replace("LONG-WORD\\n", "LONG-WORK\\n"))
    done = spindle("replay", str(path))
    assert done.code == 1 and "1 of 2 requests identical\nrequest 2 is the first that differs, at input[" in done.out
    done = spindle("replay", str(path), "--json")
    told = json.loads(done.out)
    assert (told["requests"], told["identical"], told["first_difference"]["request"]) == (2, 1, 2)
    assert len(server.requests) == asked


def test_what_cannot_be_replayed_is_said_in_one_sentence(spindle: Spindle, tmp_path: Path) -> None:
    codex = next(iter(sorted(CODEX.rglob("*.jsonl"))))
    no_rollout = tmp_path / "notes.txt"
    no_rollout.write_text("nothing\n")
    for word, said in (
        ("00000000-0000-7000-8000-000000000000", "no thread has the id"),
        (str(codex), "records no request of this thread"),
        (str(no_rollout), "is not a rollout file"),
    ):
        done = spindle("replay", word)
        assert done.code == 2 and said in done.err and done.err.count("\n") == 1, done.err
    assert spindle("replay").code == 2


def test_a_thread_that_was_killed_in_the_middle_of_a_request_goes_on_and_replays(
    spindle: Spindle, server: FakeServer
) -> None:
    server.script(turn(message("half"), hang_after=3))
    running = spindle.start("exec", "--json", "--yolo", "go")
    wait_for(lambda: spindle.rollouts() and b"spindle_request" in spindle.rollouts()[0].read_bytes(), "the request")
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    (path,) = spindle.rollouts()
    with path.open("ab") as file:
        file.write(b'{"timestamp":"2027-01-15T08:00:00.000Z","type":"respon')
    server.script(turn(message("done")))
    assert spindle("exec", "--json", "--yolo", "resume", "--last", "go on").code == 0
    done = spindle("replay", str(path))
    assert (done.code, done.out) == (0, "2 of 2 requests identical\n"), done.err
