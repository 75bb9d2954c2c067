"""Which of many open threads rest: all but the ones used last.

A process that holds many threads, and uses them in turn, would otherwise hold the whole past of each of them, most of
it in small objects that leave the memory in pieces when they go.
"""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import islice

from spindle.api.door import OpenThread

MOST_AWAKE = 8
"""So many threads never rest, the ones used last."""

SHORT_BYTES = 500_000
"""A thread whose past is no longer than that rests at once: it takes some milliseconds."""

WAIT_S_PER_MB = 0.2
"""How long a longer one stays awake after it was used, for each megabyte that it packed the last time.

Packing and unpacking a megabyte takes some ten milliseconds. So only a small part of a processor's time goes into it
where many threads take turns.
"""

BUSY_S = 1.0
"""How long until a thread in which something went on is looked at again."""


class RestingThreads:
    """Told which threads are used, it packs the others. All of it happens on one event loop."""

    def __init__(
        self, most_awake: int = MOST_AWAKE, wait_s_per_mb: float = WAIT_S_PER_MB, busy_s: float = BUSY_S
    ) -> None:
        self._most_awake = most_awake
        self._wait_s_per_mb = wait_s_per_mb
        self._busy_s = busy_s
        self._due: dict[OpenThread, float] = {}
        """Threads that do not rest, and from when on each may; the one used last is at the end."""
        self._sizes: dict[OpenThread, int] = {}
        """How many bytes each packed the last time."""
        self._timer: asyncio.TimerHandle | None = None

    def used(self, thread: OpenThread) -> None:
        """It was opened, a turn of it has ended, or somebody looked at what was packed."""
        self._wait(thread, self.waits_s(thread))

    def forget(self, thread: OpenThread) -> None:
        """It is closed."""
        self._due.pop(thread, None)
        self._sizes.pop(thread, None)

    def waits_s(self, thread: OpenThread) -> float:
        """How long it must not have been used before it rests."""
        size = self._sizes.get(thread, 0)
        return size / 1e6 * self._wait_s_per_mb if size > SHORT_BYTES else 0.0

    @property
    def count(self) -> int:
        """How many rest."""
        return len(self._sizes.keys() - self._due.keys())

    def close(self) -> None:
        """No thread is packed from now on."""
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self, thread: OpenThread, seconds: float) -> None:
        self._due.pop(thread, None)
        self._due[thread] = asyncio.get_running_loop().time() + seconds
        self._look_again()

    def _waiting(self) -> list[tuple[float, OpenThread]]:
        """Those that may rest, and from when on."""
        older = islice(self._due.items(), max(0, len(self._due) - self._most_awake))
        return [(due, thread) for thread, due in older]

    def _look_again(self) -> None:
        """Set the timer: another thread may be due now, and sooner than the one that was waited for."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if waiting := self._waiting():
            self._timer = asyncio.get_running_loop().call_at(min(due for due, _ in waiting), self._look)

    def _look(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        waiting = [thread for due, thread in self._waiting() if due <= now]
        # One at a time, and what else there is to do comes in between: nobody has to wait for all of them. More, where
        # several are woken in between.
        try:
            for thread in waiting[: 1 + len(waiting) // 4]:
                del self._due[thread]  # first: one that cannot be packed keeps nobody else from resting
                size = thread.pack(partial(self.used, thread))
                if size is None:
                    self._wait(thread, self._busy_s)
                else:
                    self._sizes[thread] = size or self._sizes.get(thread, 0)
        finally:
            self._look_again()
