"""What clients are told of the model's side of a turn: that another model answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app_server.client import Client, Message, methods
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
