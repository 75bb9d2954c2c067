"""Plan mode: the plan is an item of its own, questions go to a person; and tools that the client answers itself."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessions import Start
from spindle.errors import ConfigError
from spindle.model.scripted import calls, says
from spindle.protocol.events import AgentMessage, AgentMessageContentDelta, ItemCompleted, ItemStarted, TaskComplete
from spindle.protocol.ops import DynamicToolResponse, Interrupt, UserInputAnswer, decode_submission
from spindle.protocol.questions import DynamicToolCallRequest, PlanDelta, RequestUserInput
from spindle.thread.view import transcript

PLAN = {"mode": "plan", "settings": {}}
WHOLE = "Intro\n<proposed_plan>\n# T\n</proposed_plan>\nOutro"
QUESTION = {"id": "db", "header": "Database", "question": "Which?", "options": [{"label": "A", "description": "a"}]}


def shown(msgs: list[Any]) -> list[tuple[str, str]]:
    """What is seen of messages and plans, in order."""
    seen: list[tuple[str, str]] = []
    for msg in msgs:
        match msg:
            case ItemStarted(item={"type": "Plan" | "AgentMessage" as kind}):
                seen.append(("started", kind))
            case ItemCompleted(item={"type": "Plan", "text": text}):
                seen.append(("Plan", text))
            case ItemCompleted(item={"type": "AgentMessage", "content": [{"text": text}]}):
                seen.append(("AgentMessage", text))
            case AgentMessageContentDelta(delta=delta):
                seen.append(("delta", delta))
            case PlanDelta(delta=delta):
                seen.append(("plan delta", delta))
            case _:
                continue
        if len(seen) > 1 and "delta" in seen[-1][0] and seen[-1][0] == seen[-2][0]:
            kind, text = seen.pop()
            seen[-1] = (kind, seen[-1][1] + text)
    return seen


async def test_the_plan_is_taken_out_of_the_message_and_shown_by_itself(start: Start) -> None:
    driver = await start()
    msgs = await driver.turn("go", says(WHOLE), collaboration_mode=PLAN)
    assert shown(msgs) == [
        ("started", "AgentMessage"),
        ("delta", "Intro\n"),
        ("started", "Plan"),
        ("plan delta", "# T\n"),
        ("delta", "Outro"),
        ("Plan", "# T\n"),
        ("AgentMessage", "Intro\nOutro"),
    ]
    assert [msg.message for msg in msgs if isinstance(msg, AgentMessage)] == ["Intro\nOutro"]
    (plan,) = [msg.item for msg in msgs if isinstance(msg, ItemCompleted) and msg.item["type"] == "Plan"]
    assert plan["id"] == f"{msgs[-1].turn_id}-plan"
    await driver.turn("on", says("ok"))
    assert WHOLE in json.dumps(driver.inputs[-1], ensure_ascii=False).replace("\\n", "\n"), "the model sees all of it"


async def test_a_message_that_is_all_plan_is_no_message(start: Start) -> None:
    driver = await start()
    msgs = await driver.turn("go", says("<proposed_plan>\n# T\n</proposed_plan>\n"), collaboration_mode=PLAN)
    assert shown(msgs) == [("started", "Plan"), ("plan delta", "# T\n"), ("Plan", "# T\n")]
    assert not [msg for msg in msgs if isinstance(msg, AgentMessage)]
    assert isinstance(msgs[-1], TaskComplete) and msgs[-1].last_agent_message is None


async def test_outside_of_plan_mode_a_tag_is_text(start: Start) -> None:
    driver = await start()
    msgs = await driver.turn("go", says(WHOLE))
    assert [entry for entry in shown(msgs) if entry[0] != "delta"] == [
        ("started", "AgentMessage"),
        ("AgentMessage", WHOLE),
    ]


async def test_the_record_tells_plan_and_message_apart(start: Start) -> None:
    driver = await start()
    await driver.turn("go", says(WHOLE), collaboration_mode=PLAN)
    (turn,) = transcript(driver.session.thread.history.records)
    texts = [item.get("text") or item["content"][0]["text"] for item in turn.items]
    assert texts == ["go", "# T\n", "Intro\nOutro"]


@pytest.mark.parametrize(
    "answer",
    [
        {"answers": {"db": {"answers": ["A", "user_note: soon"]}}},
        {"answers": {"db": {"selected": ["A"], "other": "user_note: soon"}}},
    ],
)
async def test_a_question_waits_for_its_answer(start: Start, answer: dict[str, Any]) -> None:
    driver = await start(calls("request_user_input", {"questions": [QUESTION]}, "c1"), says("thanks"), source="cli")
    sub_id = driver.begin("go", collaboration_mode=PLAN)
    asked = await driver.until(RequestUserInput)
    assert asked.questions == [{**QUESTION, "isOther": True, "isSecret": False}]
    driver.submit(UserInputAnswer(id=sub_id, response=answer))
    await driver.end_of(sub_id)
    (output,) = [item["output"] for item in driver.inputs[-1] if item.get("call_id") == "c1" and "output" in item]
    assert json.loads(output) == {"answers": {"db": {"answers": ["A", "user_note: soon"]}}}


@pytest.mark.parametrize(
    ("arguments", "mode", "told"),
    [
        ({"questions": [QUESTION]}, None, "unavailable in Default mode"),
        ({"questions": [QUESTION] * 4}, PLAN, "one to 3 questions"),
        ({"questions": []}, PLAN, "one to 3 questions"),
        ({"questions": [{"id": "x"}]}, PLAN, "missing field `question`"),
    ],
)
async def test_a_question_that_cannot_be_put_is_answered_to_the_model(
    start: Start, arguments: dict[str, Any], mode: Any, told: str
) -> None:
    driver = await start(calls("request_user_input", arguments, "c1"), says("well"), source="cli")
    await driver.end_of(driver.begin("go", collaboration_mode=mode))
    (output,) = [item["output"] for item in driver.inputs[-1] if item.get("call_id") == "c1" and "output" in item]
    assert told in output


async def test_an_interrupt_takes_the_question_back(start: Start) -> None:
    driver = await start(calls("request_user_input", {"questions": [QUESTION]}, "c1"), source="cli")
    sub_id = driver.begin("go", collaboration_mode=PLAN)
    await driver.until(RequestUserInput)
    driver.submit(Interrupt())
    await driver.end_of(sub_id)
    stray = driver.submit(UserInputAnswer(id="c1", response={}))
    assert "no open approval request or question 'c1'" in (await driver.next()).msg.message, stray


async def test_where_nobody_is_the_model_is_told_so(start: Start) -> None:
    driver = await start(
        calls("request_user_input", {"questions": [QUESTION]}, "c1"),
        calls("lookup", {}, "c2"),
        says("well"),
        source="exec",
        dynamic_tools=[TOOL],
    )
    await driver.end_of(driver.begin("go", collaboration_mode=PLAN))
    outputs = {item["call_id"]: item["output"] for item in driver.inputs[-1] if "output" in item}
    assert "cannot be put to a person" in outputs["c1"] and "not connected" in outputs["c2"]


def test_the_answer_has_an_older_name_too() -> None:
    line = '{"id":"a","op":{"type":"request_user_input_response","id":"c1","response":{"answers":{}}}}'
    assert decode_submission(line).op == UserInputAnswer(id="c1", response={"answers": {}})


TOOL = {"name": "lookup", "description": "looks", "inputSchema": {"type": "object", "properties": {}}}
SPACE = {"type": "namespace", "name": "crm", "description": "", "tools": [{"type": "function", **TOOL}]}


@pytest.mark.parametrize(("spec", "name", "space"), [(TOOL, "lookup", None), (SPACE, "crm__lookup", "crm")])
async def test_a_tool_of_the_client_is_answered_by_the_client(start: Start, spec: Any, name: str, space: Any) -> None:
    driver = await start(calls(name, {"q": 1}, "c1"), says("done"), dynamic_tools=[spec], source="cli")
    sub_id = driver.begin("go")
    asked = await driver.until(DynamicToolCallRequest)
    assert (asked.tool, asked.namespace, asked.arguments, asked.call_id) == ("lookup", space, {"q": 1}, "c1")
    items = [{"type": "inputText", "text": "one"}, {"type": "inputText", "text": "two"}]
    driver.submit(DynamicToolResponse(id="c1", response={"content_items": items, "success": True}))
    await driver.end_of(sub_id)
    (output,) = [item["output"] for item in driver.inputs[-1] if item.get("call_id") == "c1" and "output" in item]
    assert output == "one\ntwo"
    listed = [tool.get("name") for tool in driver.model.requests[0].tools]
    assert listed[-1] == name


@pytest.mark.parametrize(
    "specs",
    [
        [TOOL, TOOL],
        [{**TOOL, "name": "exec_command"}],
        [{**TOOL, "name": "mcp__x__y"}],
        [{**TOOL, "name": "two words"}],
        [{"name": "lookup"}],
    ],
)
async def test_a_tool_that_could_be_taken_for_another_is_refused(start: Start, specs: Any) -> None:
    with pytest.raises(ConfigError):
        await start(dynamic_tools=specs)
