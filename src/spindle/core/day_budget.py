"""What all threads of a home have used today. Loaded only where a day has a budget.

One small file, which the processes of a home share: what was used, and what each of them has set aside for requests
that run. It begins anew with every local day; nothing is kept of the days before. What a process had set aside that
has died is free again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

import msgspec

from spindle.core.budget import BudgetLedger, Meter, Use, Whose
from spindle.protocol.clock import Clock
from spindle.protocol.settings import BudgetLimits
from spindle.thread.private_files import make_private_folders, open_private, replace_private, wait_for_lock

NAME = "spindle/day.json"
_T = TypeVar("_T")
HELD_AT_MOST_S = 3600.0
"""What was set aside for longer than that is free again, whoever it belongs to."""


class _Held(msgspec.Struct, frozen=True):
    """What a process has set aside for a request."""

    use: Use
    pid: int
    host: str
    since: float


class _Day(msgspec.Struct):
    """The file."""

    day: str = ""
    used: Use = Use()
    seconds: float = 0.0
    largest: dict[Whose, Use] = {}
    held: dict[str, _Held] = {}
    version: int = 1


class DayMeter(Meter):
    """The meter of one day. Another process may change it at any moment, so it is read anew before it is asked."""

    poll_s = 0.25

    def __init__(
        self,
        ledger: BudgetLedger,
        limits: BudgetLimits,
        *,
        home: str,
        clock: Clock,
        past: Callable[[float], tuple[Use, float]],
    ) -> None:
        """`past` tells what the record says was used since a moment: for what nobody counted on this day so far."""
        super().__init__(ledger, "day", limits)
        self._path = f"{home}/{NAME}"
        self._home = home
        self._clock = clock
        self._past = past
        self._told_s: float | None = None
        """Up to when the seconds of the running turn are in the file."""
        self._day_seconds = 0.0
        self._own: list[tuple[Use, str]] = []
        """What this session has set aside, with its names in the file."""
        self._unwritten: _Day | None = None
        """What could not be written, so that the budget holds at least here."""
        self._has_complained = False

    # ---- time: that of every process counts --------------------------------------------------------

    def begin_turn(self, now_s: float) -> None:
        self._told_s = self._last_s = now_s

    @property
    def seconds(self) -> float:
        return self._day_seconds + (self._last_s - self._told_s if self._told_s is not None else 0.0)

    # ---- requests ----------------------------------------------------------------------------------

    def try_hold(self, use: Use) -> bool:
        def hold(day: _Day) -> bool:
            if not Meter.try_hold(self, use):
                return False
            name = self._clock.uuid7()
            day.held[name] = _Held(use, os.getpid(), os.uname().nodename, self._clock.now())
            self._own.append((use, name))
            return True

        return self._with_file(hold)

    def settle(self, held: Use, came_to: Use | None, whose: Whose) -> None:
        # The very object that was set aside: others may have set aside as much.
        name = next((name for use, name in self._own if use is held), "")

        def book(day: _Day) -> None:
            day.held.pop(name, None)
            if came_to is not None:
                day.used += came_to
                day.largest[whose] = day.largest.get(whose, Use()).at_least(came_to)
                day.seconds = self.seconds
                self._told_s = None if self._told_s is None else self._last_s

        self._with_file(book)
        self._own = [entry for entry in self._own if entry[1] != name]
        self.wake()

    def count_attempt(self) -> None:
        def count(day: _Day) -> None:
            day.used += Use(requests=1)

        self._with_file(count)

    # ---- the file ----------------------------------------------------------------------------------

    def _with_file(self, change: Callable[[_Day], _T]) -> _T:
        """Change the file; it is nobody else's as long as that lasts."""
        lock = self._lock()
        day, written = self._read()
        self._take(day)
        try:
            return change(day)
        finally:
            self._take(day)
            self._write(day, written, lock)

    def _lock(self) -> int | None:
        try:
            make_private_folders(os.path.dirname(self._path), self._home)
            lock = open_private(f"{self._path}.lock", os.O_RDWR | os.O_CREAT)
        except OSError as error:
            self._complain(error)
            return None
        wait_for_lock(lock)
        return lock

    def _write(self, day: _Day, written: bytes, lock: int | None) -> None:
        self._unwritten = day
        if lock is None:
            return
        try:
            if (now := msgspec.json.encode(day)) != written:
                replace_private(self._path, now)
            self._unwritten = None
        except OSError as error:
            self._complain(error)
        finally:
            os.close(lock)

    def _read(self) -> tuple[_Day, bytes]:
        """What is in the file, as it counts now, and what was written there."""
        now = self._clock.now()
        today = time.localtime(now)
        date = time.strftime("%Y-%m-%d", today)
        day, written = self._unwritten, b""
        if day is None:
            try:
                with open(self._path, "rb") as file:
                    written = file.read()
                day = msgspec.json.decode(written, type=_Day)
            except (OSError, msgspec.DecodeError, UnicodeDecodeError):
                day = _Day()
        if day.day != date:
            midnight = now - (today.tm_hour * 3600 + today.tm_min * 60 + today.tm_sec)
            used, seconds = self._past(midnight)
            day = _Day(day=date, used=used, seconds=seconds, held=day.held)
        day.held = {name: held for name, held in day.held.items() if _is_alive(held, now)}
        return day, written

    def _take(self, day: _Day) -> None:
        """What the file says is what counts."""
        self.used, self.largest, self._day_seconds = day.used, day.largest, day.seconds
        self.reserved = sum((held.use for held in day.held.values()), Use())

    def _complain(self, error: OSError) -> None:
        if not self._has_complained:
            self._has_complained = True
            reason = error.strerror or str(error)
            self.ledger.warn(
                f"the budget of the day holds for this thread alone: {self._path} cannot be written ({reason})"
            )


def _is_alive(held: _Held, now: float) -> bool:
    if not 0 <= now - held.since < HELD_AT_MOST_S:
        return False
    if held.host != os.uname().nodename:
        return True  # another machine with the same home
    try:
        os.kill(held.pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # somebody else's, but there
    return True
