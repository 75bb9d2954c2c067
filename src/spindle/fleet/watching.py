"""What a run tells those who watch it while it goes on."""

from __future__ import annotations

from collections import Counter, deque
from typing import Protocol

import msgspec

from spindle.fleet.record import Record


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run is."""

    done: int
    total: int
    ok: int
    failed: int
    running: int
    cost_usd: float | None
    tokens: int
    requests_per_minute: int
    eta_s: float | None = None
    limited_by: str | None = None


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended."""

    total: int
    recorded: int
    by_status: dict[str, int]
    cost_usd: float | None
    stopped_because: str | None = None
    """It ended before its end."""

    @property
    def exit_code(self) -> int:
        if self.recorded < self.total:
            return 3
        return int(self.by_status.get("ok", 0) < self.total)


class Watch(Protocol):
    """Whoever shows it. None of this may wait."""

    def started(self, total: int, pending: int) -> None: ...

    def task_started(self, task: str, attempt: int, worker: str) -> None: ...

    def task_done(self, record: Record) -> None: ...

    def progress(self, progress: Progress) -> None: ...

    def warning(self, text: str) -> None: ...

    def done(self, summary: Summary) -> None: ...


class Pace:
    """How fast a run goes: requests in the last minute, and when it may be over."""

    def __init__(self) -> None:
        self._requests: deque[float] = deque()
        self._durations: deque[float] = deque(maxlen=1001)

    def request(self, now: float) -> None:
        self._requests.append(now)

    def task(self, seconds: float) -> None:
        self._durations.append(seconds)

    def requests_per_minute(self, now: float) -> int:
        while self._requests and self._requests[0] <= now - 60.0:
            self._requests.popleft()
        return len(self._requests)

    def eta_s(self, left: int, at_a_time: int) -> float | None:
        """From the median of what the tasks so far took."""
        if not self._durations or not left:
            return 0.0 if not left else None
        median = sorted(self._durations)[len(self._durations) // 2]
        return median * -(-left // max(1, at_a_time))


def by_status(statuses: dict[str, str]) -> dict[str, int]:
    return dict(sorted(Counter(statuses.values()).items()))
