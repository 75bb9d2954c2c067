"""When the tools of a conversation change, and when they do not; what a change costs is said before it is made."""

from __future__ import annotations

from typing import Any

from mcp_servers.kit import of_servers, servers, stub
from mcp_servers.test_servers import warnings
from sessions import Start, outputs
from spindle.model.scripted import calls, says
from spindle.protocol.events import AgentMessage, Warning
from spindle.protocol.ops import GoalSet, RefreshMcpServers
from spindle.protocol.request import TokenUsage


def names(tools: list[dict[str, Any]]) -> list[str]:
    return [tool["name"] for tool in tools if "name" in tool]


async def test_a_changed_list_is_told_and_recorded_and_taken_over_only_by_a_refresh(start: Start) -> None:
    driver = await start(
        calls("mcp__tiny__a", {"text": ""}, "c1"),
        calls("mcp__tiny__a", {"text": ""}, "c2"),
        says("done"),
        config=servers(tiny=stub({"tools": ["a"], "change_on": "a"})),
    )
    await driver.turn("hello")
    [told] = warnings(driver)
    assert told.startswith("MCP server tiny has other tools by now; this conversation keeps those it began with")
    assert len({request.raw.tools for request in driver.model.requests}) == 1
    recorded = [record.payload for record in driver.session.thread.history.records if record.kind == "spindle_mcp"]
    assert recorded == [{"server": "tiny", "event": "list_changed"}]

    driver.submit(RefreshMcpServers(config={"mcp_servers": {"tiny": stub({"tools": ["a", "later"]})}}))
    await driver.turn("again", says("yes"))
    assert of_servers(driver.model.requests[-1]) == ["mcp__tiny__a", "mcp__tiny__later"]
    entry = driver.session.thread.cache.ledger.entries[-1]
    assert entry.causes == ("tools_changed",) and not entry.is_alarm


async def test_a_refresh_during_a_turn_waits_for_the_next_one(start: Start) -> None:
    driver = await start(config=servers(tiny=stub({"tools": ["a"]})))

    def refresh(_: Any) -> Any:
        driver.submit(RefreshMcpServers(config={"tiny": stub({"tools": ["b"]})}))
        return calls("mcp__tiny__a", {"text": ""}, "c1")

    await driver.turn("hello", refresh, says("one"))
    await driver.turn("again", says("two"))
    assert [of_servers(request) for request in driver.model.requests] == [
        ["mcp__tiny__a"],
        ["mcp__tiny__a"],
        ["mcp__tiny__b"],
    ]
    assert outputs(driver.inputs[-1])["c1"].endswith('a:{"text": ""}')


async def test_servers_can_be_added_to_a_session_that_had_none(start: Start) -> None:
    driver = await start(says("one"))
    await driver.turn("hello")
    driver.submit(RefreshMcpServers(config={"tiny": stub({"tools": ["b"]})}))
    await driver.turn("again", says("two"))
    assert of_servers(driver.model.requests[-1]) == ["mcp__tiny__b"]
    entry = driver.session.thread.cache.ledger.entries[-1]
    assert entry.causes == ("tools_changed",) and not entry.is_alarm


async def test_what_another_list_costs_is_said_before_anybody_takes_it_and_before_it_is_paid(start: Start) -> None:
    driver = await start(config=servers(tiny=stub({"tools": ["a"], "change_on": "a"})))
    usage = TokenUsage(input_tokens=90_000, total_tokens=90_005)
    await driver.turn("hello", says("one", usage=usage))
    await driver.turn("go on", calls("mcp__tiny__a", {"text": ""}, "c1", usage=usage), says("two", usage=usage))
    while len(warnings(driver)) < 2:  # a server's word may come after the turn
        await driver.until(Warning)
    changed, cost = warnings(driver)
    assert "has other tools by now" in changed and cost.startswith("Another list of tools means that about ")

    driver.submit(RefreshMcpServers(config={"tiny": stub({"tools": ["a"]})}))
    await driver.turn("the same tools", says("three", usage=usage))
    assert len(warnings(driver)) == 2

    driver.submit(RefreshMcpServers(config={"tiny": stub({"tools": ["b"]})}))
    await driver.turn("other tools", says("four"))
    [told] = warnings(driver)[2:]
    assert told.startswith("Another list of tools means that about ")
    msgs = [event.msg for event in driver.events]
    answered = next(at for at, msg in enumerate(msgs) if isinstance(msg, AgentMessage) and msg.message == "four")
    assert msgs.index(Warning(message=told)) < answered


async def test_a_server_that_comes_back_with_other_descriptions_is_told_of_and_nothing_changes(
    start: Start, tmp_path: Any
) -> None:
    """The person agreed to the tools as they were described first."""
    once = tmp_path / "once"
    entry = stub({"tools": ["a", "b"], "die_on": "a", "describe_once": str(once)})
    driver = await start(
        calls("mcp__tiny__a", {}, "c1"), calls("mcp__tiny__b", {}, "c2"), says("done"), config=servers(tiny=entry)
    )
    await driver.turn("hello")
    assert outputs(driver.inputs[-1])["c2"].endswith("b:{}")
    [told] = warnings(driver)
    assert told.startswith("MCP server tiny has other tools by now")
    assert len({request.raw.tools for request in driver.model.requests}) == 1
    [tool] = [t for t in driver.model.requests[-1].tools if t.get("name") == "mcp__tiny__b"]
    assert tool["description"] == "does b"


async def test_the_tools_of_a_goal_stay_behind_those_of_servers_that_are_started_anew(start: Start) -> None:
    driver = await start(says("one"), config=servers(tiny=stub({"tools": ["a"]})))
    driver.submit(GoalSet(objective="x", status="paused"))
    await driver.turn("hello")
    assert names(driver.model.requests[-1].tools)[-4:] == ["mcp__tiny__a", "get_goal", "create_goal", "update_goal"]
    driver.submit(RefreshMcpServers(config={"tiny": stub({"tools": ["a"]})}))
    await driver.turn("the same tools", says("two"))
    assert len({request.raw.tools for request in driver.model.requests}) == 1
    driver.submit(RefreshMcpServers(config={"tiny": stub({"tools": ["b"]})}))
    await driver.turn("other tools", says("three"))
    assert names(driver.model.requests[-1].tools)[-4:] == ["mcp__tiny__b", "get_goal", "create_goal", "update_goal"]
