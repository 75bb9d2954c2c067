"""What a session tells of its sub-agents: event messages of their own module, loaded when there are any.

A status is `"running"`, `"interrupted"`, `"shutdown"`, `"not_found"`, `{"completed": TEXT or null}` or
`{"errored": TEXT}`.
"""

from __future__ import annotations

from typing import Any

from spindle.protocol.events import Msg
from spindle.protocol.outside import Outside

Status = str | dict[str, str | None]


class CollabAgentSpawnBegin(Msg, frozen=True, kw_only=True, tag="collab_agent_spawn_begin"):
    """A sub-agent is about to be started."""

    outside = Outside(words=("call_id", "prompt", "agent_type"))
    call_id: str
    sender_thread_id: str
    prompt: str
    agent_type: str | None = None


class CollabAgentSpawnEnd(Msg, frozen=True, kw_only=True, tag="collab_agent_spawn_end"):
    """It runs, or could not be started: then there is no new thread."""

    outside = Outside(words=("call_id", "prompt", "status"))
    ends_call = True
    call_id: str
    sender_thread_id: str
    new_thread_id: str | None
    prompt: str
    status: Status


class CollabAgentInteractionBegin(Msg, frozen=True, kw_only=True, tag="collab_agent_interaction_begin"):
    """A message goes to a sub-agent."""

    outside = Outside(words=("call_id", "receiver_thread_id", "prompt"))
    call_id: str
    sender_thread_id: str
    receiver_thread_id: str
    prompt: str


class CollabAgentInteractionEnd(Msg, frozen=True, kw_only=True, tag="collab_agent_interaction_end"):
    """The message has reached it, or there is no such sub-agent."""

    outside = Outside(words=("call_id", "receiver_thread_id", "prompt", "status"))
    ends_call = True
    call_id: str
    sender_thread_id: str
    receiver_thread_id: str
    prompt: str
    status: Status


class CollabWaitingBegin(Msg, frozen=True, kw_only=True, tag="collab_waiting_begin"):
    """The model waits for sub-agents."""

    outside = Outside(words=("call_id", "receiver_thread_ids"))
    call_id: str
    sender_thread_id: str
    receiver_thread_ids: list[str]


class CollabWaitingEnd(Msg, frozen=True, kw_only=True, tag="collab_waiting_end"):
    """It has waited long enough, or they are done. `usage` is what each has cost so far."""

    outside = Outside(words=("call_id", "statuses"))
    ends_call = True
    call_id: str
    sender_thread_id: str
    statuses: dict[str, Status]
    timed_out: bool = False
    usage: dict[str, Any] = {}


class CollabCloseBegin(Msg, frozen=True, kw_only=True, tag="collab_close_begin"):
    """A sub-agent is about to be closed."""

    outside = Outside(words=("call_id", "receiver_thread_id"))
    call_id: str
    sender_thread_id: str
    receiver_thread_id: str


class CollabCloseEnd(Msg, frozen=True, kw_only=True, tag="collab_close_end"):
    """A sub-agent is closed; `status` is its last one before that, `usage` what it cost."""

    outside = Outside(words=("call_id", "receiver_thread_id", "status"))
    ends_call = True
    call_id: str
    sender_thread_id: str
    receiver_thread_id: str
    status: Status
    usage: dict[str, Any] = {}


class CollabAgentEvent(Msg, frozen=True, kw_only=True, tag="collab_agent_event"):
    """Something a sub-agent did: an event of its own thread, as it stands there. Text comes whole, not as it streams.

    Belongs to no submission: a sub-agent may work on when the turn that started it is over.
    """

    outside = Outside(words=("agent_type", "msg"))
    thread_id: str
    parent_thread_id: str
    agent_type: str | None = None
    msg: dict[str, Any]
