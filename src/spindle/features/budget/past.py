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
from spindle.thread.private_files import open_regular
from spindle.thread.reading import parse_line

if TYPE_CHECKING:
    from spindle.thread.entry import Record

KIND = "spindle_budget"
"""The lines of the record that tell what a thread has used."""
_TYPE = re.compile(rb'{"type": ?"(\w+)"')
_TELLING = re.compile(rb'"(?:session_meta|turn_context|token_count|task_started|task_complete|turn_aborted)"')
_COUNTS = ("input_tokens", "cached_input_tokens", "cache_write_input_tokens", "output_tokens", "total_tokens")

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
    used, seconds = Use(), 0.0
    seen: set[bytes] = set()
    paths = chain(layout.newest_first(f"{home}/sessions"), layout.rollouts_in(f"{home}/archived_sessions"))
    for path in paths:
        reader = _Reader(iso_utc(moment), seen, cost_of)
        for record in _lines_since(path, moment):
            reader.read(record)
        used, seconds = used + reader.used, seconds + reader.seconds
    return used, seconds


class _Reader:
    """Reads one file: the sums that it tells after each request, and how they grew."""

    def __init__(self, since: str, seen: set[bytes], cost_of: CostOf) -> None:
        self.used = Use()
        self.seconds = 0.0
        self._since = since
        self._seen = seen
        """Counts of other files: that of a fork may repeat what its parent's holds."""
        self._cost_of = cost_of
        self._model = ""
        self._began = ""
        self._total: TokenUsage | None = TokenUsage()
        """What was told last; None while a fork has not told what it began with."""
        self._is_agent = False
        """What a sub-agent used is in its parent's sums too; only its requests are not."""

    def read(self, record: Record) -> None:
        kind, payload = _kind(record), record.payload
        if kind == "session_meta":
            source = payload.get("source")
            self._is_agent = isinstance(source, dict) and "subagent" in source
            self._total = None if payload.get("forked_from_id") else self._total
        elif kind == "turn_context":
            name = payload.get("model")
            self._model = name if isinstance(name, str) else self._model
        elif kind == "task_started":
            self._began = record.timestamp if record.timestamp >= self._since else ""
        elif kind in ("task_complete", "turn_aborted"):
            if not self._is_agent:
                self.seconds += _between(self._began, record.timestamp)
        elif kind == "token_count":
            self._count(record, payload)

    def _count(self, record: Record, payload: dict[str, Any]) -> None:
        total, last = _usage(payload, "total_token_usage"), _usage(payload, "last_token_usage")
        if total is None:
            return
        before, self._total = self._total, total
        mark = record.timestamp.encode() + record.raw
        if record.timestamp < self._since or mark in self._seen:
            return
        self._seen.add(mark)
        grown = last if before is None else _grown(before, total)
        if self._is_agent or grown is None:
            self.used += Use(requests=1)
        else:
            tokens = max(grown.total_tokens, grown.input_tokens + grown.output_tokens)
            self.used += Use(tokens, 1, self._cost_of(self._model, grown))


def _grown(before: TokenUsage, after: TokenUsage) -> TokenUsage:
    return msgspec.convert({name: max(0, getattr(after, name) - getattr(before, name)) for name in _COUNTS}, TokenUsage)


def _lines_since(path: str, moment: float) -> list[Record]:
    """What may tell of use in a file that was written to since then; nothing of others."""
    try:
        if os.stat(path).st_mtime < moment or path.endswith(".zst"):
            return []
        with open_regular(path) as file:
            found = (parse_line(line) for line in file if _TELLING.search(line))
            return [record for record in found if record is not None]
    except OSError:
        return []


def _usage(payload: dict[str, Any], name: str) -> TokenUsage | None:
    info = payload.get("info")
    try:
        return msgspec.convert(info.get(name), TokenUsage) if isinstance(info, dict) else None
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
