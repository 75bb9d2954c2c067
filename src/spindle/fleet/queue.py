"""Tasks that wait for a worker: the highest priority first, then one of each group in turn, then the order of the list.

A million ids fit: of each there is nothing but its place in a queue.
"""

from __future__ import annotations

import heapq
from collections import deque


class _Level:
    """The tasks of one priority."""

    def __init__(self) -> None:
        self.groups: dict[str, deque[str]] = {}
        self.turns: deque[str] = deque()
        """Groups that have a task, the next one first."""

    def of(self, group: str) -> deque[str]:
        tasks = self.groups.setdefault(group, deque())
        if not tasks:
            self.turns.append(group)
        return tasks

    def pop(self, removed: set[str]) -> tuple[str, str] | None:
        """A task of the group whose turn it is; those in `removed` are passed over, and taken out of there."""
        while self.turns:
            group = self.turns.popleft()
            tasks, found = self.groups[group], None
            while tasks and found is None:
                task = tasks.popleft()
                found = None if task in removed else task
                removed.discard(task)
            if tasks:
                self.turns.append(group)
            else:
                del self.groups[group]
            if found is not None:
                return group, found
        return None


class FairQueue:
    """What is next."""

    def __init__(self) -> None:
        self._levels: dict[int, _Level] = {}
        self._order: list[int] = []
        """Priorities that were ever used, the highest first, as a heap of their negatives."""
        self._removed: set[str] = set()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, task: str, group: str, priority: int, *, first: bool = False) -> None:
        """At the end of its group; `first`: at the beginning, for one that has waited before."""
        level = self._levels.get(priority)
        if level is None:
            level = self._levels[priority] = _Level()
            heapq.heappush(self._order, -priority)
        tasks = level.of(group)
        if first:
            tasks.appendleft(task)
        else:
            tasks.append(task)
        self._count += 1

    def remove(self, task: str) -> None:
        """Take out one that waits here."""
        self._removed.add(task)
        self._count -= 1

    def pop(self) -> tuple[str, str, int] | None:
        """A task, its group and its priority."""
        while self._order:
            priority = -self._order[0]
            found = self._levels[priority].pop(self._removed)
            if found is not None:
                self._count -= 1
                group, task = found
                return task, group, priority
            del self._levels[-heapq.heappop(self._order)]
        return None
