"""When a run is over, and how it went: with its turn, with the goal that turn after turn serves, or by a signal."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

from spindle.frontends import standard_streams
from spindle.protocol.events import Error, Event, Msg, TaskComplete, TaskStarted, TurnAborted
from spindle.protocol.ops import Interrupt

if TYPE_CHECKING:
    from spindle.api.door import OpenThread
    from spindle.frontends.exec.printer import Printer


class Ending:
    """Hears every event of a run."""

    def __init__(self, last_op: str | None) -> None:
        """`last_op` is the id of the last op that was handed in: until it has begun to work, nothing is over."""
        self.last_message: str | None = None
        self._awaited = last_op
        self._is_running = False
        self._has_failed = False
        self._goal: str | None = None
        """The status of the thread's goal."""
        self._has_pursued = False
        """The goal was active in this run."""

    def hear(self, event: Event, *, is_planning: bool = False) -> bool:
        """True when nothing more is to come. In plan mode no goal is worked on."""
        msg = event.msg
        match msg:
            case TaskStarted():
                self._is_running = True
            case TaskComplete(last_agent_message=said):
                self._is_running = False
                self.last_message = said if said is not None or not self._has_pursued else self.last_message
            case TurnAborted():
                self._is_running, self._has_failed = False, True
            case Error():
                self._has_failed = True
            case _ if msg.__struct_config__.tag == "thread_goal_updated":
                self._note_goal(msg)
            case _:
                return False
        if event.id == self._awaited:
            self._awaited = None
        return not self._is_running and self._awaited is None and (self._goal != "active" or is_planning)

    def _note_goal(self, msg: Msg) -> None:
        from spindle.protocol.goal import ThreadGoalUpdated  # with the event

        assert isinstance(msg, ThreadGoalUpdated)
        self._goal = None if msg.goal is None else msg.goal["status"]
        self._has_pursued |= self._goal == "active"

    @property
    def failed(self) -> bool:
        """A run for a goal ends well when the goal is complete, any other when its turn is."""
        return self._goal != "complete" if self._has_pursued else self._has_failed

    def cut_short(self) -> None:
        """The thread ended before the run did."""
        self._has_failed, self._goal = True, None


class Signals:
    """Ctrl-C and SIGTERM stop the turn; the thread stays resumable. A second Ctrl-C does not wait."""

    def __init__(self, thread: OpenThread, printer: Printer) -> None:
        self.caught: int | None = None
        self._thread = thread
        self._printer = printer
        loop = asyncio.get_running_loop()
        _forget_handler_of_asyncio()
        # What was ignored when we were started (nohup, a background job) stays ignored.
        numbers = [
            number
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
            if signal.getsignal(number) != signal.SIG_IGN
        ]
        for number in numbers:
            loop.add_signal_handler(number, self._stop, number)
        standard_streams.bound_writes_after(numbers)

    @property
    def exit_code(self) -> int:
        return 1 if self.caught == signal.SIGINT else 128 + (self.caught or 0)

    def _stop(self, number: int) -> None:
        if self.caught is not None:
            self._thread.kill()
            self._printer.abandon()
            os._exit(128 + number)
        self.caught = number
        self._printer.stopping()
        self._thread.submit(Interrupt(), "")


def _forget_handler_of_asyncio() -> None:
    """Another one takes its place. `signal` writes out what a handler holds, here the loop, to find no name for it."""
    import _signal  # pyright: ignore[reportMissingImports]  # it does not

    if _signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        _signal.signal(signal.SIGINT, signal.default_int_handler)
