"""A sub-task in a context of its own: one text comes back, within a budget."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from spindle.context import isolate as exported
from spindle.context.isolation import TaskAnswer, isolate
from spindle.protocol.items import Item, user_message

PAGE = Path(__file__).parent.parent.parent / "docs" / "agents.md"


def says(text: str) -> Item:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def call(call_id: str) -> Item:
    return {"type": "function_call", "name": "look", "arguments": "{}", "call_id": call_id}


class Scripted:
    def __init__(self, *answers: TaskAnswer) -> None:
        self.answers = list(answers)
        self.seen: list[list[Item]] = []

    async def respond(self, items: list[Item]) -> TaskAnswer:
        self.seen.append(items)
        return self.answers.pop(0)


async def looks(item: Item) -> str:
    if item["call_id"] == "bad":
        raise OSError("gone")
    return "x" * 4_000


async def test_a_task_takes_what_it_takes_and_gives_back_its_last_message() -> None:
    model = Scripted(
        TaskAnswer(items=[says("I look"), call("c1"), call("bad")], tokens=100),
        TaskAnswer(items=[says("so"), says("FOUND")], tokens=900),
    )
    context = [user_message("<environment_context>here</environment_context>")]
    result, report = await isolate("find it", model, context=context, run_call=looks)
    assert result == "FOUND"
    assert (report.requests, report.tokens, report.stopped_by) == (2, 1000, "")
    assert report.tokens_inside > 1000 > 100 > report.tokens_outside
    assert model.seen[0] == [*context, user_message("find it")]
    outputs = {item["call_id"]: item["output"] for item in model.seen[1] if item["type"] == "function_call_output"}
    assert outputs == {"c1": "x" * 4_000, "bad": "failed: OSError: gone"}


@pytest.mark.parametrize(
    ("budget", "requests"), [({"max_requests": 2}, 2), ({"max_tokens": 250}, 3), ({"max_requests": 9}, 4)]
)
async def test_a_budget_is_asked_before_each_request(budget: dict[str, int], requests: int) -> None:
    working = [TaskAnswer(items=[says(f"step {number}"), call(f"c{number}")], tokens=100) for number in (1, 2, 3)]
    model = Scripted(*working, TaskAnswer(items=[says("done")], tokens=100))
    result, report = await isolate("go", model, run_call=looks, **budget)
    assert (report.requests, report.tokens) == (requests, requests * 100)
    assert result == ("done" if requests == 4 else f"step {requests}")
    assert report.stopped_by == ("" if requests == 4 else next(iter(budget)))


async def test_without_tools_a_call_is_told_so_and_a_long_result_is_cut() -> None:
    model = Scripted(TaskAnswer(items=[call("c1")]), TaskAnswer(items=[says("y" * 10_000)]))
    result, _ = await isolate("go", model, max_result_tokens=100)
    assert model.seen[1][-1]["output"] == "there are no tools here"
    assert len(result) < 1_000 and result.startswith("yyy")


def test_the_examples_on_the_page_run() -> None:
    assert exported is isolate
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        scope: dict[str, Any] = {}
        exec(block, scope)
        assert scope["report"] is not None
