"""A run for programs: one JSON object a line on stdout."""

from __future__ import annotations

from typing import Any, TextIO

import msgspec

from spindle.fleet.record import Record
from spindle.fleet.watching import Progress, Summary
from spindle.protocol.quote import readable


class JsonWatch:
    """Events as they happen."""

    def __init__(self, out: TextIO, err: TextIO) -> None:
        self._out = out
        self._err = err

    def started(self, total: int, pending: int) -> None:
        self._say("fleet.started", total=total, pending=pending)

    def task_started(self, task: str, attempt: int, worker: str) -> None:
        self._say("task.started", id=task, attempt=attempt, worker=worker)

    def task_done(self, record: Record) -> None:
        self._say("task.done", record=record)

    def progress(self, progress: Progress) -> None:
        self._say("fleet.progress", **msgspec.to_builtins(progress))

    def warning(self, text: str) -> None:
        print(f"warning: {readable(text)}", file=self._err)

    def done(self, summary: Summary) -> None:
        self._say(
            "fleet.done",
            recorded=summary.recorded,
            by_status=summary.by_status,
            cost_usd=summary.cost_usd,
            stopped_because=summary.stopped_because,
        )

    def _say(self, kind: str, **fields: Any) -> None:
        self._out.write(msgspec.json.encode({"type": kind, **fields}).decode() + "\n")
        self._out.flush()
