"""How many tokens the threads of a home have used, day by day, as their records tell."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from itertools import chain
from typing import Any

import msgspec

from spindle.thread import layout
from spindle.thread.entry import Record
from spindle.thread.private_files import open_regular
from spindle.thread.reading import parse_line

_TELLING = re.compile(rb'"(?:token_count|task_started|task_complete|turn_aborted)"')


class Usage(msgspec.Struct, kw_only=True):
    """Days are those of UTC, `2026-11-15`."""

    tokens_by_day: Counter[str]
    longest_turn_s: int = 0

    def longest_streak(self) -> int:
        return max((len(streak) for streak in self._streaks()), default=0)

    def current_streak(self, today: str) -> int:
        """Days in a row up to today; a day that has only begun does not end it."""
        days = (today, (date.fromisoformat(today) - timedelta(1)).isoformat())
        return next((len(streak) for streak in self._streaks() if streak[-1] in days), 0)

    def _streaks(self) -> list[list[str]]:
        streaks: list[list[str]] = []
        for day in sorted(self.tokens_by_day):
            before = (date.fromisoformat(day) - timedelta(1)).isoformat()
            if streaks and streaks[-1][-1] == before:
                streaks[-1].append(day)
            else:
                streaks.append([day])
        return streaks


def usage_of(home: str) -> Usage:
    """Reads every record of the home; what a fork has copied counts once."""
    usage, seen = Usage(tokens_by_day=Counter()), set[bytes]()
    for path in chain(layout.newest_first(f"{home}/sessions"), layout.rollouts_in(f"{home}/archived_sessions")):
        if not path.endswith(".zst"):
            _read(_records(path), usage, seen)
    return usage


def _records(path: str) -> Iterable[Record]:
    try:
        with open_regular(path) as file:
            for line in file:
                if _TELLING.search(line) and (record := parse_line(line)) is not None:
                    yield record
    except OSError:
        return


def _read(records: Iterable[Record], usage: Usage, seen: set[bytes]) -> None:
    began: datetime | None = None
    for record in records:
        when, payload = _moment(record.timestamp), record.payload
        if record.kind != "event_msg" or when is None:
            continue
        kind = payload.get("type")
        if kind == "task_started":
            began = when
        elif kind in ("task_complete", "turn_aborted") and began is not None:
            usage.longest_turn_s = max(usage.longest_turn_s, int((when - began).total_seconds()))
            began = None
        elif kind == "token_count":
            mark = record.timestamp.encode() + record.raw
            if mark not in seen and (tokens := _tokens(payload)):
                usage.tokens_by_day[record.timestamp[:10]] += tokens
            seen.add(mark)


def _moment(timestamp: str) -> datetime | None:
    try:
        return datetime.fromisoformat(timestamp)
    except ValueError:
        return None


def _tokens(payload: dict[str, Any]) -> int:
    """Those of the last answer."""
    match payload.get("info"):
        case {"last_token_usage": {"total_tokens": int(tokens)}} if tokens > 0:
            return tokens
        case _:
            return 0
