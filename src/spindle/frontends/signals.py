"""Signals that end a server, for front ends that run until somebody ends them."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable


class Signals:
    """Ctrl-C, SIGTERM and SIGHUP end the server as the end of input does; the second one does not wait."""

    def __init__(self, stop: Callable[[], object]) -> None:
        self.caught: int | None = None
        self._end = stop
        self._loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # What was ignored when we were started (nohup) stays ignored.
            if signal.getsignal(number) != signal.SIG_IGN:
                self._loop.add_signal_handler(number, self._stop, number)

    def _stop(self, number: int) -> None:
        self.caught = number
        self._loop.remove_signal_handler(number)
        self._end()
