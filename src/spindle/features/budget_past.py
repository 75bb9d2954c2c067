"""What the record says that threads have used, for budgets that nobody kept when it was used.

A count of tokens stands for a request: retries left no trace.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec

from spindle.core.budget import Use
from spindle.protocol.clock import iso_utc
from spindle.protocol.request import TokenUsage
from spindle.thread import layout
from spindle.thread.rollout import parse_line

if TYPE_CHECKING:
    from spindle.thread.rollout import Record

KIND = "spindle_budget"
"""The lines of the record that tell what a thread has used."""
_TYPE = re.compile(rb'{"type": ?"(\w+)"')
_TELLING = re.compile(rb'"(?:token_count|turn_context|task_started|task_complete|turn_aborted)"')

CostOf = Callable[[str, TokenUsage], float]


class Past(msgspec.Struct):
    """What was used: by a thread with its sub-agents, and by these alone."""

    used: Use = Use()
    seconds: float = 0.0
    tree: Use = Use()
    tree_seconds: float = 0.0


def used_by_thread(records: Sequence[Record]) -> Past:
    """What a thread has used: requests, tokens and dollars, and the seconds of its turns."""
    past, began, counts, is_booked = Past(), "", 0, False
    for record in records:
        kind = _kind(record)
        if kind == KIND:
            payload = record.payload
            past.used, past.seconds = _use(payload), _float(payload, "seconds")
            tree = payload.get("tree")
            if isinstance(tree, dict):
                past.tree, past.tree_seconds = _use(tree), _float(tree, "seconds")
            counts, is_booked = 0, True
        elif kind == "task_started":
            past.used += Use(requests=counts)
            began, counts, is_booked = record.timestamp, 0, False
        elif kind == "token_count" and not is_booked:
            counts += 1
        elif kind in ("task_complete", "turn_aborted") and not is_booked:
            past.seconds += _between(began, record.timestamp)
    past.used += Use(requests=counts)
    return past


def used_since(home: str, moment: float, cost_of: CostOf) -> tuple[Use, float]:
    """What all threads of a home have used since then, and the seconds of their turns."""
    used, seconds, since = Use(), 0.0, iso_utc(moment)
    seen: set[bytes] = set()
    """Of a fork the file may repeat what its parent's holds."""
    paths = chain(layout.newest_first(f"{home}/sessions"), layout.rollouts_in(f"{home}/archived_sessions"))
    for path in paths:
        model, began = "", ""
        for record in _lines_since(path, moment):
            kind = _kind(record)
            if kind == "turn_context":
                name = record.payload.get("model")
                model = name if isinstance(name, str) else model
            elif record.timestamp < since:
                began = ""
            elif kind == "task_started":
                began = record.timestamp
            elif kind in ("task_complete", "turn_aborted"):
                seconds, began = seconds + _between(began, record.timestamp), ""
            elif kind == "token_count" and (mark := record.timestamp.encode() + record.raw) not in seen:
                seen.add(mark)
                usage = _last_usage(record.payload)
                if usage is not None:
                    tokens = max(usage.total_tokens, usage.input_tokens + usage.output_tokens)
                    used += Use(tokens, 1, cost_of(model, usage))
    return used, seconds


def _lines_since(path: str, moment: float) -> list[Record]:
    """What may tell of use in a file that was written to since then; nothing of others."""
    try:
        if os.stat(path).st_mtime < moment or path.endswith(".zst"):
            return []
        with open(path, "rb") as file:
            found = (parse_line(line) for line in file if _TELLING.search(line))
            return [record for record in found if record is not None]
    except OSError:
        return []


def _last_usage(payload: dict[str, Any]) -> TokenUsage | None:
    info = payload.get("info")
    try:
        return msgspec.convert(info.get("last_token_usage"), TokenUsage) if isinstance(info, dict) else None
    except msgspec.ValidationError:
        return None


def _kind(record: Record) -> str:
    """The kind of a line, or of the event that it records."""
    if record.kind != "event_msg":
        return record.kind
    found = _TYPE.match(record.raw)
    return found[1].decode() if found is not None else ""


def _use(payload: dict[str, Any]) -> Use:
    return Use(int(_float(payload, "tokens")), int(_float(payload, "requests")), _float(payload, "cost"))


def _float(payload: dict[str, Any], key: str) -> float:
    found = payload.get(key)
    return float(found) if isinstance(found, int | float) else 0.0


def _between(start: str, end: str) -> float:
    """Seconds between two moments of the record; 0 where one is missing."""
    try:
        return max(0.0, (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds())
    except (TypeError, ValueError):
        return 0.0
