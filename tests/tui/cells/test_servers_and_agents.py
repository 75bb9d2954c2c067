"""MCP servers and sub-agents."""

from __future__ import annotations

from typing import Any

import msgspec

from spindle.protocol import agent_events as v1a
from spindle.protocol.events import Duration, Warning
from spindle.protocol.tool_servers import McpStartupComplete, McpStartupUpdate, McpToolCallBegin, McpToolCallEnd
from tui.cells.told import Told, shell

CALLED = {"server": "files", "tool": "search", "arguments": {"q": "needle", "limit": 3}}


def answered(result: dict[str, Any]) -> McpToolCallEnd:
    return McpToolCallEnd(call_id="c1", invocation=CALLED, duration=Duration.of(1.5), result=result)


def text_result(text: str, **fields: Any) -> dict[str, Any]:
    return {"Ok": {"content": [{"type": "text", "text": text}], **fields}}


def test_a_call_shows_server_tool_arguments_and_the_result() -> None:
    told = Told()
    told.take(McpToolCallBegin(call_id="c1", invocation=CALLED))
    assert told.live() == ['• Calling files.search({"q":"needle","limit":3})']
    shown = told.take(answered(text_result("".join(f"hit {number}\n" for number in range(20)))))
    assert shown == [
        '• Called files.search({"q":"needle","limit":3}) (1.5s)',
        "  └ hit 0",
        "    hit 1",
        "    … +16 lines",
        "    hit 18",
        "    hit 19",
    ]
    assert told.live() == []
    assert len(told.whole()) == 21


def test_a_call_that_failed_says_so_in_words() -> None:
    assert Told().take(answered({"Err": "the server is gone"})) == [
        '✗ Called files.search({"q":"needle","limit":3}) (failed, 1.5s)',
        "  └ the server is gone",
    ]
    assert "(failed, 1.5s)" in Told().take(answered(text_result("no such file", isError=True)))[0]


def test_a_server_that_cannot_be_started_is_one_warning() -> None:
    told = Told()
    told.take(McpStartupUpdate(server="good", status={"state": "starting"}))
    shown = told.take(
        McpStartupUpdate(server="brokensrv", status={"state": "failed", "error": "no such program: xyz"}),
        Warning(message="MCP server brokensrv is missing: no such program: xyz"),  # as the session tells it
    )
    assert shown == ["⚠ MCP server brokensrv is missing: no such program: xyz"]
    failed = [{"server": "brokensrv", "error": "no such program: xyz"}]
    assert told.take(McpStartupComplete(ready=["good"], failed=failed, cancelled=[])) == []
    told.take(McpStartupUpdate(server="good", status={"state": "ready"}))
    assert told.conversation.servers == {"good": "ready", "brokensrv": "failed: no such program: xyz"}


def test_the_status_row_names_servers_that_are_being_started() -> None:
    told = Told()
    told.begin_turn()
    told.take(McpStartupUpdate(server="files", status={"state": "starting"}))
    assert told.doing() == "Starting 1 MCP server: files"
    told.take(McpStartupUpdate(server="files", status={"state": "ready"}))
    assert told.doing() == "Working"


# ---- sub-agents ----------------------------------------------------------------------------------


def spawned(new: str, prompt: str, sender: str = "main") -> v1a.CollabAgentSpawnEnd:
    return v1a.CollabAgentSpawnEnd(
        call_id="c", sender_thread_id=sender, new_thread_id=new, prompt=prompt, status="running"
    )


def did(thread_id: str, parent: str = "main", **msg: Any) -> v1a.CollabAgentEvent:
    return v1a.CollabAgentEvent(thread_id=thread_id, parent_thread_id=parent, agent_type="explorer", msg=msg)


def spent(total: int) -> dict[str, Any]:
    return {"total_token_usage": {"input_tokens": total, "total_tokens": total}}


def test_sub_agents_are_a_tree_with_state_time_tokens_and_cost() -> None:
    told = Told(cost=lambda usage: usage.total_tokens / 100_000)
    told.begin_turn()
    assert told.take(spawned("a1", "look\nhere")) == ["• Agent 1 started: look here"]
    told.take(spawned("a2", "look there"), did("a1", type="task_started"))
    told.take(spawned("a3", "deeper", sender="a1"))
    told.take(did("a1", type="exec_command_begin", command=shell("rg needle")))
    told.take(did("a1", type="token_count", info=spent(3400)))
    told.clock.advance(12)
    told.take(did("a2", type="token_count", info=spent(500)))
    assert told.take(did("a2", type="task_complete", last_agent_message="found it")) == [
        "• Agent 2 (explorer) finished (12s · 500 tokens · $0.005): found it"
    ]
    assert told.live() == [
        "• Agents (2 running)",
        "  ├ Agent 1 (explorer): running · 12s · 3,400 tokens · $0.034 · rg needle",
        "  │ └ Agent 3: running · 12s · deeper",
        "  └ Agent 2 (explorer): done · 12s · 500 tokens · $0.005 · look there",
    ]
    assert [(seen.thread_id, seen.state, seen.tokens) for seen in told.conversation.agents] == [
        ("a1", "running", 3400),
        ("a2", "done", 500),
        ("a3", "running", 0),
    ]


def test_waiting_for_agents_is_on_the_status_row() -> None:
    told = Told()
    told.begin_turn()
    told.take(spawned("a1", "look"), spawned("a2", "look"))
    told.take(v1a.CollabWaitingBegin(call_id="w", sender_thread_id="main", receiver_thread_ids=["a1", "a2"]))
    assert told.doing() == "Waiting for 2 agents"
    statuses: dict[str, v1a.Status] = {"a1": {"completed": "yes"}, "a2": {"errored": "no"}}
    told.take(v1a.CollabWaitingEnd(call_id="w", sender_thread_id="main", statuses=statuses))
    assert told.doing() == "Working"
    assert told.live() == []
    assert [seen.state for seen in told.conversation.agents] == ["done", "failed"]


def test_what_happens_to_an_agent_is_a_line() -> None:
    told = Told()
    told.take(spawned("a1", "look"))
    assert told.take(did("a1", type="error", message="no model")) == ["• Agent 1 (explorer) failed: no model"]
    assert told.take(did("a1", type="task_complete", last_agent_message=None)) == []
    known = {"call_id": "i", "sender_thread_id": "main", "receiver_thread_id": "a1"}
    told_more = v1a.CollabAgentInteractionEnd(prompt="try again", status="running", **known)
    assert told.take(told_more) == ["• Agent 1 (explorer) is told: try again"]
    assert told.take(did("a1", type="turn_aborted")) == ["• Agent 1 (explorer) was stopped"]
    closed = v1a.CollabCloseEnd(status="shutdown", usage={"total_tokens": 70}, **known)
    assert told.take(closed) == ["• Agent 1 (explorer) closed (0s · 70 tokens)"]
    failed = msgspec.structs.replace(spawned("a2", "x"), new_thread_id=None, status={"errored": "too many"})
    assert told.take(failed) == ["• No agent started: too many"]
    assert told.conversation.agents.name_of("a1") == "Agent 1 (explorer)"
