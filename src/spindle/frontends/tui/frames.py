"""When to paint: at once after a key, at most thirty times a second for what happens by itself, and never for nothing.

There is no timer while nothing is to be painted: an idle interface writes no byte and takes no processor time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

SHORTEST_S = 1 / 30
"""The time between two frames that no key asked for."""


class Frames:
    """Calls `paint` when it is time."""

    def __init__(self, paint: Callable[[], None]) -> None:
        self._paint = paint
        self._loop = asyncio.get_running_loop()
        self._last = float("-inf")
        self._next: asyncio.TimerHandle | None = None
        self._beat: asyncio.TimerHandle | None = None
        self._beat_s: float | None = None
        self._is_paused = False

    def now(self) -> None:
        """Paint before anything else happens: a person has pressed a key."""
        if self._next is not None:
            self._next.cancel()
            self._next = None
        if self._is_paused:
            return
        self._last = self._loop.time()
        self._paint()

    def soon(self) -> None:
        """Paint with the next frame; many changes until then are one frame."""
        if self._next is None and not self._is_paused:
            self._next = self._loop.call_at(max(self._last + SHORTEST_S, self._loop.time()), self._due)

    def beat(self, seconds: float | None) -> None:
        """Paint every so many seconds too, for what shows time passing; None = no longer."""
        if seconds == self._beat_s:
            return
        self._beat_s = seconds
        if self._beat is not None:
            self._beat.cancel()
            self._beat = None
        if seconds is not None:
            self._beat = self._loop.call_later(seconds, self._beaten)

    def pause(self) -> None:
        """Another program, or nobody, has the terminal."""
        self._is_paused = True
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def go_on(self) -> None:
        self._is_paused = False
        self.now()

    def stop(self) -> None:
        """Nothing is painted any more."""
        self.pause()
        self.beat(None)

    def _due(self) -> None:
        self._next = None
        self.now()

    def _beaten(self) -> None:
        self._beat = None
        if self._beat_s is not None:
            self._beat = self._loop.call_later(self._beat_s, self._beaten)
            self.soon()
