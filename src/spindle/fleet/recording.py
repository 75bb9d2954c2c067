"""What a driver notes of attempts and money, and how the record of a task is made of what its attempts came to."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Collection
from typing import Literal

import msgspec

from spindle.fleet.book import Book, CannotWrite
from spindle.fleet.engine import Files, Worker
from spindle.fleet.exchange import FILE_BYTES, Attempt, Ended, Failure, Outcome, Spent, Status, Task
from spindle.fleet.folder import FILES_OF_TASKS, AttemptLine, Spending, SpendLine
from spindle.fleet.opening import Earlier, Opened
from spindle.fleet.record import Record, RecordedPatch
from spindle.fleet.schedule import Key
from spindle.protocol.clock import Clock, iso_utc


class Last(msgspec.Struct, frozen=True, kw_only=True):
    """How the last attempt at a task ended, and with it the task."""

    task: str
    status: Status
    attempts: int
    outcome: Outcome
    worker: Worker | None = None
    files: Files | None = None


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What the driver knows of a task, beside the outcome of its last attempt."""

    attempts: int
    queue_s: float
    spending: Spending
    worker: str | None = None
    node: str | None = None
    supersedes: bool = False


def make_record(task: Task, status: Status, outcome: Outcome, told: Told, folder: str | None) -> Record:
    """`folder` holds the files of the last attempt: only what is there is named."""
    place = f"{FILES_OF_TASKS}/{task.id}"
    patch = outcome.patch if outcome.patch is not None and outcome.patch.bytes else None
    has_patch = patch is not None and folder is not None and os.path.isfile(f"{folder}/patch.diff")
    has_rollout = folder is not None and os.path.isfile(f"{folder}/rollout.jsonl")
    return Record(
        id=task.id,
        status=status,
        attempts=told.attempts,
        thread_id=outcome.thread_id,
        model=outcome.model,
        base_commit=outcome.base_commit,
        started_at=iso_utc(outcome.started_at),
        ended_at=iso_utc(outcome.ended_at),
        duration_s=round(outcome.duration_s, 3),
        queue_s=round(told.queue_s, 3),
        usage=told.spending.used,
        cost_usd=told.spending.known_cost,
        patch=RecordedPatch(path=f"{place}/patch.diff", **msgspec.structs.asdict(patch))
        if patch is not None and has_patch
        else None,
        final_message=outcome.final_message,
        output=outcome.output,
        verify=outcome.verify,
        rollout=f"{place}/rollout.jsonl" if has_rollout else None,
        error=None if status == "ok" else outcome.error or Failure(kind=status, message=status),
        worker=told.worker,
        node=told.node,
        meta=task.meta,
        supersedes=True if told.supersedes else msgspec.UNSET,
    )


class Recorder:
    """What the driver notes of attempts and of money, and the way from an outcome to a record."""

    def __init__(self, opened: Opened, clock: Clock) -> None:
        self._opened = opened
        self._clock = clock
        self._book = Book(opened.folder.path)
        self._queued_s: dict[str, float] = {}
        self._began_s = clock.monotonic()
        self.statuses: dict[str, Status] = dict(opened.statuses)
        """Of tasks that are recorded, as far as this run is about them."""
        self.busy: set[str] = set()
        """Tasks that are being recorded."""
        self._part = frozenset(opened.part)
        self._ended_before: set[Key] = set()
        """Attempts whose end was noted by the driver before this one, which did not come to record it."""
        self.counts = Counter(opened.statuses.values())
        """How many tasks of the part have which status."""

    # ---- what happened -----------------------------------------------------------------------------------------------

    def note_orphans(self, taken_over: Collection[Key]) -> None:
        """Attempts that were lost with the driver before this one, but for those that outlived it."""
        unended = self._opened.folder.unended()
        self._ended_before = {*taken_over} - {(line.id, line.attempt) for line in unended}
        for line in unended:
            if (line.id, line.attempt) in taken_over:
                continue
            reason = "its driver was gone"
            ended = msgspec.structs.replace(line, event="ended", time=self._now(), outcome="lost", reason=reason)
            self._book.attempt(ended)

    def started(self, task: str, number: int, worker: Worker) -> Attempt:
        """An attempt is noted, and then may begin."""
        self._queued_s.setdefault(task, self._clock.monotonic() - self._began_s)
        self._book.attempt(_line("started", task, number, worker, self._now()))
        earlier = self._earlier(task)
        # A task that is done again has its own budget anew.
        before = Spending() if earlier.is_recorded else earlier.spending
        return Attempt(task=self._opened.folder.task(task), number=number, used=before.used, cost_usd=before.cost_usd)

    def ended(self, task: str, number: int, worker: Worker, outcome: Ended, reason: str | None = None) -> None:
        if (task, number) in self._ended_before:
            return
        line = _line("ended", task, number, worker, self._now())
        self._book.attempt(msgspec.structs.replace(line, outcome=outcome, reason=reason))

    def spent(self, spent: Spent) -> None:
        self._earlier(spent.task).spending.add(spent.used, spent.cost_usd)
        self._book.spent(
            SpendLine(
                id=spent.task,
                attempt=spent.attempt,
                provider=spent.provider,
                model=spent.model,
                usage=spent.used,
                cost_usd=spent.cost_usd,
                status=spent.status,
                time=self._now(),
                word=msgspec.UNSET if spent.word is None else spent.word,
            )
        )

    # ---- records -----------------------------------------------------------------------------------------------------

    def is_done(self, task: str) -> bool:
        """It has a record, or is about to get one: whatever else is said of it comes too late."""
        return task in self.busy or task in self.statuses

    async def record(self, last: Last) -> Record:
        """Record a task; when this returns it is done, and on disk. `busy` has it already."""
        try:
            record = await self._record(last)
        except OSError as error:
            raise CannotWrite(f"{error.filename or self._opened.folder.path} cannot be written: {error}") from error
        finally:
            self.busy.discard(last.task)
        self._opened.earlier.pop(last.task, None)
        self.statuses[last.task] = last.status
        if last.task in self._part:
            self.counts[last.status] += 1
        return record

    async def _record(self, last: Last) -> Record:
        task, earlier = self._opened.folder.task(last.task), self._earlier(last.task)
        folder = self._book.new_files(last.task, last.attempts)
        cut: list[str] = []
        if last.files is None:
            os.mkdir(folder)
        else:
            cut = await last.files.take(folder)
        told = Told(
            attempts=last.attempts,
            queue_s=self._queued_s.pop(last.task, self._clock.monotonic() - self._began_s),
            spending=earlier.spending,
            worker=last.worker.name if last.worker is not None else None,
            node=last.worker.node if last.worker is not None else None,
            supersedes=earlier.is_recorded,
        )
        record = make_record(task, last.status, last.outcome, told, folder)
        if cut:
            record = msgspec.structs.replace(record, error=record.error or _cut_error(cut))
        old = await asyncio.to_thread(self._book.keep_files, folder, last.task, last.attempts)
        await self._book.record(record)
        self._book.drop_files(old)
        if last.files is not None:
            await last.files.drop()
        return record

    def now(self) -> float:
        return self._clock.now()

    def close(self) -> None:
        self._book.close()

    def _now(self) -> str:
        return iso_utc(self._clock.now())

    def _earlier(self, task: str) -> Earlier:
        return self._opened.earlier.setdefault(task, Earlier())


def _line(event: Literal["started", "ended"], task: str, number: int, worker: Worker, time: str) -> AttemptLine:
    return AttemptLine(
        event=event, id=task, attempt=number, worker=worker.name, pid=worker.pid, node=worker.node, time=time
    )


def _cut_error(names: list[str]) -> Failure:
    return Failure(
        kind="files_cut",
        message=f"these files were longer than {FILE_BYTES} bytes and lost their end: {', '.join(names)}",
    )
