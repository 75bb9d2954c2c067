"""The folder of a run, for reading: by whoever resumes, watches or looks back, also while a driver writes.

    fleet.json      what was asked for; never a secret
    tasks.jsonl     the list, checked                    attempts.jsonl  attempts that started and ended
    results.jsonl   one line a task: the truth           spend.jsonl     what each model request came to
    lock            held by the driver                   tasks/ID/       the files of a task

A million tasks are never in memory: of each there are its id and where it stands. A last line without its end is one
that is being written, or that a killed driver left: it does not count. `book.py` writes all of this.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Literal, TypeVar

import msgspec

from spindle.errors import UsageError
from spindle.fleet.exchange import Ended, Status, Task, Used
from spindle.fleet.record import Record

FACTS, TASKS, ATTEMPTS, RESULTS, SPEND, LOCK = (
    "fleet.json",
    "tasks.jsonl",
    "attempts.jsonl",
    "results.jsonl",
    "spend.jsonl",
    "lock",
)
FILES_OF_TASKS = "tasks"

Line = TypeVar("Line")


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """`fleet.json`."""

    v: Literal[1] = 1
    spindle: str
    """The version that wrote it."""
    engine: str
    options: dict[str, Any]
    """Those that hold for the whole run, by name, as they were given or worked out."""
    total: int
    tasks_sha256: str
    created_at: str


class AttemptLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of `attempts.jsonl`."""

    event: Literal["started", "ended"]
    id: str
    attempt: int
    worker: str
    pid: int
    node: str
    time: str
    outcome: Ended | msgspec.UnsetType = msgspec.UNSET
    """Of one that ended."""
    reason: str | None = None
    """Why it was lost."""


class SpendLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of `spend.jsonl`: a request, and what it came to."""

    id: str
    attempt: int
    provider: str
    model: str
    usage: Used = Used()
    cost_usd: float | None = None
    """None where the price is not known."""
    status: int | None = None
    """Of a refusal: what the server answered."""
    time: str = ""
    word: str | msgspec.UnsetType = msgspec.UNSET
    """By whom it was told, if that worker can outlive its driver, and which of its words it was."""


class Spending(msgspec.Struct, kw_only=True):
    """What requests came to together."""

    used: Used = Used()
    cost_usd: float = 0.0
    """Of those whose price is known."""
    is_priced: bool = True
    """The price of each is known."""

    def add(self, used: Used, cost_usd: float | None) -> None:
        self.used += used
        if cost_usd is None:
            self.is_priced = self.is_priced and not used.requests
        else:
            self.cost_usd += cost_usd

    @property
    def known_cost(self) -> float | None:
        """What all of it cost; None when the price of a part is not known."""
        return self.cost_usd if self.is_priced else None

    @property
    def tokens(self) -> int:
        return self.used.input_tokens + self.used.output_tokens


class _Head(msgspec.Struct, frozen=True):
    """As much of a line as tells whose it is: the rest is skipped without being read."""

    id: str
    status: Status | None = None


class RunFolder:
    """A folder with a run in it. What it tells of records is what was there when it was first asked."""

    def __init__(self, path: str) -> None:
        """Raises UsageError where there is no run."""
        self.path = os.path.abspath(path)
        if not os.path.isfile(self.file(FACTS)):
            there = "there is no run in it" if os.path.isdir(self.path) else "there is no such folder"
            raise UsageError(f"{path}: {there}; `spindle fleet run TASKS --out {path}` begins one")

    def file(self, *names: str) -> str:
        return "/".join((self.path, *names))

    @cached_property
    def facts(self) -> Facts:
        try:
            with open(self.file(FACTS), "rb") as file:
                return msgspec.json.decode(file.read(), type=Facts)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"{self.file(FACTS)} cannot be read: {error}") from error

    # Lines are looked up one by one, and to open a file each time would take longer than to read the line.

    @cached_property
    def _open_tasks(self) -> _Lines:
        return _Lines(self.file(TASKS))

    @cached_property
    def _open_results(self) -> _Lines:
        return _Lines(self.file(RESULTS))

    # ---- tasks, in the order of the list ---------------------------------------------------------------------------

    @cached_property
    def _tasks(self) -> dict[str, int]:
        """Where the line of each id begins, in the order of the list."""
        return {line.id: offset for offset, line in _lines(self.file(TASKS), _Head)}

    @property
    def ids(self) -> list[str]:
        return list(self._tasks)

    @property
    def total(self) -> int:
        return len(self._tasks)

    def __contains__(self, task_id: object) -> bool:
        return task_id in self._tasks

    def tasks(self) -> Iterator[Task]:
        return (task for _, task in _lines(self.file(TASKS), Task))

    def task(self, task_id: str) -> Task:
        return _decode(self.task_line(task_id), Task, self.file(TASKS), 0)

    def task_line(self, task_id: str) -> bytes:
        """The line of a task as it is written, without its end."""
        return self._open_tasks.at(self._tasks[task_id])

    # ---- records: the last line of an id counts ----------------------------------------------------------------------

    @cached_property
    def _results(self) -> dict[str, tuple[int, Status]]:
        found: dict[str, tuple[int, Status]] = {}
        for offset, head in _lines(self.file(RESULTS), _Head):
            if head.status is not None:
                found[head.id] = (offset, head.status)
        return found

    @property
    def statuses(self) -> dict[str, Status]:
        """Of those tasks that are recorded."""
        return {task_id: status for task_id, (_, status) in self._results.items()}

    def record(self, task_id: str) -> Record | None:
        found = self._results.get(task_id)
        if found is None:
            return None
        return _decode(self._open_results.at(found[0]), Record, self.file(RESULTS), 0)

    def records(self) -> Iterator[Record]:
        """The record of each task that has one, in the order of the list."""
        for task_id in self._tasks:
            if (record := self.record(task_id)) is not None:
                yield record

    # ---- what happened, in the order it happened ---------------------------------------------------------------------

    def attempts(self) -> Iterator[AttemptLine]:
        return (line for _, line in _lines(self.file(ATTEMPTS), AttemptLine))

    def spend(self) -> Iterator[SpendLine]:
        return (line for _, line in _lines(self.file(SPEND), SpendLine))

    def spending(self) -> Spending:
        """What was spent, by attempts that are not recorded too."""
        total = Spending()
        for line in self.spend():
            total.add(line.usage, line.cost_usd)
        return total

    def unended(self) -> list[AttemptLine]:
        """Attempts that started and have not ended: they run, or were lost with their driver."""
        started: dict[tuple[str, int], AttemptLine] = {}
        for line in self.attempts():
            if line.event == "started":
                started[line.id, line.attempt] = line
            else:
                started.pop((line.id, line.attempt), None)
        return list(started.values())

    def is_alive(self) -> bool:
        """Whether a driver works here: it holds the lock as long as it lives."""
        try:
            fd = os.open(self.file(LOCK), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            # Shared, so that those who ask do not see each other; and a driver that starts tries for longer than this.
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            return error.errno in (errno.EWOULDBLOCK, errno.EACCES)
        finally:
            os.close(fd)
        return False


def _raw_lines(path: str) -> Iterator[tuple[int, bytes]]:
    """Each whole line of a file, and where it begins."""
    if not os.path.exists(path):
        return
    with open(path, "rb") as file:
        offset = 0
        for line in file:
            if line.endswith(b"\n") and len(line) > 1:
                yield offset, line[:-1]
            offset += len(line)


def _lines(path: str, kind: type[Line]) -> Iterator[tuple[int, Line]]:
    decoder = msgspec.json.Decoder(kind)
    for number, (offset, line) in enumerate(_raw_lines(path), 1):
        try:
            yield offset, decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _unreadable(path, number, error) from error


class _Lines:
    """A file whose lines are read by where they begin."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        os.close(self._fd)

    def at(self, offset: int) -> bytes:
        """The line without its end."""
        size = 4096
        while True:
            data = os.pread(self._fd, size, offset)
            line, end, _ = data.partition(b"\n")
            if end or len(data) < size:
                return line
            size *= 4


def _decode(line: bytes, kind: type[Line], path: str, number: int) -> Line:
    try:
        return msgspec.json.decode(line, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _unreadable(path, number, error) from error


def _unreadable(path: str, number: int, error: Exception) -> UsageError:
    place = f"{path}, line {number}" if number else path
    return UsageError(f"{place} cannot be read: {error}. Nothing was changed")
