"""Which goal a recorded thread has. Pure over its records.

Each change is an event line `thread_goal_updated`, as the reference program writes it; the last one is the goal. That
program writes no line when the model changes a goal, so the answers of the model's own tools count too. A cleared goal
is a line that Spindle writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from spindle.errors import SpindleError
from spindle.protocol.goal import Goal, charged_tokens, check_objective
from spindle.protocol.items import decode_foreign
from spindle.protocol.request import TokenUsage
from spindle.thread.entry import Record

CLEARED = "spindle_goal_cleared"
"""The kind of the line that says that the thread has no goal any more."""

_EVENT, _HEAD = b'"thread_goal_updated"', 60
_COUNT, _OUTPUT = b'"token_count"', b'"function_call_output"'
_CHANGING_TOOLS = ("create_goal", "update_goal")

OURS = b'{"goal":"spindle"}'
"""Stands beside the lines that Spindle writes."""


def goal_line(goal: Goal, turn_id: str | None) -> dict[str, Any]:
    """The event line that records a goal."""
    turn = {} if turn_id is None else {"turnId": turn_id}
    return {"type": "thread_goal_updated", "threadId": goal.thread_id, **turn, "goal": goal.to_record()}


def recorded_goal(records: Iterable[Record], thread_id: str) -> Goal | None:
    """The goal of the thread with what has been used for it, also since its last line; None when it has none.

    A fork begins with lines about the goal of another thread, which is not its own.
    """
    goal: Goal | None = None
    calls: set[str] = set()
    count: Record | None = None
    """The last count of tokens; `counted` is the last one that the goal's own line knew."""
    counted: Record | None = None
    for record in records:
        if record.kind == "event_msg":
            if _COUNT in record.raw[:_HEAD]:
                count = record
            elif _is_goal_line(record):
                goal, counted = _read(record.payload.get("goal"), goal), count
        elif record.kind == CLEARED:
            goal = None
        elif (told := _told_by_tool(record, calls)) is not None:
            goal, counted = _read(told, goal), count
    if goal is None or goal.thread_id != thread_id:
        return None
    if goal.status != "active" or count is counted:
        return goal
    # A process that was killed has not written down what its last turn used for the goal.
    used = max(0, _charged(count) - _charged(counted))
    return msgspec.structs.replace(goal, tokens_used=goal.tokens_used + used)


def is_last_line_ours(records: Sequence[Record]) -> bool:
    """Did Spindle write down what is known of the goal, and not another program?"""
    last = next((record for record in reversed(records) if _is_goal_line(record)), None)
    return last is not None and last.beside == OURS


def _is_goal_line(record: Record) -> bool:
    return record.kind == "event_msg" and _EVENT in record.raw[:_HEAD]


def _told_by_tool(record: Record, calls: set[str]) -> Any:
    """The goal as a tool that changes it has answered; None for every other record. `calls` are those it waits for."""
    if record.kind != "response_item" or not (b"_goal" in record.raw or (calls and _OUTPUT in record.raw)):
        return None
    item = record.payload
    call_id = item.get("call_id")
    if not isinstance(call_id, str):
        return None
    if item.get("type") == "function_call" and item.get("name") in _CHANGING_TOOLS:
        calls.add(call_id)
    elif item.get("type") == "function_call_output" and call_id in calls:
        calls.discard(call_id)
        return _answered_goal(item.get("output"))
    return None


def _answered_goal(output: Any) -> Any:
    try:
        answer = decode_foreign(output) if isinstance(output, str) else None
    except (msgspec.DecodeError, UnicodeError):
        return None  # the tool has refused
    return answer.get("goal") if isinstance(answer, dict) else None


def _read(given: Any, before: Goal | None) -> Goal | None:
    """The goal of a line; one that cannot be read changes nothing."""
    try:
        goal = msgspec.convert(given, Goal)
        check_objective(goal.objective)
    except (msgspec.ValidationError, SpindleError):
        return before
    return goal


def _charged(count: Record | None) -> int:
    info = count.payload.get("info") if count is not None else None
    try:
        return charged_tokens(msgspec.convert((info or {}).get("total_token_usage") or {}, TokenUsage))
    except (msgspec.ValidationError, AttributeError):
        return 0
