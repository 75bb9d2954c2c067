"""What front ends show people of sub-agents: a line each. Pure."""

from __future__ import annotations

from spindle.protocol.agent_events import CollabAgentEvent, CollabAgentInteractionBegin, CollabAgentSpawnEnd
from spindle.protocol.events import Msg
from spindle.protocol.quote import readable, shell_join, visible

_SHOWN_CHARACTERS = 200


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


def _short(text: str) -> str:
    line = " ".join(readable(text).split())
    return line if len(line) <= _SHOWN_CHARACTERS else line[: _SHOWN_CHARACTERS - 1] + "…"
