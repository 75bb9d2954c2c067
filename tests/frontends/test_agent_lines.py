"""Calls of the sub-agent tools as the JSON lines of exec and as lines for people."""

from __future__ import annotations

from typing import Any

from spindle.frontends.exec.jsonl import JsonlTranslator
from spindle.frontends.plain_text import Look
from spindle.frontends.transcript import Transcript
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
)
from spindle.protocol.events import Msg

CALL: dict[str, Any] = {"call_id": "c", "sender_thread_id": "parent"}


def lines(*msgs: Msg) -> list[dict[str, Any]]:
    translator = JsonlTranslator()
    return [line for msg in msgs for line in translator.translate(msg)]


def item(tool: str, status: str, **fields: Any) -> dict[str, Any]:
    given = {"receiver_thread_ids": [], "prompt": None, "agents_states": {}} | fields
    base = {"id": "item_0", "type": "collab_tool_call", "tool": tool, "sender_thread_id": "parent"}
    return {**base, **given, "status": status}


def test_a_started_sub_agent_is_one_item() -> None:
    began = CollabAgentSpawnBegin(**CALL, prompt="look")
    ended = CollabAgentSpawnEnd(**CALL, new_thread_id="kid", prompt="look", status="running")
    states = {"kid": {"status": "running", "message": None}}
    assert lines(began, ended) == [
        {"type": "item.started", "item": item("spawn_agent", "in_progress", prompt="look")},
        {
            "type": "item.completed",
            "item": item("spawn_agent", "completed", prompt="look", receiver_thread_ids=["kid"], agents_states=states),
        },
    ]


def test_one_that_could_not_be_started_failed() -> None:
    ended = CollabAgentSpawnEnd(**CALL, new_thread_id=None, prompt="look", status={"errored": "too many"})
    assert lines(ended) == [{"type": "item.completed", "item": item("spawn_agent", "failed", prompt="look")}]


def test_a_message_to_a_sub_agent_is_one_item() -> None:
    fields: dict[str, Any] = {**CALL, "receiver_thread_id": "kid", "prompt": "more"}
    states = {"kid": {"status": "not_found", "message": None}}
    known: dict[str, Any] = {"receiver_thread_ids": ["kid"], "prompt": "more"}
    assert lines(CollabAgentInteractionBegin(**fields), CollabAgentInteractionEnd(**fields, status="not_found")) == [
        {"type": "item.started", "item": item("send_input", "in_progress", **known)},
        {"type": "item.completed", "item": item("send_input", "failed", **known, agents_states=states)},
    ]


def test_a_wait_shows_what_each_came_to() -> None:
    began = CollabWaitingBegin(**CALL, receiver_thread_ids=["a", "b"])
    ended = CollabWaitingEnd(**CALL, statuses={"a": {"completed": "found"}, "b": "running"}, timed_out=True)
    states = {"a": {"status": "completed", "message": "found"}, "b": {"status": "running", "message": None}}
    assert lines(began, ended) == [
        {"type": "item.started", "item": item("wait", "in_progress", receiver_thread_ids=["a", "b"])},
        {
            "type": "item.completed",
            "item": item("wait", "completed", receiver_thread_ids=["a", "b"], agents_states=states),
        },
    ]


def test_a_close_shows_the_last_status() -> None:
    fields: dict[str, Any] = {**CALL, "receiver_thread_id": "kid"}
    states = {"kid": {"status": "errored", "message": "broke"}}
    known: dict[str, Any] = {"receiver_thread_ids": ["kid"]}
    assert lines(CollabCloseBegin(**fields), CollabCloseEnd(**fields, status={"errored": "broke"})) == [
        {"type": "item.started", "item": item("close_agent", "in_progress", **known)},
        {"type": "item.completed", "item": item("close_agent", "failed", **known, agents_states=states)},
    ]


def about(**msg: Any) -> CollabAgentEvent:
    return CollabAgentEvent(thread_id="kid", parent_thread_id="parent", msg=msg)


def test_what_a_sub_agent_does_is_no_line_of_the_parents() -> None:
    assert (
        lines(about(type="task_complete", turn_id="t", last_agent_message="x"), about(type="error", message="x")) == []
    )


def test_people_see_a_line_for_what_matters() -> None:
    transcript = Transcript(Look(), version="1", summary="auto")
    seen = [
        transcript.translate(msg)
        for msg in (
            CollabAgentSpawnEnd(**CALL, new_thread_id="kid", prompt="look\n  here", status="running"),
            CollabAgentSpawnEnd(**CALL, new_thread_id=None, prompt="look", status={"errored": "too many"}),
            about(type="exec_command_begin", command=["ls", "a b\x1b[31m"]),
            about(type="agent_message", message="half-way"),
            about(type="task_complete", last_agent_message="x" * 300),
            about(type="turn_aborted", reason="interrupted"),
        )
    ]
    assert seen == [
        "agent kid started: look here\n",
        "no agent started: too many\n",
        "agent kid runs ls 'a b\\u{1B}[31m'\n",
        "",
        f"agent kid finished: {'x' * 199}…\n",
        "agent kid was stopped\n",
    ]
