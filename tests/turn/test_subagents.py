"""Sub-agents: sessions of their own, within what their parent may do, that give back one message."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from sessions import Driver, Start, of
from spindle.errors import ToolError
from spindle.features.agents.agents import Agents
from spindle.features.agents.subagents import Subagents
from spindle.lookback.inspection import inspect_thread
from spindle.model.client import Compacted
from spindle.model.scripted import AnyStep, Asked, calls, fails, patches, says, waits
from spindle.protocol.agent_events import (
    CollabAgentEvent,
    CollabAgentSpawnBegin,
    CollabAgentSpawnEnd,
    CollabCloseEnd,
    CollabWaitingBegin,
    CollabWaitingEnd,
)
from spindle.protocol.events import (
    ApplyPatchApprovalRequest,
    Error,
    ExecApprovalRequest,
    TaskComplete,
    TokenCount,
    TurnAborted,
)
from spindle.protocol.goal import ThreadGoalUpdated
from spindle.protocol.ops import (
    ExecApproval,
    GoalSet,
    Interrupt,
    OverrideTurnContext,
    PatchApproval,
    StartOver,
    Submission,
    Undo,
    UserInput,
)
from spindle.protocol.request import TokenUsage
from spindle.protocol.undo import UndoCompleted
from spindle.thread.listing import ThreadFilter
from spindle.tools.agent_tools import WaitArgs

ON: dict[str, Any] = {"features": {"collab": True}}
COST = TokenUsage(input_tokens=900, output_tokens=100, total_tokens=1000)


def agents_of(driver: Any) -> Subagents:
    """The sub-agents of a session."""
    (feature,) = (feature for feature in driver.session.features if isinstance(feature, Agents))
    return feature.started()


def texts(request: Asked) -> list[str]:
    items = request.input
    return ["".join(part.get("text", "") for part in item["content"]) for item in items if item["type"] == "message"]


def outputs(request: Asked) -> dict[str, Any]:
    """What the tools of a thread have answered, by call id."""
    items = request.input
    return {item["call_id"]: read(item["output"]) for item in items if item["type"] == "function_call_output"}


def read(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


class Cast:
    """Answers each request by the part the thread plays: the parent follows a script, a child its task's."""

    def __init__(self, *parent: Callable[[Asked], AnyStep] | AnyStep, **children: list[AnyStep]) -> None:
        self.parent = list(parent)
        self.children = {task: list(steps) for task, steps in children.items()}
        self.requests: dict[str, list[Asked]] = {}
        self.parent_id = ""

    def __call__(self, request: Asked) -> AnyStep:
        self.parent_id = self.parent_id or request.prompt_cache_key
        if request.prompt_cache_key == self.parent_id:
            return self._next("parent", self.parent, request)
        said = texts(request)
        task = next(name for name in self.children if f"task {name}" in said)
        return self._next(task, self.children[task], request)

    def _next(self, name: str, steps: list[Any], request: Asked) -> AnyStep:
        self.requests.setdefault(name, []).append(request)
        step = steps.pop(0)
        return step(request) if callable(step) else step


def spawn(name: str, call_id: str = "", **more: Any) -> AnyStep:
    return calls("spawn_agent", {"message": f"task {name}", **more}, call_id or f"spawn-{name}")


def ids(request: Asked) -> list[str]:
    return [answer["agent_id"] for answer in outputs(request).values() if "agent_id" in answer]


def wait_for_all(call_id: str = "wait", **more: Any) -> Callable[[Asked], AnyStep]:
    return lambda request: calls("wait", {"ids": ids(request), **more}, call_id)


@pytest.fixture
def play(start: Start) -> Any:
    """Opens a session whose model, and that of its sub-agents, is a cast."""

    async def open_play(cast: Cast, **how: Any) -> Any:
        config = {**ON, **how.pop("config", {})}
        driver = await start(config=config, **how)
        driver.model._default = cast
        return driver

    return open_play


def all_messages(driver: Driver) -> list[Any]:
    return [event.msg for event in driver.events]


def wrapped(driver: Driver, tag: str) -> list[CollabAgentEvent]:
    return [msg for msg in of(all_messages(driver), CollabAgentEvent) if msg.msg["type"] == tag]


async def test_a_sub_agent_has_no_goal_and_what_it_uses_counts_for_its_parents(play: Any) -> None:
    cast = Cast(
        spawn("a"),
        wait_for_all(),
        calls("update_goal", {"status": "complete"}, "g"),
        says("done"),
        a=[says("found it", usage=COST)],
    )
    driver = await play(cast, pursues_goals=True)
    driver.submit(GoalSet(objective="Find it."))
    await driver.until(TaskComplete)
    (child,) = cast.requests["a"]
    assert "update_goal" in {tool.get("name") for tool in cast.requests["parent"][0].tools}
    assert "update_goal" not in {tool.get("name") for tool in child.tools}
    goal = of(all_messages(driver), ThreadGoalUpdated)[-1].goal
    assert goal is not None and (goal["status"], goal["tokensUsed"]) == ("complete", 4 * 110 + 1000)


# ---- the four tools ----------------------------------------------------------------------------------


async def test_the_tools_are_listed_only_where_sub_agents_are_wanted(start: Start) -> None:
    def names(driver: Driver) -> set[str]:
        return {spec.get("name", "") for spec in driver.session.thread.tools.specs}

    team = {"spawn_agent", "send_input", "wait", "close_agent"}
    assert names(await start()) & team == set()
    assert names(await start(config=ON)) & team == team
    assert names(await start(config={"agents": {"scout": {"description": "looks around"}}})) & team == team
    assert names(await start(config={**ON, "agents": {"max_depth": 0}})) & team == set()
    assert names(await start(config={**ON, "agents": {"max_threads": 0}})) & team == set()


async def test_only_the_final_message_of_a_sub_agent_comes_back(play: Any, workspace: Path) -> None:
    cast = Cast(
        spawn("look"),
        wait_for_all(),
        lambda request: calls("close_agent", {"id": ids(request)[0]}, "close"),
        says("all done"),
        look=[calls("exec_command", {"cmd": "echo SECRET-STEP"}, "c1"), says("FOUND-IT")],
    )
    driver = await play(cast)
    messages = await driver.turn("PARENT-PROMPT")
    (agent_id,) = ids(cast.requests["parent"][1])
    answers = outputs(cast.requests["parent"][-1])
    assert answers["wait"] == {"status": {agent_id: {"completed": "FOUND-IT"}}, "timed_out": False}
    assert answers["close"] == {"status": {"completed": "FOUND-IT"}}
    assert of(messages, TaskComplete)[-1].last_agent_message == "all done"
    assert driver.model.is_closed is False  # the parent goes on talking to it
    # Neither knows of the other what it need not know.
    assert all("SECRET-STEP" not in str(request.input) for request in cast.requests["parent"])
    assert all("PARENT-PROMPT" not in str(request.input) for request in cast.requests["look"])
    child = cast.requests["look"][0]
    assert child.prompt_cache_key == agent_id != driver.session.thread_id
    assert texts(child)[-1] == "task look"


async def test_eight_sub_agents_work_at_the_same_time(play: Any) -> None:
    names = [f"n{number}" for number in range(8)]
    cast = Cast(
        [spawn(name) for name in names],
        wait_for_all(),
        says("done"),
        **{name: [[waits(0.3), says(f"result of {name}")]] for name in names},
    )
    driver = await play(cast, config={"agents": {"max_threads": 8}})
    await driver.turn("go")
    answer = outputs(cast.requests["parent"][-1])["wait"]
    assert answer["timed_out"] is False
    assert sorted(status["completed"] for status in answer["status"].values()) == [f"result of {n}" for n in names]
    assert len(set(ids(cast.requests["parent"][-1]))) == 8
    # All had begun before the first was done.
    kinds = [msg.msg["type"] for msg in of(all_messages(driver), CollabAgentEvent)]
    assert kinds[: kinds.index("task_complete")].count("task_started") == 8


async def test_more_sub_agents_than_allowed_are_refused_until_one_is_closed(play: Any) -> None:
    cast = Cast(
        [spawn("a"), spawn("b"), spawn("c")],
        lambda request: calls("close_agent", {"id": ids(request)[0]}, "close"),
        spawn("c", "again"),
        wait_for_all(),
        says("done"),
        a=[says("A")],
        b=[says("B")],
        c=[says("C")],
    )
    driver = await play(cast, config={"agents": {"max_threads": 2}})
    messages = await driver.turn("go")
    answers = outputs(cast.requests["parent"][-1])
    refused = [text for text in answers.values() if isinstance(text, str)]
    assert len(refused) == 1 and "agents.max_threads" in refused[0]
    assert set(answers["again"]) == {"agent_id"}
    failed = [msg for msg in of(messages, CollabAgentSpawnEnd) if msg.new_thread_id is None]
    assert len(failed) == 1 and isinstance(failed[0].status, dict)


async def test_a_message_reaches_a_sub_agent_that_is_done_and_one_that_works(play: Any) -> None:
    cast = Cast(
        [spawn("idle"), spawn("busy")],
        lambda request: calls("wait", {"ids": ids(request)[:1]}, "first"),
        lambda request: [
            calls("send_input", {"id": ids(request)[0], "message": "MORE-1"}, "send-1"),
            calls("send_input", {"id": ids(request)[1], "message": "MORE-2"}, "send-2"),
        ],
        wait_for_all(),
        says("done"),
        idle=[says("one"), [waits(0.2), says("two")]],
        busy=[[waits(0.2), calls("update_plan", {"plan": []}, "p")], says("finished")],
    )
    driver = await play(cast)
    await driver.turn("go")
    answers = outputs(cast.requests["parent"][-1])
    idle, busy = ids(cast.requests["parent"][-1])
    assert answers["first"]["status"] == {idle: {"completed": "one"}}
    assert answers["send-1"] == answers["send-2"] == {"status": "running"}
    assert answers["wait"]["status"] == {idle: {"completed": "two"}, busy: {"completed": "finished"}}
    assert texts(cast.requests["idle"][1])[-1] == "MORE-1"
    assert texts(cast.requests["busy"][1])[-1] == "MORE-2"


async def test_an_interrupting_message_replaces_what_a_sub_agent_does(play: Any) -> None:
    cast = Cast(
        spawn("x"),
        lambda request: calls("send_input", {"id": ids(request)[0], "message": "instead", "interrupt": True}, "send"),
        wait_for_all(),
        says("done"),
        x=[[waits(60), says("never")], says("instead of that")],
    )
    driver = await play(cast)
    await driver.turn("go")
    (agent_id,) = ids(cast.requests["parent"][-1])
    assert outputs(cast.requests["parent"][-1])["wait"]["status"] == {agent_id: {"completed": "instead of that"}}
    assert [msg.msg["reason"] for msg in wrapped(driver, "turn_aborted")] == ["replaced"]


async def test_what_is_sent_to_a_turn_that_fails_is_worked_on_all_the_same(play: Any) -> None:
    cast = Cast(
        spawn("x"),
        lambda request: calls("send_input", {"id": ids(request)[0], "message": "more"}, "send"),
        wait_for_all(),
        says("done"),
        x=[[waits(0.3), fails("the server says no")], [waits(0.1), says("recovered")]],
    )
    driver = await play(cast)
    await driver.turn("go")
    (status,) = outputs(cast.requests["parent"][-1])["wait"]["status"].values()
    assert status == {"completed": "recovered"}
    assert texts(cast.requests["x"][-1])[-1] == "more"


async def test_a_wait_can_end_with_the_first_or_when_its_time_is_up(play: Any) -> None:
    cast = Cast(
        [spawn("quick"), spawn("slow")],
        wait_for_all("any", until="any"),
        says("done"),
        quick=[says("Q")],
        slow=[[waits(60), says("S")]],
    )
    driver = await play(cast)
    await driver.turn("go")
    quick, slow = ids(cast.requests["parent"][-1])
    answer = outputs(cast.requests["parent"][-1])["any"]
    assert answer == {"status": {quick: {"completed": "Q"}, slow: "running"}, "timed_out": False}
    agents = agents_of(driver)
    assert await agents.wait([quick, slow], 0.05) is False
    assert await agents.wait([quick], 0.05) is True


@pytest.mark.parametrize(("given", "seconds"), [(None, 30), (1, 10), (20_000, 20), (9_000_000, 300)])
def test_the_time_of_a_wait_has_bounds(given: int | None, seconds: float) -> None:
    args = WaitArgs(["x"]) if given is None else WaitArgs(["x"], given)
    assert args.timeout_s == seconds


async def test_what_nobody_started_is_not_found(play: Any) -> None:
    cast = Cast(
        [
            calls("wait", {"ids": ["nobody"]}, "w"),
            calls("send_input", {"id": "nobody", "message": "hello"}, "s"),
            calls("close_agent", {"id": "nobody"}, "c"),
            calls("spawn_agent", {"message": "x", "agent_type": "wizard"}, "t"),
            calls("spawn_agent", {"message": "  "}, "e"),
        ],
        says("done"),
    )
    driver = await play(cast)
    await driver.turn("go")
    answers = outputs(cast.requests["parent"][-1])
    assert answers["w"] == {"status": {"nobody": "not_found"}, "timed_out": False}
    assert answers["s"] == answers["c"] == "there is no agent 'nobody'"
    assert "'wizard'" in answers["t"] and "default" in answers["t"]
    assert "empty" in answers["e"]


# ---- what goes wrong ---------------------------------------------------------------------------------


def crash(*_: Any) -> Any:
    raise RuntimeError("a bug in the middle of it")


async def test_a_sub_agent_that_crashes_is_a_status_and_no_more(play: Any) -> None:
    cast = Cast(
        [spawn("bug"), spawn("refused"), spawn("fine")],
        wait_for_all(),
        says("I go on"),
        bug=[crash],
        refused=[fails("the server says no")],
        fine=[says("fine")],
    )
    driver = await play(cast)
    messages = await driver.turn("go")
    bug, refused, fine = ids(cast.requests["parent"][-1])
    status = outputs(cast.requests["parent"][-1])["wait"]["status"]
    assert status == {
        bug: {"errored": "internal error: RuntimeError: a bug in the middle of it"},
        refused: {"errored": "the server says no"},
        fine: {"completed": "fine"},
    }
    assert of(messages, Error) == []
    assert of(messages, TaskComplete)[-1].last_agent_message == "I go on"


async def test_a_sub_agent_whose_task_dies_is_a_status_too(play: Any) -> None:
    cast = Cast(spawn("x"), wait_for_all(), says("I go on"), x=[[waits(60), says("never")]])
    driver = await play(cast)
    sub_id = driver.begin("go")
    await driver.until(CollabWaitingBegin)
    (agent,) = agents_of(driver)._agents.values()
    agent.actor.cancel()
    messages = await driver.end_of(sub_id)
    status = outputs(cast.requests["parent"][-1])["wait"]["status"]
    assert status == {agent.id: "interrupted"}
    with pytest.raises(ToolError, match="is closed"):
        await agents_of(driver).send(agent.id, "more")
    assert of(messages, TaskComplete)[-1].last_agent_message == "I go on"


async def test_a_bug_before_a_turn_begins_is_a_status_too(play: Any) -> None:
    cast = Cast(spawn("x"), wait_for_all(), says("done"), x=[says("X")])
    driver = await play(cast)
    await driver.turn("go")
    agents = agents_of(driver)
    ((agent_id, child),) = agents.sessions.items()
    child.begin_turn = crash
    await agents.send(agent_id, "more")
    assert await agents.wait([agent_id], 5)
    assert agents.status(agent_id) == {"errored": "internal error: RuntimeError: a bug in the middle of it"}


async def test_a_bug_in_what_the_parent_hears_fails_the_sub_agent_only(play: Any) -> None:
    cast = Cast(spawn("x"), wait_for_all(), says("I go on"), x=[[waits(0.1), says("X")]])
    driver = await play(cast)
    sub_id = driver.begin("go")
    await driver.until(CollabWaitingBegin)
    agents = agents_of(driver)
    agents._wrapped = crash
    messages = await driver.end_of(sub_id)
    (status,) = outputs(cast.requests["parent"][-1])["wait"]["status"].values()
    assert status == {"errored": "internal error: RuntimeError: a bug in the middle of it"}
    assert of(messages, TaskComplete)[-1].last_agent_message == "I go on"


async def test_an_interrupt_of_the_parent_stops_its_sub_agents(play: Any, workspace: Path) -> None:
    cast = Cast(
        [spawn("thinks"), spawn("runs")],
        wait_for_all(),
        wait_for_all("wait-2"),
        says("picked up"),
        thinks=[[waits(60), says("never")], says("after all")],
        runs=[calls("exec_command", {"cmd": "sleep 60; touch ran"}, "c1")],
    )
    driver = await play(cast)
    sub_id = driver.begin("go")
    await driver.until(CollabWaitingBegin)
    while not wrapped(driver, "exec_command_begin"):
        await driver.next()
    driver.submit(Interrupt())
    await driver.until(TurnAborted, sub_id=sub_id)
    while len(wrapped(driver, "turn_aborted")) < 2:
        await driver.next()
    first, second = agents_of(driver).sessions
    assert [agents_of(driver).status(agent) for agent in (first, second)] == ["interrupted"] * 2
    # They are still there, with what they know.
    await agents_of(driver).send(first, "go on")
    await driver.turn("go on")
    status = outputs(cast.requests["parent"][-1])["wait-2"]["status"]
    assert status == {first: {"completed": "after all"}, second: "interrupted"}
    assert "task thinks" in texts(cast.requests["thinks"][-1])


async def test_sub_agents_end_with_the_session(play: Any, start: Start) -> None:
    cast = Cast(spawn("x"), says("done"), x=[[waits(60), says("never")]])
    driver = await play(cast)
    await driver.turn("go")
    (child,) = agents_of(driver).sessions
    await driver.close()
    assert agents_of(driver).sessions == {}
    again = await start(thread=child)  # its file is no longer locked
    assert again.session.thread_id == child


async def test_a_resumed_thread_knows_its_former_sub_agents_as_closed(play: Any) -> None:
    driver = await play(Cast(spawn("x"), wait_for_all(), says("done"), x=[says("X")]))
    await driver.turn("go")
    (child,) = agents_of(driver).sessions
    await driver.close()
    cast = Cast(
        [
            calls("wait", {"ids": [child]}, "w"),
            calls("send_input", {"id": child, "message": "more"}, "s"),
            calls("close_agent", {"id": child}, "c"),
        ],
        says("I see"),
    )
    resumed = await play(cast, thread=driver.session.thread_id)
    await resumed.turn("go on")
    answers = outputs(cast.requests["parent"][-1])
    assert answers["w"] == {"status": {child: "shutdown"}, "timed_out": False}
    assert answers["s"] == f"agent {child} is closed; start a new one for more work"
    assert answers["c"] == {"status": "shutdown"}


async def test_a_bug_while_one_is_opened_costs_nothing_but_that_one(play: Any) -> None:
    cast = Cast(spawn("x"), spawn("y"), says("I go on"))
    driver = await play(cast, config={"agents": {"max_threads": 1}})
    await driver.idle()
    agents = agents_of(driver)

    async def broken(_: Any) -> Any:
        raise RuntimeError("no memory")

    agents._staff = structs.replace(agents._staff, open_agent=broken)
    messages = await driver.turn("go")
    answers = outputs(cast.requests["parent"][-1])
    told = "no sub-agent was started: internal error: RuntimeError: no memory"
    assert answers == {"spawn-x": told, "spawn-y": told}  # the place of the first was free again
    assert of(messages, TaskComplete)[-1].last_agent_message == "I go on"


async def test_a_person_who_says_something_is_not_kept_waiting(play: Any) -> None:
    cast = Cast(spawn("slow"), wait_for_all(timeout_ms=300_000), says("I heard you"), slow=[[waits(60), says("never")]])
    driver = await play(cast)
    sub_id = driver.begin("go")
    await driver.until(CollabWaitingBegin)
    driver.submit(UserInput(items=[{"type": "text", "text": "how far are you?"}], mode="steer"))
    await driver.end_of(sub_id)
    (agent_id,) = ids(cast.requests["parent"][-1])
    assert outputs(cast.requests["parent"][-1])["wait"] == {"status": {agent_id: "running"}, "timed_out": False}
    assert texts(cast.requests["parent"][-1])[-1] == "how far are you?"


async def test_what_is_compacted_away_does_not_lose_the_sub_agents(play: Any) -> None:
    cast = Cast(
        [spawn("open"), spawn("shut")],
        wait_for_all(),
        lambda request: calls("close_agent", {"id": ids(request)[1]}, "close"),
        says("done"),
        says("ok"),
        open=[says("O")],
        shut=[says("S")],
    )
    driver = await play(cast)
    await driver.turn("go")
    first, second = ids(cast.requests["parent"][-1])
    await driver.end_of(driver.submit(StartOver()))
    await driver.turn("and now?")
    ledger = texts(cast.requests["parent"][-1])[-2]
    assert f"- `{first}`, completed: task open" in ledger
    assert f"- `{second}`, closed: task shut" in ledger
    # Nobody recorded that they ended, as when a process is killed; and yet in another process they are gone.
    copy = await play(Cast(says("ok")), thread=driver.session.thread_id, fork=True)
    assert {agent.state for agent in copy.session.thread.notes.ledger().agents.values()} == {"closed"}


# ---- limits ------------------------------------------------------------------------------------------


async def test_what_a_server_takes_to_compact_a_sub_agent_is_booked_all_the_way_up(play: Any) -> None:
    full = TokenUsage(input_tokens=30_000, total_tokens=30_000)
    step = calls("update_plan", {"plan": []}, "p1", usage=full)
    cast = Cast(spawn("a"), wait_for_all(), says("over"), a=[step, says("never")])
    limits = {"spindle": {"agents": {"max_tokens": 30_500}}, "model_auto_compact_token_limit": 20_000}
    driver = await play(cast, config=limits)
    compacted = Compacted([{"type": "compaction", "encrypted_content": "OPAQUE"}])
    compacted.usage = COST
    driver.model.compactions.append(compacted)
    await driver.turn("go")
    (status,) = outputs(cast.requests["parent"][-1])["wait"]["status"].values()
    assert "max_tokens = 30500 (31000 used) by the sub-agents of this thread" in status["errored"]
    assert driver.session.thread.total_usage.total_tokens == 31_000 + 3 * 110, "and its own three requests"


@pytest.mark.parametrize(
    ("budget", "name"), [({"max_tokens": 2000}, "max_tokens"), ({"max_requests": 2}, "max_requests")]
)
async def test_a_budget_stops_the_whole_subtree(play: Any, budget: dict[str, int], name: str) -> None:
    def plans(call_id: str) -> AnyStep:
        return calls("update_plan", {"plan": []}, call_id, usage=COST)

    cast = Cast(
        spawn("a"),
        wait_for_all(),
        spawn("b"),
        says("out of money", usage=COST),
        a=[plans("p1"), plans("p2"), plans("p3"), says("never")],
        b=[says("never")],
    )
    driver = await play(cast, config={"spindle": {"agents": budget}})
    await driver.turn("go")
    answers = outputs(cast.requests["parent"][-1])
    (status,) = answers["wait"]["status"].values()
    reached = f"Budget reached: {name} = {budget[name]} ({budget[name]} used) by the sub-agents of this thread."
    assert reached in status["errored"]
    assert len(cast.requests["a"]) == 2 and "b" not in cast.requests
    assert reached in answers["spawn-b"]


async def test_what_sub_agents_cost_is_the_parents_cost(play: Any) -> None:
    cast = Cast(
        [spawn("a"), spawn("b")],
        wait_for_all(),
        lambda request: calls("close_agent", {"id": ids(request)[0]}, "close"),
        says("done"),
        a=[says("A", usage=COST)],
        b=[calls("update_plan", {"plan": []}, "p", usage=COST), says("B", usage=COST)],
    )
    driver = await play(cast)
    messages = await driver.turn("go")
    a, b = ids(cast.requests["parent"][-1])
    total = of(messages, TokenCount)[-1].info["total_token_usage"]
    own = 4 * 110
    assert total["total_tokens"] == own + 3 * COST.total_tokens
    assert total["input_tokens"] == 4 * 100 + 3 * COST.input_tokens
    # What stands in the parent's own context is not moved by it.
    assert of(messages, TokenCount)[-1].info["last_token_usage"]["total_tokens"] == 110
    (waited,) = of(messages, CollabWaitingEnd)
    assert {key: usage["total_tokens"] for key, usage in waited.usage.items()} == {a: 1000, b: 2000}
    assert of(messages, CollabCloseEnd)[0].usage["total_tokens"] == 1000


async def test_the_record_counts_what_sub_agents_cost_but_not_their_requests(play: Any) -> None:
    cast = Cast(
        calls("update_plan", {"plan": []}, "p"),
        [spawn("during"), waits(0.5), spawn("after")],  # the first is done while the response still streams
        says("I wait for nobody"),
        during=[says("D", usage=COST)],
        after=[[waits(0.5), says("A", usage=COST)]],
    )
    driver = await play(cast)
    await driver.turn("go")
    while len(wrapped(driver, "task_complete")) < 2:
        await driver.next()
    history = driver.session.thread.history
    counts = [record.payload for record in history.records if b'"token_count"' in record.raw[:40]]
    totals = [count["info"]["total_token_usage"]["total_tokens"] for count in counts]
    assert totals[-2:] == [3 * 110 + COST.total_tokens, 3 * 110 + 2 * COST.total_tokens]
    store = driver.session.store
    report = inspect_thread(store.read(store.get(driver.session.thread_id))).report
    assert len(report.requests) == 3
    await driver.close()
    resumed = await play(Cast(says("ok")), thread=driver.session.thread_id)
    assert resumed.session.thread.total_usage.total_tokens == totals[-1]


async def test_a_sub_agent_has_no_sub_agents_of_its_own(play: Any) -> None:
    cast = Cast(
        spawn("a"),
        wait_for_all(),
        says("done"),
        a=[calls("spawn_agent", {"message": "task deeper"}, "s"), says("alone")],
        deeper=[says("never")],
    )
    driver = await play(cast)
    await driver.turn("go")
    assert "agents.max_depth" in outputs(cast.requests["a"][-1])["s"]
    assert b"spawn_agent" in cast.requests["parent"][0].raw.tools
    assert b"spawn_agent" not in cast.requests["a"][0].raw.tools


async def test_deeper_sub_agents_share_limits_and_are_seen_at_the_top(play: Any) -> None:
    cast = Cast(
        spawn("outer"),
        wait_for_all(),
        says("done"),
        outer=[
            calls("spawn_agent", {"message": "task inner"}, "s1"),
            calls("spawn_agent", {"message": "task inner"}, "s2"),
            wait_for_all(),
            says("O", usage=COST),
        ],
        inner=[calls("exec_command", {"cmd": "touch made"}, "same"), says("I", usage=COST)],
    )
    limits = {"agents": {"max_depth": 2, "max_threads": 2}}
    driver = await play(cast, config=limits, approval="untrusted", sandbox="workspace-write")
    sub_id = driver.begin("go")
    asked = await driver.until(ExecApprovalRequest)
    driver.submit(ExecApproval(id=asked.call_id, decision="approved"))
    messages = await driver.end_of(sub_id)
    assert "agents.max_threads" in outputs(cast.requests["outer"][-1])["s2"]
    (outer,) = ids(cast.requests["parent"][-1])
    (inner,) = ids(cast.requests["outer"][-1])
    assert asked.thread_id == inner
    assert {(msg.thread_id, msg.parent_thread_id) for msg in of(all_messages(driver), CollabAgentEvent)} == {
        (outer, driver.session.thread_id),
        (inner, outer),
    }
    total = of(messages, TokenCount)[-1].info["total_token_usage"]["total_tokens"]
    assert total == 3 * 110 + 3 * 110 + 110 + 2 * COST.total_tokens


# ---- permissions -------------------------------------------------------------------------------------


async def settings_of_child(play: Any, role: dict[str, Any] | None, **how: Any) -> Any:
    cast = Cast(spawn("x", **({"agent_type": "r"} if role else {})), wait_for_all(), says("done"), x=[says("X")])
    driver = await play(cast, config={"agents": {"r": role}} if role else {}, **how)
    await driver.turn("go")
    (child,) = agents_of(driver).sessions.values()
    return child.present_settings


async def test_a_sub_agent_may_do_what_its_parent_may(play: Any) -> None:
    settings = await settings_of_child(play, None, sandbox="workspace-write", approval="untrusted")
    assert (settings.sandbox.mode, settings.approval_policy) == ("workspace-write", "untrusted")


async def test_a_role_can_take_rights_away_but_not_give_any(play: Any) -> None:
    tight = await settings_of_child(play, {"sandbox_mode": "read-only"}, sandbox="workspace-write")
    assert tight.sandbox.mode == "read-only"
    loose = await settings_of_child(play, {"sandbox_mode": "danger-full-access"}, sandbox="read-only")
    assert loose.sandbox.mode == "read-only"


async def test_a_sub_agent_is_told_of_what_it_may_do_no_more(play: Any) -> None:
    cast = Cast(
        spawn("x", agent_type="r"),
        wait_for_all(),
        says("first"),
        lambda request: calls("send_input", {"id": ids(request)[0], "message": "again"}, "send"),
        wait_for_all("wait-2"),
        says("second"),
        x=[says("X"), says("Y")],
    )
    role = {"r": {"sandbox_mode": "danger-full-access"}}
    driver = await play(cast, config={"agents": role}, sandbox="workspace-write")
    await driver.turn("go")
    (configured,) = wrapped(driver, "session_configured")
    assert configured.msg["sandbox_policy"]["type"] == "workspace-write"
    driver.submit(OverrideTurnContext(sandbox_policy="read-only"))
    await driver.turn("go on")
    first, second = (texts(request) for request in cast.requests["x"])
    assert "`workspace-write`" in first[0] and not any("`read-only`" in text for text in first)
    assert "`read-only`" in second[-2] and second[-1] == "again"


async def test_nobody_can_give_a_sub_agent_more_than_it_was_started_with(play: Any) -> None:
    cast = Cast(spawn("x"), wait_for_all(), says("done"), x=[says("X")])
    driver = await play(cast, sandbox="workspace-write", approval="untrusted")
    await driver.turn("go")
    (child,) = agents_of(driver).sessions.values()
    wide = OverrideTurnContext(sandbox_policy="danger-full-access", approval_policy="never")
    driver.submit(wide)
    child.submit(Submission("", wide))
    await driver.session.settle()
    await child.settle()
    settings = child.present_settings
    assert (settings.sandbox.mode, settings.approval_policy) == ("workspace-write", "untrusted")


async def test_rules_that_were_written_meanwhile_are_none_for_a_sub_agent(play: Any, tmp_path: Path) -> None:
    def writes_a_rule(_: Asked) -> AnyStep:
        folder = tmp_path / "codex-home" / "rules"
        folder.mkdir()
        (folder / "default.rules").write_text('prefix_rule(pattern = ["touch"], decision = "allow")\n')
        return calls("exec_command", {"cmd": "touch made"}, "c")

    cast = Cast(spawn("x"), wait_for_all(), says("done"), x=[writes_a_rule, says("X")])
    driver = await play(cast, sandbox="workspace-write", approval="untrusted")
    sub_id = driver.begin("go")
    asked = await driver.until(ExecApprovalRequest)
    driver.submit(ExecApproval(id=asked.call_id, decision="denied"))
    await driver.end_of(sub_id)


async def test_who_only_plans_has_nothing_changed_by_others(play: Any) -> None:
    cast = Cast(spawn("x"), wait_for_all(), says("done"), x=[says("X")])
    driver = await play(cast, sandbox="workspace-write")
    await driver.turn("go", collaboration_mode={"mode": "plan"})
    (child,) = agents_of(driver).sessions.values()
    settings = child.present_settings
    assert (settings.sandbox.mode, settings.collaboration_mode.mode) == ("read-only", "default")
    assert not any("<proposed_plan>" in text for text in texts(cast.requests["x"][0]))


async def test_a_sub_agent_follows_when_its_parents_rights_are_taken_away(play: Any, workspace: Path) -> None:
    def writes(call_id: str) -> AnyStep:
        return calls("exec_command", {"cmd": f"echo x > {call_id}"}, call_id)

    cast = Cast(
        spawn("w"),
        says("I leave it to it"),
        w=[writes("before"), [waits(0.5), writes("after")], says("done")],
    )
    driver = await play(cast, sandbox="workspace-write")
    await driver.turn("go")
    while not wrapped(driver, "exec_command_end"):
        await driver.next()
    driver.submit(OverrideTurnContext(sandbox_policy="read-only"))
    while not wrapped(driver, "task_complete"):
        await driver.next()
    assert [msg.msg["exit_code"] == 0 for msg in wrapped(driver, "exec_command_end")] == [True, False]
    assert [path.name for path in workspace.iterdir() if path.name != ".git"] == ["before"]
    (child,) = agents_of(driver).sessions.values()
    # And it does not get back what its parent gets back: it was told the stricter rules.
    driver.submit(OverrideTurnContext(sandbox_policy="danger-full-access", approval_policy="never"))
    await driver.session.settle()
    assert child.present_settings.sandbox.mode == "workspace-write"


ADD = "*** Begin Patch\n*** Add File: n.txt\n+x\n*** End Patch\n"


async def test_questions_of_sub_agents_are_put_to_the_parents_client(play: Any, workspace: Path) -> None:
    asks = [calls("exec_command", {"cmd": "touch made"}, "same-id"), says("done")]
    cast = Cast(
        [spawn("one"), spawn("two"), spawn("three")],
        wait_for_all(),
        says("done"),
        one=list(asks),
        two=list(asks),
        three=[patches(ADD, "same-id"), says("done")],
    )
    driver = await play(cast, sandbox="workspace-write", approval="untrusted")
    sub_id = driver.begin("go")
    asked: dict[str | None, Any] = {}
    while len(asked) < 3:
        event = await driver.next()
        if isinstance(event.msg, ExecApprovalRequest | ApplyPatchApprovalRequest):
            assert event.id == event.msg.call_id  # either names the one question
            asked[event.msg.thread_id] = event.msg
    one, two, three = ids(cast.requests["parent"][-1])
    assert set(asked) == {one, two, three}
    # The model knows its sub-agents' ids and chooses call ids: it could make one that means another question.
    assert asked[one].call_id.startswith(one) and asked[one].call_id != f"{one}:same-id"
    driver.submit(ExecApproval(id=asked[one].call_id, decision="denied"))
    driver.submit(ExecApproval(id=asked[two].call_id, decision="approved"))
    driver.submit(PatchApproval(id=asked[three].call_id, decision="denied"))
    await driver.end_of(sub_id)
    assert (workspace / "made").exists() and not (workspace / "n.txt").exists()
    assert "rejected" in str(outputs(cast.requests["one"][-1])["same-id"])
    assert "rejected" not in str(outputs(cast.requests["two"][-1])["same-id"])
    assert agents_of(driver).answer("exec", asked[two].call_id, "approved") is False


# ---- events, record, roles ---------------------------------------------------------------------------


async def test_events_say_which_thread_they_are_about(play: Any) -> None:
    cast = Cast(spawn("x"), wait_for_all(), says("done"), x=[calls("update_plan", {"plan": []}, "p"), says("X")])
    driver = await play(cast)
    messages = await driver.turn("go")
    (agent_id,) = ids(cast.requests["parent"][-1])
    parent = driver.session.thread_id
    assert of(messages, CollabAgentSpawnBegin)[0].sender_thread_id == parent
    assert of(messages, CollabAgentSpawnEnd)[0].new_thread_id == agent_id
    assert of(messages, CollabWaitingEnd)[0].statuses == {agent_id: {"completed": "X"}}
    seen = of(all_messages(driver), CollabAgentEvent)
    assert {(msg.thread_id, msg.parent_thread_id) for msg in seen} == {(agent_id, parent)}
    assert all(event.id == "" for event in driver.events if isinstance(event.msg, CollabAgentEvent))
    kinds = [msg.msg["type"] for msg in seen]
    assert kinds[0] == "session_configured" and kinds[-1] == "task_complete"
    assert {"task_started", "user_message", "plan_update", "agent_message", "token_count"} <= set(kinds)
    assert not [kind for kind in kinds if kind.endswith("_delta")]
    # The turn of the parent has one end, its own.
    assert len(of(messages, TaskComplete)) == 1


async def test_the_record_of_a_sub_agent_names_its_parent(play: Any) -> None:
    cast = Cast(spawn("x", agent_type="scout"), wait_for_all(), says("done"), x=[says("X")])
    driver = await play(cast, config={"agents": {"scout": {"description": "looks"}}})
    await driver.turn("go")
    (child,) = agents_of(driver).sessions.values()
    lines = [json.loads(line) for line in Path(child.thread.history.writer.path).read_text().splitlines()]
    meta = lines[0]["payload"]
    assert meta["id"] == child.thread_id and "forked_from_id" not in meta
    spawned = {"parent_thread_id": driver.session.thread_id, "depth": 1, "agent_role": "scout"}
    assert meta["source"] == {"subagent": {"thread_spawn": spawned}}
    # The threads of a folder are those that a person talked to.
    store = driver.session.store
    newest = store.latest(str(meta["cwd"]), None)
    assert newest is not None and newest.id == driver.session.thread_id
    assert [thread.id for thread in store.list(ThreadFilter(subagents=False)).threads] == [driver.session.thread_id]
    assert [thread.id for thread in store.list(ThreadFilter(sources=["subagent"])).threads] == [child.thread_id]


async def test_a_role_decides_what_a_sub_agent_is_told_and_who_it_is(play: Any, tmp_path: Path) -> None:
    (tmp_path / "scout.toml").write_text('developer_instructions = "ROLE-TEXT"\nmodel = "gpt-5.2"\n')
    scout = {"description": "ROLE-DESCRIPTION", "config_file": str(tmp_path / "scout.toml")}
    cast = Cast(spawn("x", agent_type="scout"), wait_for_all(), says("done"), x=[says("X")])
    driver = await play(cast, config={"developer_instructions": "MY-RULE", "agents": {"scout": scout}})
    await driver.turn("go")
    assert b"ROLE-DESCRIPTION" in cast.requests["parent"][0].raw.tools
    (child,) = cast.requests["x"]
    told = next(text for text in texts(child) if "MY-RULE" in text)
    assert "ROLE-TEXT" in told and "sub-agent" in told
    assert child.model == "gpt-5.2" != cast.requests["parent"][0].model
    assert not any("ROLE-TEXT" in text for text in texts(cast.requests["parent"][0]))


# ---- hooks -------------------------------------------------------------------------------------------


async def test_hooks_hear_of_a_sub_agent_and_of_what_it_does(play: Any, workspace: Path, tmp_path: Path) -> None:
    """Its start and end have events of their own; what it is told is no prompt of a person."""
    events = ("SessionStart", "UserPromptSubmit", "PreToolUse", "Stop", "SubagentStart", "SubagentStop", "SessionEnd")
    log = workspace / "log"
    note = f"told=$(cat); printf '%s\\n' \"$told\" >> {log}"
    handler = {"type": "command", "command": note, "timeout": 3}
    table = {event: [{"hooks": [handler]}] for event in events}
    (tmp_path / "codex-home/hooks.json").write_text(json.dumps({"hooks": table}))
    cast = Cast(
        spawn("look"),
        wait_for_all(),
        says("all done"),
        look=[calls("exec_command", {"cmd": "true"}, "k1"), says("FOUND-IT")],
    )
    driver = await play(cast)
    await driver.turn("go")
    (agent_id,) = ids(cast.requests["parent"][1])
    own = agents_of(driver).sessions[agent_id].thread.history.writer.path
    await driver.close()
    told = [json.loads(line) for line in log.read_text().splitlines()]
    assert {entry["session_id"] for entry in told} == {driver.session.thread_id}
    its = [entry for entry in told if entry.get("agent_id") == agent_id]
    assert [(entry["hook_event_name"], entry["agent_type"]) for entry in its] == [
        *[("SubagentStart", "default"), ("PreToolUse", "default"), ("SubagentStop", "default")]
    ]
    assert [entry["transcript_path"] for entry in its] == [own, own, told[0]["transcript_path"]]
    assert (its[-1]["agent_transcript_path"], its[-1]["last_assistant_message"]) == (own, "FOUND-IT")
    others = [entry["hook_event_name"] for entry in told if "agent_id" not in entry]
    assert others == ["SessionStart", "UserPromptSubmit", "PreToolUse", "PreToolUse", "Stop", "SessionEnd"]


# ---- undo --------------------------------------------------------------------------------------------


async def test_what_a_sub_agent_does_to_files_is_undone_with_the_parents_turn(play: Any, workspace: Path) -> None:
    cast = Cast(
        spawn("work"),
        wait_for_all(),
        says("all done"),
        work=[calls("exec_command", {"cmd": "echo agent > agent.txt"}, "c1"), says("made it")],
    )
    driver = await play(cast)
    await driver.turn("delegate")
    assert (workspace / "agent.txt").read_text() == "agent\n"
    told = await driver.until(UndoCompleted, sub_id=driver.submit(Undo()))
    assert [Path(one["path"]).name for one in told.report["restored"]] == ["agent.txt"]
    assert not (workspace / "agent.txt").exists()
