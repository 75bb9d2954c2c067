"""The checklist and the questions to the person."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from spindle.errors import ToolError
from spindle.protocol.events import Msg, PlanUpdate
from spindle.tools import specs
from spindle.tools.tool import Tool
from tools.bench import Bench

Run = Callable[..., Awaitable[tuple[str, list[Msg]]]]


@pytest.fixture
def run(bench: Bench) -> Run:
    """Gives what the tool answered and what it told."""

    async def run(tool: Tool, arguments: dict[str, Any] | str, mode: str = "default") -> tuple[str, list[Msg]]:
        bench.mode, bench.events = mode, []
        return await bench.run(tool, arguments), bench.events

    return run


PLAN = [{"step": "one", "status": "completed"}, {"step": "two", "status": "in_progress"}]


async def test_a_plan_is_acknowledged_and_shown(run: Run):
    output, emitted = await run(specs.update_plan(), {"plan": PLAN, "explanation": "why"})
    assert output == "Plan updated"
    assert emitted == [PlanUpdate(plan=PLAN, explanation="why")]


async def test_an_explanation_may_be_missing_or_null(run: Run):
    for arguments in ({"plan": []}, {"plan": [], "explanation": None}):
        assert await run(specs.update_plan(), arguments) == ("Plan updated", [PlanUpdate(plan=[])])


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("{bad", "failed to parse function arguments: "),
        ({}, "failed to parse function arguments: missing field `plan`"),
        ({"plan": [{"step": "x", "status": "someday"}]}, "someday"),
    ],
)
async def test_a_plan_that_cannot_be_read_is_reported(run: Run, arguments, reason):
    with pytest.raises(ToolError) as failure:
        await run(specs.update_plan(), arguments)
    assert reason in str(failure.value)


async def test_the_checklist_is_refused_in_plan_mode(run: Run):
    with pytest.raises(ToolError, match="not allowed in Plan mode"):
        await run(specs.update_plan(), {"plan": PLAN}, mode="plan")


async def test_questions_are_unavailable_outside_plan_mode(run: Run):
    with pytest.raises(ToolError) as failure:
        await run(specs.request_user_input(), {"questions": []})
    assert str(failure.value) == "request_user_input is unavailable in Default mode"


@pytest.mark.parametrize("count", [0, 4])
async def test_one_to_three_questions_are_asked_at_a_time(run: Run, count: int):
    questions = [{"id": str(number), "question": "Which?"} for number in range(count)]
    with pytest.raises(ToolError, match=f"ask one to 3 questions at a time, not {count}"):
        await run(specs.request_user_input(), {"questions": questions}, mode="plan")


def test_the_checklist_has_this_schema():
    spec = specs.update_plan().spec()
    parameters = spec["parameters"]
    assert (spec["type"], spec["name"], spec["strict"]) == ("function", "update_plan", False)
    assert parameters["required"] == ["plan"] and parameters["additionalProperties"] is False
    step = parameters["properties"]["plan"]["items"]
    assert set(step["required"]) == {"step", "status"} and step["additionalProperties"] is False
    assert step["properties"]["status"]["enum"] == ["pending", "in_progress", "completed"]
    assert "one step is in progress" in spec["description"]


def test_the_questions_have_this_schema():
    parameters = specs.request_user_input().spec()["parameters"]
    assert parameters["required"] == ["questions"]
    question = parameters["properties"]["questions"]["items"]
    assert question["required"] == ["id", "header", "question", "options"]
    assert question["additionalProperties"] is False
    option = question["properties"]["options"]["items"]
    assert option["required"] == ["label", "description"] and option["additionalProperties"] is False
    assert list(question["properties"]) == sorted(question["properties"])
