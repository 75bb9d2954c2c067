"""Which records of a thread a fork begins with. Pure."""

from __future__ import annotations

from spindle.errors import ThreadError
from spindle.protocol.items import is_user_input
from spindle.thread.entry import Record

_COPIED = frozenset(("response_item", "event_msg", "compacted", "turn_context"))
_TURN_STARTS = frozenset(("task_started", "turn_started"))
_TURN_ENDS = frozenset(("task_complete", "turn_complete", "turn_aborted", "thread_rolled_back"))


def records_up_to(records: list[Record], up_to: str | int | None) -> list[Record]:
    """A copy up to a response (its id) or of the first turns (their number); markers of what was dropped included."""
    if isinstance(up_to, str):
        end = _after_response(records, up_to)
    elif up_to is not None:
        end = _after_turns(records, up_to)
    else:
        end = len(records)
    return [record for record in records[:end] if record.kind in _COPIED or record.kind.startswith("spindle_")]


def _after_response(records: list[Record], response_id: str) -> int:
    needle = response_id.encode()
    end = None
    for index, record in enumerate(records):
        if record.kind not in ("spindle_bookmark", "event_msg") or needle not in record.raw:
            continue
        payload = record.payload
        # The bookmark, and the end of the turn right after it, belong to the response.
        if payload.get("response_id") == response_id:
            end = index + 1
    if end is None:
        raise ThreadError(f"no response {response_id!r} is recorded in this thread")
    return end


def _after_turns(records: list[Record], count: int) -> int:
    """Where the turn after the first `count` begins, counting only turns that were not dropped later."""
    if count < 0:
        raise ThreadError("a fork keeps a number of turns; it cannot be negative")
    starts: list[int] = []
    marks: dict[str, list[int]] = {}
    for index, record in enumerate(records):
        if record.kind == "response_item":
            if b'"user"' in record.raw and is_user_input(record.payload):
                starts.append(index)
            continue
        if record.kind not in ("event_msg", "compacted", "spindle_bookmark"):
            continue
        payload = record.payload
        mark = marks.get(str(payload.get("spindle_bookmark")))
        if mark is not None:
            starts = list(mark)
        elif payload.get("type") == "thread_rolled_back" and isinstance(payload.get("num_turns"), int):
            starts = starts[: max(0, len(starts) - payload["num_turns"])]
        if isinstance(payload.get("response_id"), str):
            marks[payload["response_id"]] = list(starts)
    if count >= len(starts):
        return len(records)
    # What was recorded ahead of the turn's first message (its start, changed settings) is left out with it.
    floor = starts[count - 1] if count else 0
    for index in range(starts[count] - 1, floor, -1):
        if _must_stay(records[index]):
            return index + 1
    end = starts[count]
    while end > floor and records[end - 1].payload.get("type") in _TURN_STARTS:
        end -= 1
    return end


def _must_stay(record: Record) -> bool:
    """The end of a turn, or a marker that changes what stands before it."""
    if record.kind == "event_msg":
        return record.payload.get("type") in _TURN_ENDS
    return record.kind in ("compacted", "spindle_bookmark")
