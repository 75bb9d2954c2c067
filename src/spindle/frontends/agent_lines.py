"""What front ends show of sub-agents: `collab_tool_call` items for machines, a line each for people. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spindle.protocol.agent_events import (
    CollabAgentEvent,
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
from spindle.protocol.quote import readable, shell_join, visible

_FAILED = ("errored", "not_found")
_SHOWN_CHARACTERS = 200


def tool_call_line(msg: Msg, item_id: Callable[[str], str]) -> dict[str, Any] | None:
    """The JSON line for a call of a sub-agent tool; None for events of the sub-agents themselves."""
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


def agent_text(msg: Msg) -> str:
    """What a person reads of it, in a line; "" for most of what sub-agents do."""
    match msg:
        case CollabAgentSpawnEnd(new_thread_id=str(new), prompt=prompt):
            return f"agent {new} started: {_short(prompt)}"
        case CollabAgentSpawnEnd(status={"errored": str(reason)}):
            return f"no agent started: {_short(reason)}"
        case CollabAgentInteractionBegin(receiver_thread_id=receiver, prompt=prompt):
            return f"agent {visible(receiver)} is told: {_short(prompt)}"
        case CollabAgentEvent(thread_id=thread_id, msg={"type": "exec_command_begin", "command": [*command]}):
            return f"agent {thread_id} runs {_short(shell_join([str(word) for word in command]))}"
        case CollabAgentEvent(thread_id=thread_id, msg={"type": "warning" | "error" as kind, "message": str(text)}):
            return f"agent {thread_id} {kind}: {_short(text)}"
        case CollabAgentEvent(thread_id=thread_id, msg={"type": "task_complete", "last_agent_message": str(text)}):
            return f"agent {thread_id} finished: {_short(text)}"
        case CollabAgentEvent(thread_id=thread_id, msg={"type": "turn_aborted"}):
            return f"agent {thread_id} was stopped"
        case _:
            return ""


def _started(
    tool: str, msg: Any, receivers: list[str], prompt: str | None, item_id: Callable[[str], str]
) -> dict[str, Any]:
    return {"type": "item.started", "item": _item(tool, msg, receivers, prompt, {}, "in_progress", item_id)}


def _completed(
    tool: str,
    msg: Any,
    receivers: list[str],
    prompt: str | None,
    states: dict[str, Status],
    item_id: Callable[[str], str],
    *,
    is_failed: bool = False,
) -> dict[str, Any]:
    shown = {agent_id: _state(status) for agent_id, status in states.items()}
    is_failed = is_failed or any(state["status"] in _FAILED for state in shown.values())
    outcome = "failed" if is_failed else "completed"
    return {"type": "item.completed", "item": _item(tool, msg, receivers, prompt, shown, outcome, item_id)}


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


def _short(text: str) -> str:
    line = " ".join(readable(text).split())
    return line if len(line) <= _SHOWN_CHARACTERS else line[: _SHOWN_CHARACTERS - 1] + "…"
