"""Reads what a tree looks at: single entries of a folder that is open. Nothing here follows a link."""

from __future__ import annotations

import errno
import os

from spindle.features.checkpoints.listing import FULL, LARGE, UNREADABLE, Entry, entry_kind, stamped
from spindle.features.checkpoints.store import Store

GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
"""Reasons why there is nothing under a name, a link in its place among them."""
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_IGNORE_FILE, _IGNORE_BYTES = ".gitignore", 1 << 18
_TRIES = 3


def read_entry(name: str, folder: int, store: Store | None, most: int) -> Entry | None:
    """A file as it is now, its content in the store; None when it is gone or no file any more.

    Of a file that is larger than `most`, or when there is no room in a store, no content is kept.
    """
    try:
        fd = os.open(name, _FILE, dir_fd=folder)
    except OSError as error:
        return None if error.errno in GONE else _unread(name, folder)
    try:
        for _ in range(_TRIES):
            before = os.fstat(fd)
            if entry_kind(before.st_mode) != "f":
                return None
            if before.st_size > most or store is None:
                return stamped("f", FULL if store is None else LARGE, before)
            data = _content(fd, before.st_size)
            after = os.fstat(fd)
            if len(data) == before.st_size == after.st_size and before.st_mtime_ns == after.st_mtime_ns:
                return stamped("f", store.put(data), after)
        return _unread(name, folder)  # somebody writes it all the time
    except OSError:
        return _unread(name, folder)
    finally:
        os.close(fd)


def _content(fd: int, size: int) -> bytes:
    """A file that is open, from its beginning, and one byte more than it is said to have."""
    data = os.pread(fd, size + 1, 0)
    while 0 < len(data) < size and (more := os.pread(fd, size + 1 - len(data), len(data))):
        data += more
    return data


def _unread(name: str, folder: int) -> Entry | None:
    try:
        return stamped("f", UNREADABLE, os.stat(name, dir_fd=folder, follow_symlinks=False))
    except OSError:
        return None


def link_target(name: str, folder: int) -> str:
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError:
        return ""


def ignore_file(folder: int) -> bytes | None:
    """The `.gitignore` of a folder."""
    try:
        fd = os.open(_IGNORE_FILE, _FILE, dir_fd=folder)
    except OSError:
        return None
    try:
        return os.read(fd, _IGNORE_BYTES)
    except OSError:
        return None
    finally:
        os.close(fd)
