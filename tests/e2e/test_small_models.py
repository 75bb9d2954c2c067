"""Servers and models that cannot call functions, met with the installed command."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fake_server import FakeServer, Received, Turn, message, refuses, turn
from installed import Done, Spindle

CALL = '```json\n{"name": "exec_command", "arguments": {"cmd": "echo from-$((1+1))"}}\n```'
REFUSAL = {"error": {"message": "registry/library/tiny does not support tools", "type": "api_error"}}


def only_words(answer: Turn) -> Any:
    """Refuses every request that lists tools."""
    return lambda received: refuses(400, REFUSAL) if received.json.get("tools") else answer


def run(spindle: Spindle, server: FakeServer, wire: str) -> Done:
    table = f'{{name="words", base_url="{server.base_url}", wire_api="{wire}"}}'
    chosen = ("-m", "tiny-coder-1b", "-c", "model_provider=words", "-c", f"model_providers.words={table}")
    return spindle("exec", "--json", "--yolo", *chosen, "go")


def told(received: Received) -> str:
    """The text that a model is told before all else."""
    body = received.json
    return body["instructions"] if "instructions" in body else str(body.get("system") or body["messages"][0]["content"])


@pytest.mark.parametrize("wire", ["chat", "responses", "messages"])
def test_a_server_without_function_calling_works_in_words_and_is_remembered(
    spindle: Spindle, server: FakeServer, wire: str
) -> None:
    server.script(only_words(turn()), only_words(turn(message(CALL, deltas=9))), only_words(turn(message("done"))))
    first = run(spindle, server, wire)
    assert [item["text"] for item in first.items("agent_message")] == ["done"], first.out
    (command,) = first.items("command_execution")
    assert command["aggregated_output"] == "from-2\n"
    asked = server.turns_asked
    assert [bool(request.json.get("tools")) for request in asked] == [True, False, False]
    assert "## exec_command" in told(asked[1]) and "## update_plan" in told(asked[1])
    sent = json.dumps(asked[2].json)
    assert "<tool_result name=exec_command>" in sent and "from-2" in sent and not server.problems
    assert any("function calling" in item["message"] for item in first.items("error"))

    run(spindle, server, wire)
    (again,) = server.turns_asked[3:]
    assert not again.json.get("tools"), "what was learned is tried again"
    assert "## exec_command" in told(again) and "## update_plan" not in told(again), "a small model has few tools"
