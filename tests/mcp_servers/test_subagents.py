"""Sub-agents use the servers of the session that a person opened, and may do no more with them than themselves."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from installed import wait_for
from mcp_servers.kit import of_servers, received, servers, stub
from mcp_servers.test_questions import REFUSED, answer, asked
from sessions import Driver, Start, outputs
from spindle.features.servers import Servers
from spindle.model.scripted import calls, says, waits
from spindle.protocol.ops import RefreshMcpServers
from spindle.protocol.tool_servers import ElicitationRequest, McpToolCallBegin

TASK = "the sub-task"


def is_of_agent(request: Any) -> bool:
    return TASK in (texts := b"".join(request.raw.input).decode()) and "spawn_agent" not in texts


def play(driver: Driver, *, role: str | None = None, tool: str = "mcp__tiny__a") -> list[Any]:
    """The model uses the tool, starts a sub-agent that uses it too, and waits; gives the requests of the sub-agent."""
    of_agent: list[Any] = []

    def step(request: Any) -> Any:
        items = request.input
        done = {item["call_id"]: item["output"] for item in items if item["type"] == "function_call_output"}
        if is_of_agent(request):
            of_agent.append(request)
            return says("found") if "c2" in done else calls(tool, {"text": "sub"}, "c2")
        if "c1" not in done:
            return calls(tool, {"text": "parent"}, "c1")
        if "s1" not in done:
            return calls("spawn_agent", {"message": TASK, **({"agent_type": role} if role else {})}, "s1")
        if "w1" not in done:
            return calls("wait", {"ids": [json.loads(done["s1"])["agent_id"]]}, "w1")
        return says("ok")

    driver.model.script(*[step] * 6)
    return of_agent


def told_agent(of_agent: list[Any]) -> str:
    items = of_agent[-1].input
    return next(item["output"] for item in items if item["type"] == "function_call_output")


def called(log: Path) -> list[str]:
    return [m["params"]["arguments"]["text"] for m in received(log) if m.get("method") == "tools/call"]


async def test_one_server_serves_all_and_each_question_is_for_who_asks(start: Start, tmp_path: Path) -> None:
    log = tmp_path / "log"
    entry = stub({"tools": ["a"], "read_only": False, "log": str(log)})
    config = {**servers(tiny=entry), "features": {"collab": True}}
    driver = await start(approval="on-request", sandbox="read-only", config=config)
    play(driver)
    sub_id = driver.begin("hello")
    request = await asked(driver)
    assert request.thread_id is None
    answer(driver, request, "approved_for_session")
    # What the person allowed the parent for its session is not allowed to the sub-agent.
    request = await asked(driver)
    assert request.thread_id is not None and request.invocation is not None
    answer(driver, request, "accept")
    await driver.end_of(sub_id)
    assert "found" in outputs(driver.inputs[-1])["w1"]
    assert [m.get("method") for m in received(log)].count("initialize") == 1 and called(log) == ["parent", "sub"]
    begun = [event.msg for event in driver.events if isinstance(event.msg, McpToolCallBegin)]
    assert [msg.invocation["arguments"] for msg in begun] == [{"text": "parent"}]


async def test_a_sub_agent_that_may_only_read_cannot_do_what_its_parent_can(start: Start, tmp_path: Path) -> None:
    log = tmp_path / "log"
    entry = stub({"tools": ["a"], "read_only": False, "log": str(log)})
    roles = {"reader": {"description": "looks", "sandbox_mode": "read-only"}}
    config = {**servers(tiny=entry), "agents": roles}
    driver = await start(approval="never", sandbox="danger-full-access", config=config)
    of_agent = play(driver, role="reader")
    await driver.turn("hello")
    assert outputs(driver.inputs[-1])["c1"].endswith('a:{"text": "parent"}')
    assert told_agent(of_agent) == REFUSED and called(log) == ["parent"]
    assert not [event for event in driver.events if isinstance(event.msg, ElicitationRequest)]


async def test_the_end_of_a_sub_agent_ends_no_server(start: Start, tmp_path: Path) -> None:
    log = tmp_path / "log"
    config = {**servers(tiny=stub({"tools": ["a"], "log": str(log)})), "features": {"collab": True}}
    driver = await start(config=config)
    play(driver)
    await driver.turn("hello")
    agent = json.loads(outputs(driver.inputs[-1])["s1"])["agent_id"]
    await driver.turn(
        "again", calls("close_agent", {"id": agent}, "e1"), calls("mcp__tiny__a", {"text": "after"}, "c3"), says("ok")
    )
    assert outputs(driver.inputs[-1])["c3"].endswith('a:{"text": "after"}')
    assert [m.get("method") for m in received(log)].count("initialize") == 1


async def test_a_sub_agent_gets_the_servers_that_were_added_later(start: Start) -> None:
    driver = await start(config={"features": {"collab": True}})
    await driver.turn("hello", says("hi"))
    driver.submit(RefreshMcpServers(config={"tiny": stub({"tools": ["a"]})}))
    of_agent = play(driver)
    await driver.turn("go on")
    assert of_servers(of_agent[0]) == ["mcp__tiny__a"]
    assert told_agent(of_agent).endswith('a:{"text": "sub"}')


async def test_a_refresh_under_a_sub_agent_at_work_costs_it_its_calls_and_nothing_else(
    start: Start, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    entry = stub({"tools": ["a", "b"], "wait_on": "a", "log": str(log)})
    driver = await start(config={**servers(tiny=entry), "features": {"collab": True}})
    of_agent: list[Any] = []

    def step(request: Any) -> Any:
        items = request.input
        done = {item["call_id"]: item["output"] for item in items if item["type"] == "function_call_output"}
        if is_of_agent(request):
            of_agent.append(done)
            (own,) = (feature for feature in driver.session.features if isinstance(feature, Servers))
            if "a" in done and own.pool.specs:
                # The refresh is not over yet.
                return [waits(0.05), calls("update_plan", {"plan": []}, f"p{len(of_agent)}")]
            tool = next((tool for tool in "ab" if tool not in done), None)
            return calls(f"mcp__tiny__{tool}", {"text": ""}, tool) if tool else says("found")
        if "s1" not in done:
            return calls("spawn_agent", {"message": TASK}, "s1")
        if "again" in json.dumps(items) and "w1" not in done:
            return calls("wait", {"ids": [json.loads(done["s1"])["agent_id"]]}, "w1")
        return says("ok")

    driver.model.script(*[step] * 500)
    await driver.turn("hello")
    await asyncio.to_thread(wait_for, lambda: b"tools/call" in log.read_bytes(), "the sub-agent has not begun")
    driver.submit(RefreshMcpServers(config={}))
    await driver.turn("again")
    assert "found" in outputs(driver.inputs[-1])["w1"]
    assert {call: output for call, output in of_agent[-1].items() if call in "ab"} == {
        "a": 'err: "the connection was closed"',
        "b": "err: \"there is no MCP server 'tiny'; there are: none\"",
    }
