"""Items of calls to MCP servers (`mcp_tool_call`) and of sub-agent tools (`collab_tool_call`). Pure.

Loaded with the first such call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spindle.protocol.agent_events import (
    CollabAgentInteractionBegin,
    CollabAgentInteractionEnd,
    CollabAgentSpawnBegin,
    CollabAgentSpawnEnd,
    CollabCloseBegin,
    CollabCloseEnd,
    CollabWaitingBegin,
    CollabWaitingEnd,
    Status,
)
from spindle.protocol.events import Msg
from spindle.protocol.python_tools import PythonToolCallBegin, PythonToolCallEnd, PythonToolCallProgress
from spindle.protocol.tool_servers import McpToolCallBegin, McpToolCallEnd

_FAILED = ("errored", "not_found")

Step = tuple[str, dict[str, Any]]


def server_call_step(msg: Msg, number: Callable[[str], str]) -> Step:
    """A call to a server begins, or is over."""
    assert isinstance(msg, McpToolCallBegin | McpToolCallEnd)
    item: dict[str, Any] = {"id": number(msg.call_id), "type": "mcp_tool_call", **msg.invocation}
    if isinstance(msg, McpToolCallBegin):
        return "item.started", {**item, "result": None, "error": None, "status": "in_progress"}
    answer = msg.result.get("Ok")
    if answer is None:
        error = {"message": msg.result.get("Err", "")}
        return "item.completed", {**item, "result": None, "error": error, "status": "failed"}
    result = {"content": answer.get("content") or [], "structured_content": answer.get("structuredContent")}
    status = "failed" if answer.get("isError") is True else "completed"
    return "item.completed", {**item, "result": result, "error": None, "status": status}


def agent_call_step(msg: Msg, item_id: Callable[[str], str]) -> Step | None:
    """A call of a sub-agent tool begins, or is over; None for events of the sub-agents themselves."""
    match msg:
        case CollabAgentSpawnBegin():
            return _started("spawn_agent", msg, [], msg.prompt, item_id)
        case CollabAgentSpawnEnd(new_thread_id=new, status=status):
            states = {new: status} if new is not None else {}
            return _completed("spawn_agent", msg, list(states), msg.prompt, states, item_id, is_failed=new is None)
        case CollabAgentInteractionBegin(receiver_thread_id=receiver):
            return _started("send_input", msg, [receiver], msg.prompt, item_id)
        case CollabAgentInteractionEnd(receiver_thread_id=receiver, status=status):
            return _completed("send_input", msg, [receiver], msg.prompt, {receiver: status}, item_id)
        case CollabWaitingBegin(receiver_thread_ids=receivers):
            return _started("wait", msg, receivers, None, item_id)
        case CollabWaitingEnd(statuses=statuses):
            return _completed("wait", msg, list(statuses), None, statuses, item_id)
        case CollabCloseBegin(receiver_thread_id=receiver):
            return _started("close_agent", msg, [receiver], None, item_id)
        case CollabCloseEnd(receiver_thread_id=receiver, status=status):
            return _completed("close_agent", msg, [receiver], None, {receiver: status}, item_id)
        case _:
            return None


def _started(tool: str, msg: Any, receivers: list[str], prompt: str | None, item_id: Callable[[str], str]) -> Step:
    return "item.started", _item(tool, msg, receivers, prompt, {}, "in_progress", item_id)


def _completed(
    tool: str,
    msg: Any,
    receivers: list[str],
    prompt: str | None,
    states: dict[str, Status],
    item_id: Callable[[str], str],
    *,
    is_failed: bool = False,
) -> Step:
    shown = {agent_id: _state(status) for agent_id, status in states.items()}
    is_failed = is_failed or any(state["status"] in _FAILED for state in shown.values())
    outcome = "failed" if is_failed else "completed"
    return "item.completed", _item(tool, msg, receivers, prompt, shown, outcome, item_id)


def _item(
    tool: str,
    msg: Any,
    receivers: list[str],
    prompt: str | None,
    states: dict[str, Any],
    status: str,
    item_id: Callable[[str], str],
) -> dict[str, Any]:
    return {
        "id": item_id(msg.call_id),
        "type": "collab_tool_call",
        "tool": tool,
        "sender_thread_id": msg.sender_thread_id,
        "receiver_thread_ids": receivers,
        "prompt": prompt,
        "agents_states": states,
        "status": status,
    }


def _state(status: Status) -> dict[str, str | None]:
    if isinstance(status, dict):
        name, text = next(iter(status.items()))
        return {"status": name, "message": text}
    return {"status": status, "message": None}


def function_call_step(msg: Msg, number: Callable[[str], str], begun: dict[str, dict[str, Any]]) -> Step:
    """A call of a Python function begins, says how far it is, or is over. `begun` keeps those that run."""
    match msg:
        case PythonToolCallBegin(call_id=call_id, tool=tool, arguments=arguments):
            item = {"id": number(call_id), "type": "python_tool_call", "tool": tool, "arguments": arguments}
            begun[call_id] = {**item, "status": "in_progress", "result": None, "error": None, "duration_ms": None}
            return "item.started", begun[call_id]
        case PythonToolCallProgress(call_id=call_id, text=text):
            return "item.updated", {**begun[call_id], "result": text}
        case PythonToolCallEnd(call_id=call_id):
            status = "completed" if msg.success else "failed"
            ended = {"status": status, "result": msg.result, "error": msg.error, "duration_ms": msg.duration_ms}
            return "item.completed", {**begun.pop(call_id), **ended}
        case _:
            raise AssertionError(f"no event of a function: {msg}")
