"""What all threads of a home have used today. Loaded only where a day has a budget.

One small file, which the processes of a home share: what was used, and what each process has reserved for its running
requests. It starts from zero with every local day and keeps nothing of earlier days. When a process dies, its
reservations become free again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import msgspec

from spindle.core.budget import BudgetLedger, Meter, Use, Whose
from spindle.protocol.clock import Clock
from spindle.protocol.settings import BudgetLimits
from spindle.thread.private_files import make_private_folders, open_private, replace_private, wait_for_lock

NAME = "spindle/day.json"
HELD_AT_MOST_S = 3600.0
"""What was set aside longer ago than this is free again, whichever process it belongs to."""
LOCKED_OUT_AT_MOST_S = 10.0
"""How long requests wait while others keep the file to themselves; then the budget holds for one thread alone."""
_ASKING_PATIENCE_S, _BOOKING_PATIENCE_S, _LAST_PATIENCE_S = 0.05, 1.0, 5.0
"""How long to block for the file: a caller that only asks can come back later."""


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


_Change = Callable[[_Day], None]

_HELD_HERE: set[str] = set()
"""The names of all that this process has set aside, in whichever session."""


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
        self._pending: list[_Change] = []
        """Changes that are not in the file yet, because it was locked or could not be written."""
        self._released: list[str] = []
        """Names of what is free again as soon as the file says so."""
        self._locked_out_s: float | None = None
        """Since when others have kept the file to themselves."""
        self._has_complained = False

    # ---- time: that of every process counts --------------------------------------------------------

    def begin_turn(self, now_s: float) -> None:
        self._told_s = self._last_s = now_s

    @property
    def seconds(self) -> float:
        return self._day_seconds + self._untold_s

    @property
    def _untold_s(self) -> float:
        return self._last_s - self._told_s if self._told_s is not None else 0.0

    # ---- requests ----------------------------------------------------------------------------------

    def try_hold(self, use: Use) -> bool:
        lock = self._lock(_ASKING_PATIENCE_S)
        if lock is None and self._may_wait():
            return False  # never without the lock: two that read the same file would both take what is left
        day, written = self._read()
        try:
            if not Meter.try_hold(self, use):
                return False
            name = self._clock.uuid7()
            held = _Held(use, os.getpid(), os.uname().nodename, self._clock.now())
            self._own.append((use, name))
            _HELD_HERE.add(name)
            self._change(day, lambda day: day.held.update({name: held}))
            return True
        finally:
            self._write(day, written, lock)

    def settle(self, held: Use, came_to: Use | None, whose: Whose) -> None:
        # The very object that was set aside: others may have set aside as much.
        name = next((name for use, name in self._own if use is held), "")
        spent_s = 0.0 if came_to is None else self._untold_s

        def book(day: _Day) -> None:
            day.held.pop(name, None)
            if came_to is not None:
                day.used += came_to
                day.largest[whose] = day.largest.get(whose, Use()).at_least(came_to)
                day.seconds += spent_s

        if came_to is not None:
            self._told_s = None if self._told_s is None else self._last_s
        self._released.append(name)
        self._book(book, _BOOKING_PATIENCE_S)
        self._own = [entry for entry in self._own if entry[1] != name]
        self.wake()

    def count_attempt(self) -> None:
        def count(day: _Day) -> None:
            day.used += Use(requests=1)

        self._book(count, _BOOKING_PATIENCE_S)

    def close(self) -> None:
        if self._pending:
            self._book(lambda day: None, _LAST_PATIENCE_S)

    # ---- the file ----------------------------------------------------------------------------------

    def _book(self, change: _Change, patience_s: float) -> None:
        """Change the file, now or with the next change. What is still set aside there keeps others from using it."""
        lock = self._lock(patience_s)
        day, written = self._read()
        self._change(day, change)
        self._write(day, written, lock)

    def _change(self, day: _Day, change: _Change) -> None:
        change(day)
        self._pending.append(change)
        self._take(day)

    def _may_wait(self) -> bool:
        """Whether the file is worth waiting for. A command of the model can lock it too: then nobody waits long."""
        now_s = self._clock.monotonic()
        if self._has_complained:
            return False
        if self._locked_out_s is None:
            self._locked_out_s = now_s
        if now_s - self._locked_out_s < LOCKED_OUT_AT_MOST_S:
            return True
        self._complain("another program keeps it locked")
        return False

    def _lock(self, patience_s: float) -> int | None:
        """None when the file could not be had."""
        try:
            make_private_folders(os.path.dirname(self._path), self._home)
            lock = open_private(f"{self._path}.lock", os.O_RDWR | os.O_CREAT)
        except OSError as error:
            self._complain(error.strerror or str(error))
            return None
        if wait_for_lock(lock, _ASKING_PATIENCE_S if self._has_complained else patience_s):
            self._locked_out_s = None
            return lock
        os.close(lock)
        return None

    def _write(self, day: _Day, written: bytes, lock: int | None) -> None:
        if lock is None:
            return
        try:
            if (now := msgspec.json.encode(day)) != written:
                replace_private(self._path, now)
            self._pending.clear()
            _HELD_HERE.difference_update(self._released)
            self._released.clear()
        except OSError as error:
            self._complain(error.strerror or str(error))
        finally:
            os.close(lock)

    def _read(self) -> tuple[_Day, bytes]:
        """What counts now, and what is written in the file."""
        now = self._clock.now()
        today = time.localtime(now)
        date = time.strftime("%Y-%m-%d", today)
        written = b""
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
        day.held = {name: held for name, held in day.held.items() if _is_alive(name, held, now)}
        for change in self._pending:
            change(day)
        self._take(day)
        return day, written

    def _take(self, day: _Day) -> None:
        """What the file says is what counts."""
        self.used, self.largest, self._day_seconds = day.used, day.largest, day.seconds
        self.reserved = sum((held.use for held in day.held.values()), Use())

    def _complain(self, reason: str) -> None:
        if not self._has_complained:
            self._has_complained = True
            self.ledger.warn(
                f"the budget of the day holds for this thread alone: {self._path} cannot be written ({reason})"
            )


def _is_alive(name: str, held: _Held, now: float) -> bool:
    if not 0 <= now - held.since < HELD_AT_MOST_S:
        return False
    if held.host != os.uname().nodename:
        return True  # another machine with the same home
    if held.pid == os.getpid():
        return name in _HELD_HERE  # else it belongs to one that had this number before
    try:
        os.kill(held.pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # somebody else's, but there
    return True
