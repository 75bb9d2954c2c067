"""A run for people: a line on stderr that says where it is, and one for each task that went wrong.

What tasks say is shown without its control characters.
"""

from __future__ import annotations

import os
from typing import TextIO

from spindle.fleet.record import Record
from spindle.fleet.watching import Progress, Summary
from spindle.frontends.terminal import STDERR, columns_of, is_dumb
from spindle.protocol.clock import SystemClock
from spindle.protocol.quote import readable, visible

EVERY_S = 30.0
"""How often a file or a pipe gets a line."""
_MESSAGE = 160


class LineWatch:
    """One line, drawn again and again where there is a terminal."""

    def __init__(self, err: TextIO) -> None:
        self._err = err
        self._columns = columns_of(STDERR) if not is_dumb(os.environ) else None
        self._is_drawn = False
        self._written_s: float | None = None
        self._clock = SystemClock()

    def started(self, total: int, pending: int) -> None:
        before = f", {total - pending} of them are recorded" if pending < total else ""
        self._print(f"{total} task{'s' * (total != 1)}{before}")

    def task_started(self, task: str, attempt: int, worker: str) -> None:
        pass

    def task_done(self, record: Record) -> None:
        if record.status == "ok":
            return
        message = record.error.message if record.error is not None else ""
        first = visible(message.strip().partition("\n")[0][:_MESSAGE])
        self._print(f"{record.id}: {record.status}{f' - {first}' if first else ''}")

    def progress(self, progress: Progress) -> None:
        text = progress_line(progress)
        now = self._clock.monotonic()
        if self._columns is not None:
            self._err.write(f"\r\x1b[K{text[: self._columns - 1]}")
            self._err.flush()
            self._is_drawn = True
        elif self._written_s is None or now - self._written_s >= EVERY_S:
            self._written_s = now
            self._print(text)

    def warning(self, text: str) -> None:
        self._print(f"warning: {readable(text)}")

    def done(self, summary: Summary) -> None:
        counts = ", ".join(f"{count} {status}" for status, count in summary.by_status.items())
        cost = "" if summary.cost_usd is None else f", ${summary.cost_usd:.2f}"
        self._print(f"{summary.recorded} of {summary.total} recorded{f' ({counts})' if counts else ''}{cost}")
        if summary.stopped_because is not None:
            self._print(f"stopped: {readable(summary.stopped_because)}; --resume goes on")

    def _print(self, text: str) -> None:
        if self._is_drawn:
            self._err.write("\r\x1b[K")
            self._is_drawn = False
        print(text, file=self._err, flush=True)


def progress_line(progress: Progress) -> str:
    cost = "cost unknown" if progress.cost_usd is None else f"${progress.cost_usd:.2f}"
    parts = [
        f"{progress.done}/{progress.total}",
        f"{progress.ok} ok",
        f"{progress.failed} failed",
        f"{progress.running} running",
        cost,
        f"{_short(progress.tokens)} tokens",
        f"{progress.requests_per_minute} req/min",
    ]
    if progress.eta_s is not None and progress.done < progress.total:
        parts.append(f"ETA {_time(progress.eta_s)}")
    if progress.limited_by is not None:
        parts.append(f"limited by {visible(progress.limited_by)}")
    return "  ".join(parts)


def _short(count: int) -> str:
    for size, sign in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.1f}{sign}"
    return str(count)


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
