"""The event loop of the interface: it knows for how long a key may have waited for it.

Keys that came together because we were busy, or because other programs had the processor, were not pasted.
"""

from __future__ import annotations

import asyncio
import os
import selectors
import time
from typing import Any

AT_ONCE_S = 0.001
"""A poll that took less found what it gives already there."""
_SCHEDULED = "/proc/self/schedstat"
"""Of Linux: for how long this process ran, and for how long it could have run but others did, in nanoseconds."""


class Polling(selectors.DefaultSelector):
    """A selector that notes when it was last asked, and when it answered."""

    def __init__(self) -> None:
        super().__init__()
        self.waited_s = 0.0
        """For how long what the last poll found may have been there before."""
        self._answered_s = time.monotonic()
        try:
            self._scheduled = os.open(_SCHEDULED, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._scheduled = -1

    def nobody_read_since(self, when_s: float) -> None:
        """What the next poll finds may be there since then: nobody looked."""
        self._answered_s = min(self._answered_s, when_s)

    def close(self) -> None:
        super().close()
        if self._scheduled >= 0:
            os.close(self._scheduled)
            self._scheduled = -1

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, Any]]:
        asked_s, delayed_s = time.monotonic(), self._delayed_s()
        found = super().select(timeout)
        now_s = time.monotonic()
        delay_s = self._delayed_s() - delayed_s
        is_found_at_once = timeout == 0 or now_s - asked_s - delay_s < AT_ONCE_S
        self.waited_s = delay_s + (asked_s - self._answered_s if is_found_at_once else 0.0)
        self._answered_s = now_s
        return found

    def _delayed_s(self) -> float:
        """For how long, in all, other programs had the processor while we wanted it; 0 where nobody says."""
        if self._scheduled < 0:
            return 0.0
        try:
            return int(os.pread(self._scheduled, 100, 0).split()[1]) / 1e9
        except (OSError, ValueError, IndexError):
            return 0.0


def make_loop() -> asyncio.AbstractEventLoop:
    polling = Polling()
    loop = asyncio.SelectorEventLoop(polling)
    loop.polling = polling  # pyright: ignore[reportAttributeAccessIssue]
    return loop


def nobody_read_since(loop: asyncio.AbstractEventLoop, when_s: float) -> None:
    """Keys that are found next may have been typed since then."""
    polling = getattr(loop, "polling", None)
    if isinstance(polling, Polling):
        polling.nobody_read_since(when_s)


def waited_s(loop: asyncio.AbstractEventLoop) -> float:
    """For how long keys that were just found may have waited."""
    polling = getattr(loop, "polling", None)
    return polling.waited_s if isinstance(polling, Polling) else 0.0
