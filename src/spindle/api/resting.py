"""Which of many open threads rest: those that were not used for a while, but for the ones used last."""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import islice

from spindle.api.door import OpenThread

MOST_AWAKE = 8
"""So many threads never rest, the ones used last."""

REST_AFTER_S = 1.0
"""A thread that is used again sooner does not rest in between: packing and unpacking cost more than a short turn."""

SHORT_REST_S = 30.0
"""Who rested for less than that waits twice as long before the next rest: else threads that take turns, on a slow
machine or with a slow model, would be packed and unpacked for every turn."""


class RestingThreads:
    """Told which threads are used, it packs the others. All of it happens on one event loop."""

    def __init__(self, most_awake: int = MOST_AWAKE, after_s: float = REST_AFTER_S) -> None:
        self._most_awake = most_awake
        self._after_s = after_s
        self._used: dict[OpenThread, float] = {}
        """Threads that do not rest, and when each was used; the one used last is at the end."""
        self._waits_s: dict[OpenThread, float] = {}
        """How long those wait that had a short rest."""
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
        self._waits_s.pop(thread, None)

    def waits_s(self, thread: OpenThread) -> float:
        """How long it must not have been used before it rests."""
        return self._waits_s.get(thread, self._after_s)

    def close(self) -> None:
        """No thread is packed from now on."""
        self._used.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _woken(self, thread: OpenThread, since: float) -> None:
        if asyncio.get_running_loop().time() - since < SHORT_REST_S:
            self._waits_s[thread] = 2 * self.waits_s(thread)
        else:
            self._waits_s.pop(thread, None)
        self.used(thread)

    def _waiting(self) -> list[tuple[float, OpenThread]]:
        """Those that may rest, and from when on."""
        older = islice(self._used.items(), max(0, len(self._used) - self._most_awake))
        return [(since + self.waits_s(thread), thread) for thread, since in older]

    def _look_again(self) -> None:
        if waiting := self._waiting():
            # One at a time, and what waits comes in between: nobody has to wait for all of them.
            self._timer = asyncio.get_running_loop().call_at(min(due for due, _ in waiting), self._look)

    def _look(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        thread = next((thread for due, thread in self._waiting() if due <= now), None)
        if thread is not None:
            del self._used[thread]
            if not thread.pack(partial(self._woken, thread, now)):
                self.used(thread)  # something goes on in it
        if self._timer is None:
            self._look_again()
