"""Budgets and sub-agents of the Python API, and the callbacks and hooks of whole threads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from api.homes import FULL, Client
from mcp_servers.kit import servers, stub
from spindle import (
    AgentRole,
    ApprovalRequest,
    Budget,
    BudgetExceeded,
    Denied,
    Question,
    ToolDefinitionError,
    TurnFailed,
    tool,
)
from spindle.testing import ScriptedModel, calls, says
from spindle.types import AgentEvent, ItemCompleted, TurnCompleted, WarningEvent

MORE = {"type": "object", "properties": {"n": {"type": "integer"}}}


def run(cmd: str, call_id: str) -> Any:
    return calls("exec_command", {"cmd": cmd}, call_id)


# ---- budgets ---------------------------------------------------------------------------------------


def test_a_used_up_budget_raises_and_the_thread_goes_on_with_a_new_one(client: Client, workspace: Path) -> None:
    spindle = client(run("echo 1", "c1"), run("echo 2", "c2"), says("end"))
    thread = spindle.thread_start(cwd=workspace, **FULL)
    with pytest.raises(BudgetExceeded) as failed:
        thread.run("x", budget=Budget(requests=2))
    error = failed.value
    budget = {"scope": "turn", "limit": "max_requests", "max": 2, "used": 2}
    assert isinstance(error, TurnFailed) and (error.info, error.budget, error.is_retryable) == (
        "budget_exceeded",
        budget,
        False,
    )
    assert error.result.status == "failed" and error.result.error.budget == budget
    assert [item.type for item in error.result.items].count("command_execution") == 2
    assert thread.run("y", budget=Budget(requests=5, tokens=10_000)).final_response == "end"


def test_a_stream_ends_with_the_budget_in_its_last_event(client: Client, workspace: Path) -> None:
    thread = client(run("echo 1", "c1")).thread_start(cwd=workspace, **FULL)
    last = list(thread.stream("x", budget=Budget(requests=1)))[-1]
    assert last.type == "turn.failed"
    assert last.to_dict()["error"]["budget"] == {"scope": "turn", "limit": "max_requests", "max": 1, "used": 1}


def test_a_thread_has_its_budget_as_long_as_it_is_open(client: Client, workspace: Path) -> None:
    spindle = client(says("one"), says("two"), says("three"))
    thread = spindle.thread_start(cwd=workspace, budget=Budget(requests=2))
    assert [thread.run("x").final_response for _ in range(2)] == ["one", "two"]
    with pytest.raises(BudgetExceeded) as failed:
        thread.run("x", budget=Budget(requests=10))
    assert failed.value.budget == {"scope": "thread", "limit": "max_requests", "max": 2, "used": 2}
    thread.close()
    again = spindle.thread_resume(thread.id, budget=Budget(requests=2))
    assert again.run("x").final_response == "three"


def test_an_answer_that_is_asked_for_again_is_within_the_same_budget(client: Client, workspace: Path) -> None:
    thread = client(says("no json"), says("nor this"), says('{"n": 1}')).thread_start(cwd=workspace)
    with pytest.raises(BudgetExceeded) as failed:
        thread.run("x", output_type=MORE, output_retries=5, budget=Budget(requests=2))
    assert failed.value.budget == {"scope": "turn", "limit": "max_requests", "max": 2, "used": 2}


def test_dollars_for_a_model_without_a_price_are_one_warning(client: Client, workspace: Path) -> None:
    thread = client(run("echo 1", "c1"), says("end")).thread_start(cwd=workspace, model="nobody-knows-7b", **FULL)
    events = list(thread.stream("x", budget=Budget(usd=0.000001)))
    texts = [event.message for event in events if isinstance(event, WarningEvent) and "max_cost" in event.message]
    assert len(texts) == 1 and "nobody-knows-7b" in texts[0] and isinstance(events[-1], TurnCompleted)


@pytest.mark.parametrize("budget", [5, Budget(requests=-1), Budget(tokens=1.5), Budget(usd="1"), Budget(seconds=True)])  # pyright: ignore[reportArgumentType]
def test_what_is_no_budget_is_refused(client: Client, workspace: Path, budget: Any) -> None:
    spindle = client()
    with pytest.raises(ValueError, match="budget"):
        spindle.thread_start(cwd=workspace, budget=budget)
    with pytest.raises(ValueError, match="budget"):
        spindle.thread_start(cwd=workspace).run("x", budget=budget)


# ---- sub-agents ------------------------------------------------------------------------------------


class Cast:
    """A parent that starts one sub-agent and waits for it; what the sub-agent does is given."""

    def __init__(self, *agent: Any, role: str | None = None) -> None:
        self._agent = list(agent)
        task = {"message": "AGENT-TASK"} | ({"agent_type": role} if role else {})
        self._spawn = calls("spawn_agent", task, "a1")
        self.of_agent: list[Any] = []
        """What the sub-agent asked its model."""

    def __call__(self, request: Any) -> Any:
        said = json.dumps(request.input)
        if "PARENT-TASK" not in said:
            self.of_agent.append(request)
            return self._agent[len(self.of_agent) - 1]
        if '"a1"' not in said:
            return self._spawn
        if '"a2"' in said:
            return says("end")
        (told,) = [item["output"] for item in request.input if item.get("call_id") == "a1" and "output" in item]
        return calls("wait", {"ids": [json.loads(told)["agent_id"]], "timeout_ms": 20_000}, "a2")

    @property
    def model(self) -> ScriptedModel:
        return ScriptedModel(*[self] * 20)


def names(request: Any) -> list[str]:
    return [spec.get("name", spec["type"]) for spec in request.tools]


def test_sub_agents_are_off_until_they_are_wanted(client: Client, workspace: Path) -> None:
    model = ScriptedModel(says("a"), says("b"), says("c"))
    spindle = client()
    for agents in (None, True, False):
        config = {"features.collab": agents is False}
        spindle.thread_start(cwd=workspace, agents=agents, config=config, model_client=model).run("x")
    assert ["spawn_agent" in names(request) for request in model.requests] == [False, True, False]


def test_what_sub_agents_do_comes_as_events_of_theirs(client: Client, workspace: Path) -> None:
    cast = Cast(run("echo deep", "c1"), says("found"))
    thread = client().thread_start(cwd=workspace, agents=True, model_client=cast.model, **FULL)
    stream = thread.stream("PARENT-TASK")
    told = [event for event in stream if isinstance(event, AgentEvent)]
    assert stream.result is not None and stream.result.final_response == "end"
    (agent_id,) = {event.agent_id for event in told}
    assert agent_id != thread.id and {event.event.thread_id for event in told} == {agent_id}
    kinds = [event.event.type for event in told]
    assert kinds.count("turn.started") == 1 and kinds[-1] == "turn.completed"
    items = [event.event.item.type for event in told if isinstance(event.event, ItemCompleted)]
    assert items == ["user_message", "command_execution", "agent_message"]
    assert told[0].to_dict()["event"]["thread_id"] == agent_id and told[0].turn_id == stream.result.turn_id
    last = told[-1].event
    assert isinstance(last, TurnCompleted) and last.usage.total_tokens == 220


def test_a_role_has_instructions_rights_and_tools_of_its_own(client: Client, workspace: Path) -> None:
    called: list[str] = []

    def look_up(what: str) -> str:
        """Look something up."""
        called.append(what)
        return f"{what} is 7"

    def of_parent() -> str:
        """Only for the thread itself."""
        return ""

    role = AgentRole(
        description="ROLE-FOR", instructions="ROLE-TEXT", model="gpt-5.2", sandbox="read-only", tools=[look_up]
    )
    agent = [calls("look_up", {"what": "x"}, "c1"), run("touch made", "c2"), says("found")]
    cast = Cast(*agent, role="explorer")
    model = cast.model
    thread = client().thread_start(
        cwd=workspace, sandbox="workspace-write", agents={"explorer": role}, tools=[of_parent], model_client=model
    )
    assert thread.run("PARENT-TASK").final_response == "end" and called == ["x"]
    assert "ROLE-FOR" in json.dumps(model.requests[0].tools)
    first, last = cast.of_agent[0], cast.of_agent[-1]
    assert first.model == "gpt-5.2" and "ROLE-TEXT" in json.dumps(first.input)
    assert "look_up" in names(first) and "of_parent" not in names(first)
    assert "of_parent" in names(model.requests[0]) and "look_up" not in names(model.requests[0])
    outputs = {item["call_id"]: item["output"] for item in last.input if "output" in item}
    assert outputs["c1"] == "x is 7" and not (workspace / "made").exists()


def test_a_role_names_tools_of_the_thread(client: Client, workspace: Path) -> None:
    @tool(name="find-it")
    def find(what: str) -> str:
        """Find."""
        return what

    cast = Cast(calls("find-it", {"what": "this"}, "c1"), says("found"), role="finder")
    thread = client().thread_start(
        cwd=workspace, tools=[find], agents={"finder": AgentRole(tools=["find-it"])}, model_client=cast.model
    )
    thread.run("PARENT-TASK")
    assert names(cast.of_agent[0]).count("find-it") == 1


def test_what_sub_agents_ask_comes_to_the_same_callback(client: Client, workspace: Path) -> None:
    asked: list[ApprovalRequest] = []

    def ask(request: ApprovalRequest) -> Any:
        asked.append(request)
        return Denied("ask again tomorrow")

    cast = Cast(run("touch made", "c1"), says("found"))
    thread = client().thread_start(
        cwd=workspace,
        sandbox="workspace-write",
        approval_policy="untrusted",
        on_approval=ask,
        agents=True,
        model_client=cast.model,
    )
    thread.run("PARENT-TASK")
    (request,) = asked
    assert request.thread_id != thread.id and request.command is not None and "touch made" in request.command[-1]
    (told,) = [item["output"] for item in cast.of_agent[1].input if item.get("call_id") == "c1" and "output" in item]
    assert told == "exec command rejected by user: ask again tomorrow" and not (workspace / "made").exists()


@pytest.mark.parametrize(
    "agents",
    [
        "yes",
        {"a b": AgentRole()},
        {"x": {"description": "y"}},
        {"x": AgentRole(sandbox="none")},  # pyright: ignore[reportArgumentType]
        {"x": AgentRole(effort="much")},
        {"x": AgentRole(tools="look_up")},
        {"x": AgentRole(tools=["no_such"])},
        {"x": AgentRole(instructions=7)},  # pyright: ignore[reportArgumentType]
    ],
)
def test_what_are_no_sub_agents_is_refused(client: Client, workspace: Path, agents: Any) -> None:
    with pytest.raises(ValueError):
        client().thread_start(cwd=workspace, agents=agents)


def test_what_a_sub_agent_asks_has_one_id_in_all_places(client: Client, workspace: Path) -> None:
    asked: list[str] = []

    @tool(approval=True)
    def danger() -> str:
        """Dangerous."""
        return "done"

    def ask(request: ApprovalRequest) -> bool:
        asked.append(request.call_id)
        return True

    cast = Cast(calls("danger", {}, "c1"), says("found"), role="x")
    thread = client().thread_start(
        cwd=workspace, agents={"x": AgentRole(tools=[danger])}, on_approval=ask, model_client=cast.model
    )
    events = [event for event in thread.stream("PARENT-TASK") if event.type.startswith("approval.")]
    assert [(event.type, event.to_dict()["call_id"]) for event in events] == [
        ("approval.requested", asked[0]),
        ("approval.resolved", asked[0]),
    ]


@pytest.mark.parametrize("name", ["spawn_agent", "remember", "exec_command"])
def test_a_tool_of_a_role_cannot_have_the_name_of_another(client: Client, workspace: Path, name: str) -> None:
    def anything() -> None:
        """Nothing."""

    with pytest.raises(ToolDefinitionError, match=name):
        client().thread_start(cwd=workspace, agents={"x": AgentRole(tools=[tool(name=name)(anything)])})


def test_a_tool_of_a_role_must_be_one(client: Client, workspace: Path) -> None:
    def many(*words: str) -> None:
        """No tool."""

    with pytest.raises(ToolDefinitionError):
        client().thread_start(cwd=workspace, agents={"x": AgentRole(tools=[many])})


# ---- questions -------------------------------------------------------------------------------------


def test_without_a_callback_the_model_is_told_that_nobody_answers(client: Client, workspace: Path) -> None:
    asked = {"questions": [{"id": "db", "header": "Store", "question": "Which?", "options": []}]}
    model = ScriptedModel(calls("request_user_input", asked, "c1"), says("end"))
    client().thread_start(cwd=workspace, model_client=model).run("x", mode="plan")
    (told,) = [item["output"] for item in model.requests[1].input if "output" in item]
    assert told.startswith("questions cannot be put to a person in this session")


# ---- MCP servers -----------------------------------------------------------------------------------


def told(model: ScriptedModel, call_id: str) -> str:
    (output,) = [
        item["output"] for item in model.requests[-1].input if item.get("call_id") == call_id and "output" in item
    ]
    return output if isinstance(output, str) else json.dumps(output)


@pytest.mark.parametrize(
    ("answers", "tail"),
    [({"colour": "red"}, '{"action": "accept", "content": {"colour": "red"}}'), ({}, '{"action": "decline"}')],
)
def test_a_servers_form_comes_to_on_question_and_its_tool_to_on_approval(
    client: Client, workspace: Path, answers: Any, tail: str
) -> None:
    approved: list[ApprovalRequest] = []
    asked: list[Question] = []

    def ask(request: ApprovalRequest) -> bool:
        approved.append(request)
        return True

    def answer(questions: list[Question]) -> Any:
        asked.extend(questions)
        return answers

    model = ScriptedModel(calls("mcp__tiny__a", {"n": 1}, "c1"), says("end"))
    thread = client().thread_start(
        cwd=workspace,
        config=servers(tiny=stub({"tools": ["a"], "read_only": False, "elicit_on": "a"})),
        approval_policy="untrusted",
        on_approval=ask,
        on_question=answer,
        model_client=model,
    )
    assert thread.run("x").final_response == "end"
    (request,) = approved
    assert (request.kind, request.server, request.tool, request.arguments) == ("mcp", "tiny", "a", {"n": 1})
    assert request.decisions == ["approved", "approved_for_session", "denied", "abort"]
    assert [(one.id, one.header) for one in asked] == [("colour", "Which colour?")]
    assert told(model, "c1").replace('\\"', '"').rstrip('"').endswith(tail)
