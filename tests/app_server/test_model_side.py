"""What clients are told of the model's side of a turn: that another model answers, and how far a patch is
written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app_server.client import Client, Message, methods
from app_server.conftest import Start
from fake_server import FakeServer, call, message, sends_raw, turn

ASKED = "gpt-5.2-codex"
PLAN = call("update_plan", {"plan": []}, "c1")


def notes(seen: list[Message], method: str) -> list[Any]:
    return [message["params"] for message in seen if message.get("method") == method]


def created(**response: Any) -> bytes:
    """An answer whose first event says more than its id."""
    hello = {"type": "message", "role": "assistant", "id": "m1", "content": [{"type": "output_text", "text": "hi"}]}
    events = [
        {"type": "response.created", "response": {"id": "r1", **response}},
        {"type": "response.output_item.done", "item": hello},
        {"type": "response.completed", "response": {"id": "r1"}},
    ]
    return b"".join(b"data: %s\n\n" % json.dumps(event).encode() for event in events)


def test_a_client_is_told_once_in_a_turn_that_another_model_answers(client: Client, server: FakeServer) -> None:
    other = {"OpenAI-Model": "gpt-5.2"}
    server.script(turn(PLAN, headers=other), turn(message("hi"), headers=other), turn(message("again"), headers=other))
    thread_id = client.start_thread(model=ASKED)
    done, seen = client.turn(thread_id, "go")
    assert notes(seen, "model/rerouted") == [
        {
            "threadId": thread_id,
            "turnId": done["id"],
            "fromModel": ASKED,
            "toModel": "gpt-5.2",
            "reason": "highRiskCyberActivity",
        }
    ]
    (warning,) = notes(seen, "warning")
    assert "gpt-5.2 " in warning["message"] and ASKED in warning["message"]
    _, later = client.turn(thread_id, "more")
    assert methods(later).count("model/rerouted") == 1


def test_the_first_event_of_an_answer_may_name_the_other_model(client: Client, server: FakeServer) -> None:
    server.script(sends_raw(created(headers={"OpenAI-Model": "gpt-5.2"})))
    _, seen = client.turn(client.start_thread(model=ASKED), "go")
    (told,) = notes(seen, "model/rerouted")
    assert told["toModel"] == "gpt-5.2"


@pytest.mark.parametrize(
    "response",
    [
        {"model": "gpt-5.2-codex-2026-01-01"},
        {"headers": {"openai-model": "GPT-5.2-Codex"}},
        {"headers": {"openai-model": ["gpt-5.2"]}},
        {"headers": {"openai-model": "x" * 1000}},
        {"headers": ["openai-model"]},
    ],
    ids=["a-dated-name", "another-case", "a-list", "no-name-is-so-long", "no-headers"],
)
def test_what_does_not_name_another_model_is_not_told(
    client: Client, server: FakeServer, response: dict[str, Any]
) -> None:
    server.script(sends_raw(created(**response)))
    done, seen = client.turn(client.start_thread(model=ASKED), "go")
    assert done["status"] == "completed"
    assert not {"model/rerouted", "warning"} & set(methods(seen))


def test_a_person_sees_nothing_hidden_in_the_name_of_the_other_model(client: Client, server: FakeServer) -> None:
    server.script(sends_raw(created(headers={"openai-model": "gpt\u202e-5"})))
    _, seen = client.turn(client.start_thread(model=ASKED), "go")
    (warning,) = notes(seen, "warning")
    assert "\u202e" not in warning["message"]


def writes(patch: str, call_id: str = "c1", size: int = 7) -> bytes:
    """An answer in which the model writes a patch in pieces."""
    whole = {"type": "custom_tool_call", "id": "i1", "call_id": call_id, "name": "apply_patch", "input": patch}
    pieces = [patch[at : at + size] for at in range(0, len(patch), size)]
    events = [
        {"type": "response.created", "response": {"id": "r1"}},
        {"type": "response.output_item.added", "item": {**whole, "input": ""}},
        *({"type": "response.custom_tool_call_input.delta", "item_id": "i1", "delta": piece} for piece in pieces),
        {"type": "response.output_item.done", "item": whole},
        {"type": "response.completed", "response": {"id": "r1"}},
    ]
    return b"".join(b"data: %s\n\n" % json.dumps(event).encode() for event in events)


def test_a_patch_is_shown_while_the_model_writes_it(client: Client, server: FakeServer, workspace: Path) -> None:
    (workspace / "b.txt").write_text("old\n")
    patch = (
        "*** Begin Patch\n*** Add File: a.txt\n+one\n+two\n*** Update File: b.txt\n*** Move to: c.txt\n@@\n-old\n+new\n"
        "*** End Patch\n"
    )
    server.script(sends_raw(writes(patch)), turn(message("done")))
    thread_id = client.start_thread()
    done, seen = client.turn(thread_id, "go")
    told = notes(seen, "item/fileChange/patchUpdated")
    assert {(note["threadId"], note["turnId"], note["itemId"]) for note in told} == {(thread_id, done["id"], "c1")}
    assert told[0]["changes"] == [{"path": "a.txt", "kind": {"type": "add"}, "diff": "one\n"}]
    added, moved = told[-1]["changes"]
    assert added["diff"] == "one\ntwo\n"
    assert (moved["path"], moved["kind"]) == ("b.txt", {"type": "update", "move_path": "c.txt"})
    assert moved["diff"].startswith("@@\n-old\n")
    begun = [one.get("method") == "item/started" and one["params"]["item"]["type"] == "fileChange" for one in seen]
    last = [one.get("method") == "item/fileChange/patchUpdated" for one in seen][::-1].index(True)
    assert begun.index(True) > len(seen) - 1 - last
    assert (workspace / "c.txt").read_text() == "new\n"


def test_a_long_patch_is_not_told_anew_with_every_line(client: Client, server: FakeServer) -> None:
    patch = "*** Begin Patch\n*** Add File: a.txt\n" + "+line\n" * 3000 + "*** End Patch\n"
    server.script(sends_raw(writes(patch, size=60)), turn(message("done")))
    done, seen = client.turn(client.start_thread(), "go")
    told = notes(seen, "item/fileChange/patchUpdated")
    assert done["status"] == "completed"
    assert len(told) > 3 and sum(len(json.dumps(note)) for note in told) < 12 * len(patch)


def test_a_patch_under_the_id_of_an_earlier_call_is_not_shown_before_it_is_whole(
    client: Client, server: FakeServer
) -> None:
    patch = "*** Begin Patch\n*** Add File: {}\n+one\n*** End Patch\n"
    server.script(sends_raw(writes(patch.format("a"))), sends_raw(writes(patch.format("other"))), turn(message("done")))
    _, seen = client.turn(client.start_thread(), "go")
    paths = {change["path"] for note in notes(seen, "item/fileChange/patchUpdated") for change in note["changes"]}
    assert paths == {"a"}


def test_no_piece_of_a_secret_is_shown_while_a_patch_is_written(
    start: Start, server: FakeServer, environment: dict[str, str]
) -> None:
    key = environment["FAKE_API_KEY"] = "fake-0123456789-abcdefghij"
    client = start()
    client.initialize()
    first, rest = key[: len(key) // 2], key[len(key) // 2 :]
    patch = f"*** Begin Patch\n*** Add File: a.txt\n+one\n+{key}\n+two\n+three and more\n*** End Patch\n"
    server.script(sends_raw(writes(patch, size=3)), turn(message("done")))
    _, seen = client.turn(client.start_thread(), "go")
    told = json.dumps(notes(seen, "item/fileChange/patchUpdated"))
    assert "three and more" in told and first not in told and rest not in told
