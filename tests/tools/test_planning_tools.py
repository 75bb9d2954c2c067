"""The checklist and the questions to the person."""

from __future__ import annotations

import pytest

from spindle.errors import ToolError
from spindle.policy.sandbox import boundary_of
from spindle.protocol.clock import FixedClock
from spindle.protocol.events import PlanUpdate
from spindle.protocol.items import encode_json
from spindle.protocol.settings import CollaborationMode, SandboxPolicy, ThreadSettings
from spindle.tools.request_user_input import RequestUserInput
from spindle.tools.tool import Tool, ToolCall, ToolContext, Truncation
from spindle.tools.update_plan import UpdatePlan


async def run(tool: Tool, arguments: object, mode: str = "default") -> tuple[object, list]:
    text = arguments if isinstance(arguments, str) else encode_json(arguments).decode()
    item = {"type": "function_call", "name": tool.name, "arguments": text, "call_id": "c1"}
    emitted: list = []
    mode_setting = CollaborationMode(mode=mode)
    context = ToolContext(
        call_id="c1",
        turn_id="t1",
        thread_id="T",
        settings=ThreadSettings(cwd="/w", model="m", model_provider="p", collaboration_mode=mode_setting),
        boundary=boundary_of(SandboxPolicy(), cwd="/w", env={}, home=""),
        clock=FixedClock(),
        emit=emitted.append,
        truncation=Truncation(),
        accepts_images=True,
        freeform_patch=True,
        image_as_message=False,
        processes=None,
        permit_command=_refuse,
        permit_patch=_refuse,
        notes=None,
        diff=None,
    )
    call = ToolCall(item=item, name=tool.name, call_id="c1", arguments=text)
    return (await tool.run(call, context)).output, emitted


async def _refuse(*_args, **_options):
    raise AssertionError("these tools need no permit")


PLAN = [{"step": "one", "status": "completed"}, {"step": "two", "status": "in_progress"}]


async def test_a_plan_is_acknowledged_and_shown():
    output, emitted = await run(UpdatePlan(), {"plan": PLAN, "explanation": "why"})
    assert output == "Plan updated"
    assert emitted == [PlanUpdate(plan=PLAN, explanation="why")]


async def test_an_explanation_may_be_missing_or_null():
    for arguments in ({"plan": []}, {"plan": [], "explanation": None}):
        assert await run(UpdatePlan(), arguments) == ("Plan updated", [PlanUpdate(plan=[])])


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("{bad", "failed to parse function arguments: "),
        ({}, "failed to parse function arguments: missing field `plan`"),
        ({"plan": [{"step": "x", "status": "someday"}]}, "someday"),
    ],
)
async def test_a_plan_that_cannot_be_read_is_reported(arguments, reason):
    with pytest.raises(ToolError) as failure:
        await run(UpdatePlan(), arguments)
    assert reason in str(failure.value)


async def test_the_checklist_is_refused_in_plan_mode():
    with pytest.raises(ToolError, match="not allowed in Plan mode"):
        await run(UpdatePlan(), {"plan": PLAN}, mode="plan")


async def test_questions_are_unavailable_outside_plan_mode():
    with pytest.raises(ToolError) as failure:
        await run(RequestUserInput(), {"questions": []})
    assert str(failure.value) == "request_user_input is unavailable in Default mode"


@pytest.mark.parametrize("count", [0, 4])
async def test_one_to_three_questions_are_asked_at_a_time(count: int):
    questions = [{"id": str(number), "question": "Which?"} for number in range(count)]
    with pytest.raises(ToolError, match=f"ask one to 3 questions at a time, not {count}"):
        await run(RequestUserInput(), {"questions": questions}, mode="plan")


def test_the_checklist_has_this_schema():
    spec = UpdatePlan().spec()
    parameters = spec["parameters"]
    assert (spec["type"], spec["name"], spec["strict"]) == ("function", "update_plan", False)
    assert parameters["required"] == ["plan"] and parameters["additionalProperties"] is False
    step = parameters["properties"]["plan"]["items"]
    assert set(step["required"]) == {"step", "status"} and step["additionalProperties"] is False
    assert step["properties"]["status"]["enum"] == ["pending", "in_progress", "completed"]
    assert "one step is in progress" in spec["description"]


def test_the_questions_have_this_schema():
    parameters = RequestUserInput().spec()["parameters"]
    assert parameters["required"] == ["questions"]
    question = parameters["properties"]["questions"]["items"]
    assert question["required"] == ["id", "header", "question", "options"]
    assert question["additionalProperties"] is False
    option = question["properties"]["options"]["items"]
    assert option["required"] == ["label", "description"] and option["additionalProperties"] is False
    assert list(question["properties"]) == sorted(question["properties"])
