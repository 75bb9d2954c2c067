"""`spindle fleet cancel`: stop a run that goes on in another process, or take tasks out of one."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from spindle.errors import SpindleError, UsageError
from spindle.fleet import cancelling
from spindle.fleet.book import RunLock, recover
from spindle.fleet.folder import RunFolder
from spindle.frontends.options import Parsed
from spindle.protocol.clock import SystemClock

PATIENCE_S = 15.0


def run(parsed: Parsed, words: list[str]) -> int:
    folder, ids = RunFolder(words[0]), list(dict.fromkeys(words[1:]))
    if unknown := [task for task in ids if task not in folder]:
        raise UsageError(f"there is no task {unknown[0]!r} in {words[0]}")
    is_alive, open_ids = folder.is_alive(), [task for task in ids if task not in folder.statuses]
    if not is_alive and not ids:
        raise SpindleError(f"no driver is at work in {words[0]}; there is nothing to stop")
    if is_alive:
        cancelling.ask(folder.path, ids)
        _wait(lambda: _is_done(folder.path, ids, open_ids))
        if not folder.is_alive():
            cancelling.take_back(folder.path)
    if open_ids and not folder.is_alive():
        _record_here(folder.path, open_ids)
    statuses = RunFolder(words[0]).statuses
    for task in ids:
        is_cancelled = task in open_ids and statuses.get(task, "cancelled") == "cancelled"
        what = "cancelled" if is_cancelled else f"has a record already ({statuses[task]})"
        sys.stdout.write(f"{task}: {what}\n")
    return 0


def _is_done(out: str, ids: list[str], open_ids: list[str]) -> bool:
    """Whether the driver has done it. One that was only starting has not heard the question: it is asked again."""
    now = RunFolder(out)
    if not now.is_alive() or (ids and all(task in now.statuses for task in open_ids)):
        return True
    if not cancelling.is_asked(out):
        cancelling.ask(out, open_ids if ids else ())
    return False


def _wait(is_done: Callable[[], bool]) -> None:
    give_up = time.monotonic() + PATIENCE_S
    while not is_done():
        if time.monotonic() > give_up:
            raise SpindleError(f"the driver has not done it within {PATIENCE_S:.0f} s; it may still do it")
        time.sleep(0.1)


def _record_here(out: str, ids: list[str]) -> None:
    """No driver is there: the records are written by us, under its lock."""
    lock = RunLock(out)
    try:
        recover(out)
        cancelling.record_cancelled(out, ids, SystemClock())
    finally:
        lock.release()
