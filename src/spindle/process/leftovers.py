"""Temporary names in a person's folders: listed in the agent's home while they exist, so that a crash leaves none.

Whoever makes one lists it first and holds a lock on the list, which a crash releases. The next start removes what is
listed and no longer locked.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

PREFIX = "unfinished-"
"""How the names of such lists begin, in `spindle/` below the agent's home."""
_LONGEST_PATH = 1 << 16


def temporary_name() -> str:
    """A name that nobody else has, and that is known to be ours."""
    return f".spindle-{os.urandom(8).hex()}.tmp"


@contextmanager
def listed(path: str, home: str | None) -> Iterator[None]:
    """While this lasts, something temporary may be at `path`. Best effort: without a home there is no list."""
    fd, name = None, f"{home}/spindle/{PREFIX}{os.urandom(8).hex()}"
    if home:
        try:
            if not os.path.isdir(f"{home}/spindle"):
                os.mkdir(f"{home}/spindle", 0o700)
            fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(fd, os.fsencode(path))
        except OSError:
            pass
    try:
        yield
    finally:
        if fd is not None:
            _unlink(name)
            os.close(fd)


def recover(home: str) -> None:
    """Remove what crashed runs have left."""
    folder = f"{home}/spindle"
    try:
        names = [name for name in os.listdir(folder) if name.startswith(PREFIX)]
    except OSError:
        return
    for name in names:
        try:
            fd = os.open(f"{folder}/{name}", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            continue  # its owner has just finished
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(os.fsdecode(os.read(fd, _LONGEST_PATH)))
            _unlink(f"{folder}/{name}")
        except OSError:
            pass  # its owner is alive
        finally:
            os.close(fd)


def _remove(path: str) -> None:
    import re  # only after a crash

    if re.fullmatch(r"\.spindle-[0-9a-f]{16}\.tmp", os.path.basename(path)):
        try:
            if stat.S_ISREG(os.lstat(path).st_mode):
                os.unlink(path)
        except (OSError, ValueError):
            pass


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
