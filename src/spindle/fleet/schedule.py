"""Which task runs where, what is tried again, and what has used up its tries. Pure: time comes in with every call.

A worker never holds more than its share, and all workers together never more than the jobs of the run. A worker that
dies makes suspects of the tasks it held: each is tried again alone, in a worker of its own, and only a death alone
counts against the retries of a task.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections import deque

import msgspec

from spindle.fleet.exchange import Outcome
from spindle.fleet.queue import FairQueue

FIRST_DELAY_S, LONGEST_DELAY_S = 0.5, 30.0
"""Between a failure that may pass and the next attempt."""
KEPT_DURATIONS = 10_000
SLOW_FACTOR = 3.0
SLOW_AT_LEAST_S = 1.0
ENOUGH_TO_COMPARE = 3
Key = tuple[str, int]
"""A task's id and the number of an attempt at it."""


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """How much at a time, and how often."""

    jobs: int
    per_worker: int
    retries: int = 2
    alone_at_once: int = 4
    """Suspects that may run at a time, each in a worker of its own."""


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that is to begin now."""

    task: str
    attempt: int
    worker: str


class Tried(msgspec.Struct):
    """A task that was started."""

    group: str = ""
    priority: int = 0
    attempts: int = 0
    """Started, those of earlier parts of the run too."""
    failures: int = 0
    """That count against its retries."""
    running: dict[int, str] = {}
    """Its attempts, and their workers."""
    is_done: bool = False
    """It is recorded; attempts that still run are nobody's."""


class _Worker(msgspec.Struct):
    alone: bool = False
    """For suspects: one task at a time."""
    is_full: bool = False
    """Gets no new task."""
    running: set[Key] = set()


class Schedule:
    """The state of a run, apart from what is on disk."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.running: dict[Key, float] = {}
        """Since when."""
        self.tried: dict[str, Tried] = {}
        self._queue = FairQueue()
        self._later: list[tuple[float, str]] = []
        self._suspects: deque[str] = deque()
        self._workers: dict[str, _Worker] = {}
        self._durations: list[float] = []
        self._twins: set[str] = set()

    # ---- tasks -------------------------------------------------------------------------------------------------------

    def add(self, task: str, group: str, priority: int, attempts: int = 0) -> None:
        """A task that is to be done; `attempts` were started in earlier parts of the run."""
        if attempts:
            self.tried[task] = Tried(group, priority, attempts)
        self._queue.add(task, group, priority)

    def take_over(self, task: str, tried: Tried, now: float) -> None:
        """A task whose attempts go on in workers that have joined."""
        self.tried[task] = tried
        for number, worker in tried.running.items():
            self.running[task, number] = now
            self._workers[worker].running |= {(task, number)}

    def remove(self, task: str) -> None:
        """It is not to be started (again)."""
        if task in self._suspects:
            self._suspects.remove(task)
        elif any(task == name for _, name in self._later):
            self._later = [entry for entry in self._later if entry[1] != task]
            heapq.heapify(self._later)
        elif not self.attempts_of(task):
            self._queue.remove(task)
        self.done(task)

    @property
    def waiting(self) -> int:
        """How many wait for a worker, or for their time."""
        return len(self._queue) + len(self._later) + len(self._suspects)

    def attempts_of(self, task: str) -> dict[int, str]:
        """Those that run, and where."""
        tried = self.tried.get(task)
        return {} if tried is None else tried.running

    # ---- workers -----------------------------------------------------------------------------------------------------

    def join(self, worker: str, *, alone: bool = False) -> None:
        self._workers[worker] = _Worker(alone)

    def retire(self, worker: str) -> None:
        """It gets no new task."""
        if (known := self._workers.get(worker)) is not None:
            known.is_full = True

    def leave(self, worker: str) -> None:
        """An empty worker was ended."""
        self._workers.pop(worker, None)

    def idle(self) -> list[str]:
        """Workers that can be ended: empty ones that get no new task, or that no suspect waits for."""
        spare = [name for name, one in self._workers.items() if not one.running and (one.is_full or one.alone)]
        return [name for name in spare if self._workers[name].is_full or not self._suspects]

    def missing(self, wanted: int) -> tuple[int, int]:
        """How many workers are to be started: ordinary ones, of `wanted`, and such for suspects."""
        ordinary = sum(not one.alone and not one.is_full for one in self._workers.values())
        alone = sum(one.alone and not one.is_full for one in self._workers.values())
        room = wanted - ordinary if len(self._queue) + len(self._later) > 0 else 0
        return max(0, min(room, self.waiting)), max(0, min(len(self._suspects), self.rules.alone_at_once) - alone)

    # ---- what is next ------------------------------------------------------------------------------------------------

    def starts(self, now: float) -> list[Start]:
        """Attempts that are to begin now; each is running from here on."""
        while self._later and self._later[0][0] <= now:
            task = heapq.heappop(self._later)[1]
            tried = self.tried[task]
            self._queue.add(task, tried.group, tried.priority, first=True)
        found: list[Start] = []
        while len(self.running) < self.rules.jobs:
            start = self._next(now)
            if start is None:
                break
            found.append(start)
        return found

    def wake_at(self) -> float | None:
        return self._later[0][0] if self._later else None

    def _next(self, now: float) -> Start | None:
        if self._suspects:
            free = next(
                (n for n, one in self._workers.items() if one.alone and not one.running and not one.is_full), None
            )
            if free is not None:
                return self._start(self._suspects.popleft(), free, now)
        worker = self._roomiest()
        found = self._queue.pop() if worker is not None else None
        if worker is None or found is None:
            return None
        task, group, priority = found
        self.tried.setdefault(task, Tried(group, priority))
        return self._start(task, worker, now)

    def _roomiest(self) -> str | None:
        open_ones = [
            (len(one.running), name)
            for name, one in self._workers.items()
            if not one.alone and not one.is_full and len(one.running) < self.rules.per_worker
        ]
        return min(open_ones)[1] if open_ones else None

    def _start(self, task: str, worker: str, now: float) -> Start:
        tried = self.tried[task]
        tried.attempts += 1
        number = tried.attempts
        tried.running = {**tried.running, number: worker}
        self.running[task, number] = now
        self._workers[worker].running |= {(task, number)}
        return Start(task=task, attempt=number, worker=worker)

    def twin(self, now: float) -> Start | None:
        """A second attempt at a task that takes far longer than others did, where a worker has nothing to do."""
        limit, worker = self.slow_after(), self._roomiest()
        if limit is None or worker is None or self.waiting or len(self.running) >= self.rules.jobs:
            return None
        for (task, attempt), since in self.running.items():
            if now - since > limit and task not in self._twins and self.tried[task].running.get(attempt) != worker:
                self._twins.add(task)
                return self._start(task, worker, now)
        return None

    def slow_after(self) -> float | None:
        """What takes longer than this is slow; None while too few have ended."""
        return slow_after(self._durations, ENOUGH_TO_COMPARE)

    # ---- what became of it -------------------------------------------------------------------------------------------

    def ended(self, task: str, attempt: int, outcome: Outcome, now: float) -> bool:
        """An attempt is over. True: its outcome is the task's, to be recorded; the task is done with here.

        An outcome that may be another next time is tried again. `stopped` is nobody's outcome: the task stays undone.
        """
        since = self._forget(task, attempt)
        if since is None or outcome.ended == "stopped":
            return False
        if outcome.ended in ("ok", "verify_failed", "invalid_output", "agent_failed"):
            self._note_duration(now - since)
        tried = self.tried.get(task)
        if tried is None:
            return False  # another attempt was faster
        if outcome.may_retry and (tried.running or tried.failures < self.rules.retries):
            tried.failures += 1
            if not tried.running:  # else a twin may still do it
                delay = min(LONGEST_DELAY_S, FIRST_DELAY_S * 2 ** (tried.failures - 1))
                heapq.heappush(self._later, (now + delay, task))
            return False
        return True

    def lost(self, worker: str) -> tuple[list[Key], list[str]]:
        """A worker is gone: the attempts that went with it, and the tasks whose tries are used up by that."""
        gone = self._workers.pop(worker, None)
        if gone is None:
            return [], []
        held, used_up = sorted(gone.running), list[str]()
        for task, attempt in held:
            self._forget(task, attempt)
            tried = self.tried.get(task)
            if tried is None:
                continue
            if len(held) == 1:
                tried.failures += 1
                if tried.failures > self.rules.retries and not tried.running:
                    used_up.append(task)
                    continue
            if not tried.running:
                self._suspects.append(task)
        return held, used_up

    def done(self, task: str) -> None:
        """It is recorded: nothing more is remembered of it."""
        tried = self.tried.get(task)
        if tried is not None:
            tried.is_done = True
            if not tried.running:
                del self.tried[task]

    def _forget(self, task: str, attempt: int) -> float | None:
        since = self.running.pop((task, attempt), None)
        tried = self.tried.get(task)
        if tried is not None and attempt in tried.running:
            holder = self._workers.get(tried.running[attempt])
            if holder is not None:
                holder.running = holder.running - {(task, attempt)}
            tried.running = {number: name for number, name in tried.running.items() if number != attempt}
            if tried.is_done and not tried.running:
                del self.tried[task]
        return since

    def _note_duration(self, seconds: float) -> None:
        if len(self._durations) >= KEPT_DURATIONS:
            del self._durations[::2]
        insort(self._durations, seconds)


def slow_after(durations: list[float], enough: int) -> float | None:
    """Three times what 95 of 100 stay below; `durations` are in order."""
    if len(durations) < enough:
        return None
    return max(SLOW_AT_LEAST_S, SLOW_FACTOR * durations[min(len(durations) - 1, int(len(durations) * 0.95))])
