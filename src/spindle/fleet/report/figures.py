"""The numbers of a run: sums, quantiles, and how values are spread. Pure over records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from spindle.fleet.exchange import Used
from spindle.fleet.record import Record

OK = "ok"
_BINS = 24
_STEPS = (1, 2, 5)
_TIME_STEPS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600)


class Task(msgspec.Struct, frozen=True, gc=False):
    """As much of a record as the plots need: of a million tasks this is in memory."""

    status: str
    duration_s: float
    cost_usd: float | None
    tokens: int
    ended: float
    """Unix seconds; 0 where the record does not tell."""

    @property
    def is_ok(self) -> bool:
        return self.status == OK


class FailureGroup(msgspec.Struct):
    """Tasks that did not go well in the same way."""

    status: str
    kind: str
    sentence: str
    """Of the first of them."""
    count: int = 0
    ids: list[str] = []
    """The first few."""


class Figures:
    """Made in one pass over the records."""

    def __init__(self, records: Iterable[Record], most_ids: int) -> None:
        self.tasks: list[Task] = []
        self.used = Used()
        self.attempts = 0
        self.failures: dict[tuple[str, str], FailureGroup] = {}
        self.models: Counter[str] = Counter()
        self._most_ids = most_ids
        for record in records:
            self._take(record)

    def _take(self, record: Record) -> None:
        tokens = record.usage.input_tokens + record.usage.output_tokens
        self.tasks.append(
            Task(record.status, max(0.0, record.duration_s), record.cost_usd, tokens, _seconds(record.ended_at))
        )
        self.used += record.usage
        self.attempts += record.attempts
        if record.model:
            self.models[record.model] += 1
        if record.status != OK:
            kind = record.error.kind if record.error is not None else record.status
            sentence = record.error.message if record.error is not None else ""
            group = self.failures.setdefault((record.status, kind), FailureGroup(record.status, kind, sentence, ids=[]))
            group.count += 1
            if len(group.ids) < self._most_ids:
                group.ids.append(record.id)

    @property
    def by_status(self) -> Counter[str]:
        return Counter(task.status for task in self.tasks)

    @property
    def groups(self) -> list[FailureGroup]:
        """The largest first."""
        return sorted(self.failures.values(), key=lambda group: (-group.count, group.status, group.kind))


def _seconds(timestamp: str) -> float:
    try:
        return datetime.fromisoformat(timestamp).timestamp()
    except ValueError:
        return 0.0


def quantile(values: Sequence[float], share: float) -> float:
    """Of sorted values: the one that so many of them do not exceed."""
    return values[min(len(values) - 1, int(share * len(values)))] if values else 0.0


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """How values are spread over bins of one width. What lies beyond the last bin is counted there."""

    width: float
    ok: list[int]
    others: list[int]
    median: float
    high: float
    """Nineteen of twenty are below."""
    most: float
    has_more: bool
    """Some lie beyond the last bin."""

    @property
    def tallest(self) -> int:
        return max((one + other for one, other in zip(self.ok, self.others, strict=True)), default=0)


def spread(values: Sequence[tuple[float, bool]], *, is_time: bool = False) -> Spread | None:
    """Of values, each with whether its task went well; None when there are none."""
    if not values:
        return None
    ordered = sorted(value for value, _ in values)
    most, high = ordered[-1], quantile(ordered, 0.95)
    # A few values far out must not press all others into one bin.
    reach = most if most <= 3 * high or not high else 1.5 * high
    width = (time_step if is_time else round_step)(reach / _BINS) if reach > 0 else 1.0
    count = max(1, min(2 * _BINS, int(reach / width) + 1))
    ok, others = [0] * count, [0] * count
    for value, is_ok in values:
        place = min(count - 1, int(value / width))
        (ok if is_ok else others)[place] += 1
    return Spread(
        width=width,
        ok=ok,
        others=others,
        median=quantile(ordered, 0.5),
        high=high,
        most=most,
        has_more=most >= count * width,
    )


def time_step(least_s: float) -> float:
    """The same for seconds: parts of minutes and hours that people count in."""
    return next((float(step) for step in _TIME_STEPS if step >= least_s * 0.999), round_step(least_s / 3600) * 3600)


def round_step(least: float) -> float:
    """The smallest of 1, 2, 5, 10, 20 … (or parts of 1) that is not below `least`."""
    if least <= 0:
        return 1.0
    unit = 1.0
    while unit > least:
        unit /= 10
    while unit * 10 <= least:
        unit *= 10
    return next(unit * step for step in (*_STEPS, 10) if unit * step >= least * 0.999)
