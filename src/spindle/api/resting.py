"""Which of many open threads rest: those that were not used for a while, but for the ones used last."""

from __future__ import annotations

import asyncio
from functools import partial

from spindle.api.door import OpenThread

MOST_AWAKE = 8
"""So many threads never rest, the ones used last."""

REST_AFTER_S = 1.0
"""A thread that is used again sooner does not rest in between: packing and unpacking cost more than a short turn."""


class RestingThreads:
    """Told which threads are used, it packs the others. All of it happens on one event loop."""

    def __init__(self, most_awake: int = MOST_AWAKE, after_s: float = REST_AFTER_S) -> None:
        self._most_awake = most_awake
        self._after_s = after_s
        self._used: dict[OpenThread, float] = {}
        """Threads that do not rest, and when each was used; the one used last is at the end."""
        self._timer: asyncio.TimerHandle | None = None

    def used(self, thread: OpenThread) -> None:
        """It was opened, a turn of it has ended, or somebody looked at what was packed."""
        self._used.pop(thread, None)
        self._used[thread] = asyncio.get_running_loop().time()
        if self._timer is None:
            self._look_again()

    def forget(self, thread: OpenThread) -> None:
        """It is closed."""
        self._used.pop(thread, None)

    def close(self) -> None:
        """No thread is packed from now on."""
        self._used.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _look_again(self) -> None:
        if len(self._used) > self._most_awake:
            due = next(iter(self._used.values())) + self._after_s
            # One at a time, and what waits comes in between: nobody has to wait for all of them.
            self._timer = asyncio.get_running_loop().call_at(due, self._look)

    def _look(self) -> None:
        self._timer = None
        oldest, since = next(iter(self._used.items()), (None, 0.0))
        is_due = len(self._used) > self._most_awake and since + self._after_s <= asyncio.get_running_loop().time()
        if oldest is not None and is_due:
            del self._used[oldest]
            if not oldest.pack(partial(self.used, oldest)):
                self.used(oldest)  # something goes on in it
        if self._timer is None:
            self._look_again()
