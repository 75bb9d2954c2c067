"""A rollout file that exists already: continuing it, and who else may be writing to it.

A new thread makes its own file and loads none of this.
"""

from __future__ import annotations

import os
import stat

from spindle.errors import ThreadError, ThreadLocked
from spindle.thread import layout, private_files
from spindle.thread.reading import parse_line, read_bytes

OPENED = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
"""How a file is opened that is to be written again."""


def plain_path(path: str) -> str:
    """Replace a compressed file by its plain text, which can be appended to; gives the path of the plain file."""
    if not path.endswith(".zst"):
        return path
    plain = path.removesuffix(".zst")
    # The plain file is whole before the other goes: killed in between, we leave both, and the next start uses this one.
    if not os.path.exists(plain):
        private_files.replace_private(plain, read_bytes(path))
    os.unlink(path)
    return plain


def open_regular(path: str) -> int:
    """Open a file to be written again. Raises ThreadError for what is no file."""
    # Opening a device or a pipe could wait for ever, or do something.
    kind = stat.S_IFMT(os.lstat(path).st_mode)
    if kind not in (stat.S_IFREG, stat.S_IFLNK):
        raise ThreadError(f"{path} is not a regular file")
    return os.open(path, OPENED)


def open_as_left(path: str, size: int) -> int:
    """Open and lock a file that was this long when we let go of it. Raises ThreadError when somebody else writes it,
    or has written it meanwhile."""
    fd = os.open(path, OPENED)
    if not private_files.try_lock(fd):
        os.close(fd)
        raise locked(path)
    # Checked under the lock. What another process has added meanwhile is not in our memory, and to go on from here
    # would fork the thread within one file.
    if os.fstat(fd).st_size != size:
        os.close(fd)
        raise ThreadError(f"another process has gone on with this thread: {path}")
    return fd


def next_ordinal(fd: int, size: int) -> int | None:
    """The number after that of the last numbered line, if the file's first line has one."""
    if b'"ordinal":' not in os.pread(fd, 128, 0):
        return None
    length = 1 << 16
    while True:
        start = max(0, size - length)
        lines = os.pread(fd, size - start, start).split(b"\n")
        # Unless the file's beginning was read, the first piece is the end of a line.
        for line in reversed(lines[1:] if start else lines):
            record = parse_line(line)
            if record is not None and record.ordinal is not None:
                return record.ordinal + 1
        if not start:
            return None
        length *= 8


def check_unused(path: str) -> None:
    """Raise ThreadLocked while some process writes this file: what it still records must not be lost."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return  # whoever asked will meet the same error and can say what it means
    try:
        if not private_files.try_lock(fd):
            raise locked(path)
    finally:
        os.close(fd)


def locked(path: str) -> ThreadLocked:
    """The error for a file that somebody else writes: another process, or another client in this one."""
    holder = private_files.lock_holder(path)
    thread = f"thread {layout.thread_id_of(path) or path}"
    if holder == os.getpid():
        return ThreadLocked(f"{thread} is open in this process already; close it there first")
    return ThreadLocked(f"{thread} is being written by another process{f' (pid {holder})' if holder else ''}")
