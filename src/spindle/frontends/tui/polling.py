"""The event loop of the interface: it knows for how long a key may have waited for it.

Keys that came together because we were busy, or because other programs had the processor, were not pasted.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from typing import Any

AT_ONCE_S = 0.001
"""A poll that took less found what it gives already there."""


class Polling(selectors.DefaultSelector):
    """A selector that notes when it was last asked, and when it answered."""

    def __init__(self) -> None:
        super().__init__()
        self.waited_s = 0.0
        """For how long what the last poll found may have been there before."""
        self._answered_s = time.monotonic()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, Any]]:
        asked_s = time.monotonic()
        found = super().select(timeout)
        now_s = time.monotonic()
        self.waited_s = asked_s - self._answered_s if now_s - asked_s < AT_ONCE_S else 0.0
        self._answered_s = now_s
        return found


def make_loop() -> asyncio.AbstractEventLoop:
    polling = Polling()
    loop = asyncio.SelectorEventLoop(polling)
    loop.polling = polling  # pyright: ignore[reportAttributeAccessIssue]
    return loop


def waited_s(loop: asyncio.AbstractEventLoop) -> float:
    """For how long keys that were just found may have waited."""
    polling = getattr(loop, "polling", None)
    return polling.waited_s if isinstance(polling, Polling) else 0.0
