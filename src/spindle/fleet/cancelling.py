"""How `spindle fleet cancel` reaches a driver in another process: lines in a file of the run's folder."""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec

from spindle.fleet.book import Book
from spindle.fleet.exchange import Failure
from spindle.fleet.folder import RunFolder, Spending
from spindle.fleet.record import Record
from spindle.protocol.clock import Clock, iso_utc

NAME = "cancel.jsonl"


class _Line(msgspec.Struct, frozen=True):
    id: str | None = None
    """None: the whole run."""


def ask(out: str, ids: Sequence[str]) -> None:
    """Ask the driver to cancel these tasks; none: the whole run."""
    fd = os.open(f"{out}/{NAME}", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        os.write(fd, b"".join(msgspec.json.encode(_Line(task_id)) + b"\n" for task_id in ids or (None,)))
    finally:
        os.close(fd)


def is_asked(out: str) -> bool:
    return os.path.exists(f"{out}/{NAME}")


def take_back(out: str) -> None:
    """There is no driver that could be asked."""
    try:
        os.unlink(f"{out}/{NAME}")
    except OSError:
        pass


class Requests:
    """What was asked since the driver started."""

    def __init__(self, out: str) -> None:
        self._path = f"{out}/{NAME}"
        self._read = 0
        take_back(out)

    def new(self) -> list[str | None]:
        """None stands for the whole run."""
        try:
            if os.path.getsize(self._path) <= self._read:
                return []
            with open(self._path, "rb") as file:
                file.seek(self._read)
                data = file.read()
        except OSError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        return [msgspec.json.decode(line, type=_Line).id for line in whole.splitlines()]


def record_cancelled(out: str, ids: Sequence[str], clock: Clock) -> None:
    """Record tasks as cancelled that no driver works at. The caller holds the lock."""
    folder = RunFolder(out)
    attempts: dict[str, int] = {}
    for line in folder.attempts():
        attempts[line.id] = max(attempts.get(line.id, 0), line.attempt)
    spending = {task_id: Spending() for task_id in ids}
    for line in folder.spend():
        if line.id in spending:
            spending[line.id].add(line.usage, line.cost_usd)
    book, now = Book(out), iso_utc(clock.now())
    for task_id in ids:
        if task_id not in folder.statuses:
            book.append_record(
                Record(
                    id=task_id,
                    status="cancelled",
                    attempts=attempts.get(task_id, 0),
                    started_at=now,
                    ended_at=now,
                    duration_s=0.0,
                    queue_s=0.0,
                    usage=spending[task_id].used,
                    cost_usd=spending[task_id].known_cost,
                    error=Failure(kind="cancelled", message="the task was cancelled"),
                    meta=folder.task(task_id).meta,
                )
            )
    book.close()
