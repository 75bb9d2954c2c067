"""An output schema at a server that knows none."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from fake_server import FakeServer, call, message, turn
from installed import Spindle

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}


@pytest.mark.parametrize(
    ("answers", "warnings"),
    [(["It is three.", '{"n": 3}'], 0), (["```json\n{}\n```", '{"n": "three"}'], 1), (['{"n": 3}'], 0)],
)
def test_an_answer_is_checked_here_and_asked_for_once_more(
    spindle: Spindle, server: FakeServer, workspace: Path, answers: list[str], warnings: int
) -> None:
    (workspace / "schema.json").write_text(json.dumps(SCHEMA))
    table = f'{{name="words", base_url="{server.base_url}", wire_api="chat", capabilities={{json_schema=false}}}}'
    chosen = ("-c", "model_provider=words", "-c", f"model_providers.words={table}")
    server.script(turn(call("exec_command", {"cmd": "true"}, "c1")), *(turn(message(answer)) for answer in answers))
    run = spindle("exec", "--json", "--yolo", *chosen, "--output-schema", "schema.json", "how many?")
    assert run.code == 0, run.out
    assert [item["text"] for item in run.items("agent_message")] == answers
    asked = [request.json["messages"] for request in server.turns_asked]
    assert len(asked) == len(answers) + 1 and not server.problems
    assert all(later[: len(sooner)] == sooner for sooner, later in pairwise(asked))
    assert '"required":["n"]' in asked[0][-1]["content"] and asked[0][-1]["content"].startswith("how many?")
    assert ("cannot be used" in json.dumps(asked[-1])) == (len(answers) == 2)
    said = [item["message"] for item in run.items("error")]
    assert sum("does not fit the output schema: $.n" in words for words in said) == warnings
