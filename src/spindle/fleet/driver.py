"""The driver of a run: gives attempts to workers, hears what became of them, and records each task once.

Read `Driver.drive` first. Which task runs where is decided in `schedule.py`, whether a request may be made in
`governor.py`; how a worker is reached is the engine's. What is true of a run is what `book.py` has written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from spindle.errors import SpindleError
from spindle.fleet.cancelling import Requests, take_back
from spindle.fleet.engine import (
    Ended,
    EngineFailed,
    Event,
    Interrupt,
    Lost,
    Revoke,
    Spec,
    Started,
    Worker,
    WorkerGone,
)
from spindle.fleet.engines import Chosen
from spindle.fleet.exchange import NODE, Failure, Outcome, Spent, Status
from spindle.fleet.governor import Governor, Limits
from spindle.fleet.opening import Opened
from spindle.fleet.options import Shape, shape_of
from spindle.fleet.recording import Last, Recorder
from spindle.fleet.schedule import Rules, Schedule, Start, Tried
from spindle.fleet.shared_limits import SharedLimits
from spindle.fleet.watching import Pace, Progress, Summary, Watch
from spindle.protocol.clock import Clock

TICK_S = 0.2
SHOW_EVERY_S = 1.0
STOP_S = 7.0
"""How long attempts that were interrupted may take to end."""
BUDGET_GRACE_S = 10.0
"""How long attempts may go on without a request when the budget of the run is used up."""
STARTS_IN_VAIN = 3


class Driver:
    """One run of the command, from its first attempt to its end."""

    def __init__(self, opened: Opened, engine: Chosen, watch: Watch, clock: Clock) -> None:
        self._opened = opened
        self._watch = watch
        self._clock = clock
        self._shape = shape_of(opened.options, engine.nodes)
        self._recorder = Recorder(opened, clock)
        self._schedule = Schedule(_rules(opened, self._shape))
        self._limits = SharedLimits(
            Governor(_limits(opened), clock, opened.spending),
            clock,
            on_spent=self._note_spent,
            on_revoked=self._revoke,
            on_ended=self._end_for_budget,
        )
        self._engine = engine.make(self._limits)
        self._spec = Spec(terms=opened.terms, per_worker=self._shape.per_worker, run=opened.run, heard=opened.heard)
        self._workers: dict[str, Worker] = {}
        self._part = frozenset(opened.part)
        self._tasks: set[asyncio.Task[None]] = set()
        self._starting = {False: 0, True: 0}
        """Workers that are on their way: ordinary ones, and such for suspects."""
        self._in_vain = 0
        self._cancelled: set[str] = set()
        self._requests = Requests(opened.folder.path)
        self._stopped_because: str | None = None
        self._give_up_s: float | None = None
        """When attempts that were interrupted are not waited for any longer."""
        self._quiet_since: float | None = None
        self._failure: Exception | None = None
        self._over = asyncio.Event()
        self._pace = Pace()

    async def drive(self) -> Summary:
        """Do what there is to do. Raises a SpindleError when the run cannot go on; `--resume` can, later."""
        opened = self._opened
        self._watch.started(len(opened.part), len(opened.todo))
        helpers: list[asyncio.Task[None]] = []
        try:
            is_needed = bool(opened.todo) and not self._is_spent_already()
            if is_needed:
                await self._start_first()
            self._plan()
            if is_needed:
                helpers = [asyncio.create_task(self._guarded(work)) for work in (self._hear(), self._tick())]
                self._step()
                await self._over.wait()
        finally:
            await self._close(helpers)
        if self._failure is not None:
            raise self._failure
        summary = self._summary()
        self._watch.done(summary)
        return summary

    def interrupt(self, why: str) -> None:
        """Start nothing more, and end what runs, unrecorded."""
        if self._give_up_s is None:
            self._stopped_because = self._stopped_because or why
            self._give_up_s = self._clock.monotonic() + STOP_S
            for task, attempt in self._schedule.running:
                self._interrupt(task, attempt)
        self._step()

    # ---- beginning and end -------------------------------------------------------------------------------------------

    def _is_spent_already(self) -> bool:
        limits, spending = self._limits.governor.limits, self._opened.spending
        is_spent = (limits.max_cost is not None and spending.cost_usd >= limits.max_cost) or (
            limits.max_tokens is not None and spending.tokens >= limits.max_tokens
        )
        if is_spent:
            self._stopped_because = "the budget of the run was used up before"
        return is_spent

    async def _start_first(self) -> None:
        for worker in await self._first_workers(min(self._shape.workers, len(self._opened.todo))):
            self._join(worker, alone=False)
            if worker.is_outdated:
                self._schedule.retire(worker.name)

    async def _first_workers(self, count: int) -> list[Worker]:
        for _ in range(STARTS_IN_VAIN - 1):
            try:
                return await self._engine.start(self._spec, count)
            except WorkerGone as gone:
                self._watch.warning(f"{gone}; it is tried again")
        return await self._engine.start(self._spec, count)

    def _plan(self) -> None:
        """What is to be done: attempts that go on since the driver before this one, and the rest of the list."""
        todo, earlier = self._opened.todo, self._opened.earlier
        wanted = {one.id for one in todo}
        taken_over: dict[str, dict[int, str]] = {}
        for worker in self._workers.values():
            for task, attempt in worker.held:
                if task in wanted and not self._is_recorded_by(task, attempt):
                    taken_over.setdefault(task, {})[attempt] = worker.name
                else:
                    self._engine.submit(worker.name, Interrupt(task=task, attempt=attempt))
        self._recorder.note_orphans({(task, attempt) for task, held in taken_over.items() for attempt in held})
        for one in todo:
            attempts = earlier[one.id].attempts if one.id in earlier else 0
            if (running := taken_over.get(one.id)) is not None:
                tried = Tried(one.group, one.priority, attempts, running=running)
                self._schedule.take_over(one.id, tried, self._clock.monotonic())
            else:
                self._schedule.add(one.id, one.group, one.priority, attempts)

    def _is_recorded_by(self, task: str, attempt: int) -> bool:
        """The record that a task has, and that is to be superseded, is of this attempt or of a later one."""
        record = self._opened.folder.record(task)
        return record is not None and attempt <= record.attempts

    async def _close(self, helpers: list[asyncio.Task[None]]) -> None:
        while self._recorder.busy and self._tasks:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        for helper in helpers:
            helper.cancel()
        await asyncio.gather(*helpers, return_exceptions=True)
        self._over.set()
        await self._engine.stop(patience_s=2.0)
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for task, attempt in [*self._schedule.running]:
            worker = self._workers.get(self._schedule.attempts_of(task)[attempt])
            if worker is not None:
                self._recorder.ended(task, attempt, worker, "stopped")
        self._limits.close()
        take_back(self._opened.folder.path)
        self._recorder.close()

    def _summary(self) -> Summary:
        counts = self._recorder.counts
        is_whole = counts.total() == len(self._part)
        return Summary(
            total=len(self._part),
            recorded=counts.total(),
            by_status=dict(sorted(counts.items())),
            cost_usd=self._limits.governor.spending.known_cost,
            stopped_because=None if is_whole else self._stopped_because or "some tasks are left",
        )

    def _fail(self, error: Exception) -> None:
        self._failure = self._failure or error
        self.interrupt(str(error))

    # ---- the loop ----------------------------------------------------------------------------------------------------

    async def _hear(self) -> None:
        async for event in self._engine.events():
            try:
                self._on(event)
            except (SpindleError, OSError) as error:
                self._fail(error)  # what else is heard still counts
            self._step()

    def _on(self, event: Event) -> None:
        match event:
            case Started():
                self._watch.task_started(event.task, event.attempt, event.worker)
            case Ended():
                self._on_ended(event)
            case Lost():
                self._on_lost(event)

    async def _tick(self) -> None:
        shown_s = 0.0
        while True:
            await asyncio.sleep(TICK_S)
            now = self._clock.monotonic()
            for task in self._requests.new():
                self._cancel(task)
            self._end_quiet_attempts(now)
            if self._give_up_s is not None and now > self._give_up_s:
                self._over.set()
            self._step()
            if now - shown_s >= SHOW_EVERY_S and not self._over.is_set():
                shown_s = now
                self._watch.progress(self._progress(now))

    def _step(self) -> None:
        """Start what can be started; notice when there is nothing more to do."""
        try:
            if self._stopped_because is None:
                self._start_more(self._clock.monotonic())
        except SpindleError as error:
            self._fail(error)
        is_idle = not self._schedule.running and not self._recorder.busy
        if is_idle and (self._stopped_because is not None or not self._schedule.waiting):
            self._over.set()

    def _start_more(self, now: float) -> None:
        for start in self._schedule.starts(now):
            self._begin(start)
        if self._opened.options.speculate and (twin := self._schedule.twin(now)) is not None:
            self._begin(twin)
        self._tend_workers()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """Whatever goes wrong ends the run; nothing is lost in a task that nobody looks at."""
        try:
            await work
        except Exception as error:
            self._fail(error)
        self._step()

    # ---- workers -----------------------------------------------------------------------------------------------------

    def _join(self, worker: Worker, *, alone: bool) -> None:
        self._workers[worker.name] = worker
        self._schedule.join(worker.name, alone=alone)

    def _tend_workers(self) -> None:
        """Replace those that died or grew too large, start such for suspects, and end those that nobody needs."""
        for name in self._schedule.idle():
            self._schedule.leave(name)
            self._workers.pop(name, None)
            self._spawn(self._engine.stop(name, patience_s=2.0))
        ordinary, alone = self._schedule.missing(self._shape.workers)
        for is_alone, count in ((False, ordinary), (True, alone)):
            for _ in range(count - self._starting[is_alone]):
                self._starting[is_alone] += 1
                self._spawn(self._grow(alone=is_alone))

    async def _grow(self, *, alone: bool) -> None:
        try:
            (worker,) = await self._engine.start(self._spec, 1)
        except EngineFailed as error:
            self._in_vain += 1
            if self._in_vain >= STARTS_IN_VAIN and not self._over.is_set():
                self._fail(SpindleError(str(error)))  # the run has begun: it stops, and can be resumed
            return
        finally:
            self._starting[alone] -= 1
        self._in_vain = 0
        self._join(worker, alone=alone)

    def _on_lost(self, event: Lost) -> None:
        worker = self._workers.pop(event.worker, None)
        held, used_up = self._schedule.lost(event.worker)
        if held and self._stopped_because is None:
            self._watch.warning(
                f"worker {event.worker} is lost: {event.reason}; {len(held)} attempt{'s' * (len(held) != 1)} with it"
            )
        for task, attempt in held:
            assert worker is not None
            self._recorder.ended(task, attempt, worker, "lost", event.reason)
            if task in self._cancelled:
                self._record_cancelled(task, attempt, worker)
        for task in used_up:
            if not self._recorder.is_done(task):
                reason = f"its worker died every time it ran alone; the last time {event.reason}"
                self._finish(self._without_outcome(task, "quarantined", reason, worker))

    def _revoke(self, provider: str) -> None:
        for name in self._workers:
            self._engine.submit(name, Revoke(provider=provider))

    # ---- attempts ----------------------------------------------------------------------------------------------------

    def _begin(self, start: Start) -> None:
        attempt = self._recorder.started(start.task, start.attempt, self._workers[start.worker])
        self._engine.submit(start.worker, attempt)

    def _interrupt(self, task: str, attempt: int) -> None:
        worker = self._schedule.attempts_of(task).get(attempt)
        if worker is not None:
            self._engine.submit(worker, Interrupt(task=task, attempt=attempt))

    def _on_ended(self, event: Ended) -> None:
        task, now = event.task, self._clock.monotonic()
        since = self._schedule.running.get((task, event.attempt))
        worker = self._workers.get(event.worker)
        if since is None or worker is None:
            self._spawn(event.files.drop())  # of an attempt that was given up
            return
        outcome = event.outcome
        self._recorder.ended(task, event.attempt, worker, outcome.ended)
        if event.memory > self._opened.terms.worker_memory:
            self._schedule.retire(event.worker)
        attempts = self._schedule.tried[task].attempts
        is_last = self._schedule.ended(task, event.attempt, outcome, now)
        if self._recorder.is_done(task):
            self._spawn(event.files.drop())  # another attempt was faster
        elif task in self._cancelled:
            self._spawn(event.files.drop())
            self._record_cancelled(task, attempts, worker)
        elif not is_last or outcome.ended in ("stopped", "lost"):
            self._spawn(event.files.drop())
        elif outcome.may_retry and outcome.error is not None and outcome.error.kind == NODE:
            # To go on would spoil the rest of the list, one task after the other.
            self._spawn(event.files.drop())
            self._fail(SpindleError(f"on node {worker.node}, {outcome.error.message}"))
        else:
            self._pace.task(now - since)
            self._finish(
                Last(
                    task=task,
                    status=outcome.ended,
                    attempts=attempts,
                    outcome=outcome,
                    worker=worker,
                    files=event.files,
                )
            )

    def _finish(self, last: Last) -> None:
        self._recorder.busy.add(last.task)
        self._spawn(self._record(last))

    async def _record(self, last: Last) -> None:
        record = await self._recorder.record(last)
        for attempt in self._schedule.attempts_of(last.task):
            self._interrupt(last.task, attempt)  # a twin that was slower
        self._schedule.done(last.task)
        self._watch.task_done(record)

    def _without_outcome(self, task: str, status: Status, reason: str, worker: Worker | None) -> Last:
        """The end of a task that no attempt has told."""
        now, tried = self._recorder.now(), self._schedule.tried.get(task)
        earlier = self._opened.earlier.get(task)
        attempts = tried.attempts if tried is not None else earlier.attempts if earlier is not None else 0
        outcome = Outcome(ended=status, error=Failure(kind=status, message=reason), started_at=now, ended_at=now)
        return Last(task=task, status=status, attempts=attempts, outcome=outcome, worker=worker)

    # ---- limits and requests of others -------------------------------------------------------------------------------

    def _note_spent(self, spent: Spent) -> None:
        self._pace.request(self._clock.monotonic())
        try:
            self._recorder.spent(spent)
        except SpindleError as error:
            self._fail(error)

    def _end_for_budget(self) -> None:
        """Nothing new starts. Requests that run are paid for: what they bring to its end is still recorded."""
        if self._stopped_because is None:
            self._stopped_because = self._limits.governor.ended_because
            self._step()

    def _end_quiet_attempts(self, now: float) -> None:
        """With the budget used up, attempts that only run commands are not waited for."""
        if self._stopped_because is None or self._give_up_s is not None:
            return
        if self._limits.governor.in_flight:
            self._quiet_since = None
        elif self._quiet_since is None:
            self._quiet_since = now
        elif now - self._quiet_since > BUDGET_GRACE_S:
            self.interrupt(self._stopped_because)

    def _cancel(self, task: str | None) -> None:
        """Somebody asked for it: a task of the list, or the whole run."""
        if task is None:
            self.interrupt("the run was cancelled")
            return
        folder = self._opened.folder
        is_elsewhere = task not in self._part and (task not in folder or task in folder.statuses)
        if is_elsewhere or self._recorder.is_done(task) or task in self._cancelled:
            return
        self._cancelled.add(task)
        if running := self._schedule.attempts_of(task):
            for attempt in running:
                self._interrupt(task, attempt)
            return
        last = self._without_outcome(task, "cancelled", "the task was cancelled", None)
        if task in self._part:
            self._schedule.remove(task)
        self._finish(last)

    def _record_cancelled(self, task: str, attempts: int, worker: Worker) -> None:
        if not self._recorder.is_done(task) and not self._schedule.attempts_of(task):
            self._finish(self._without_outcome(task, "cancelled", "the task was cancelled", worker))

    def _progress(self, now: float) -> Progress:
        summary, running = self._summary(), len(self._schedule.running)
        ok = summary.by_status.get("ok", 0)
        return Progress(
            done=summary.recorded,
            total=summary.total,
            ok=ok,
            failed=summary.recorded - ok,
            running=running,
            cost_usd=summary.cost_usd,
            tokens=self._limits.governor.spending.tokens,
            requests_per_minute=self._pace.requests_per_minute(now),
            eta_s=self._pace.eta_s(summary.total - summary.recorded, running),
            limited_by=self._limits.governor.limited_by(),
        )


def _rules(opened: Opened, shape: Shape) -> Rules:
    retries = opened.options.retries
    return Rules(jobs=shape.jobs, per_worker=shape.per_worker, retries=retries, alone_at_once=max(4, shape.workers))


def _limits(opened: Opened) -> Limits:
    options = opened.options
    return Limits(max_cost=options.max_cost, max_tokens=options.max_tokens, rpm=options.rpm, tpm=options.tpm)
