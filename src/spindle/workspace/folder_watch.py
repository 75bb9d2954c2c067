"""Which folders were touched since the last look, as the kernel tells (inotify). Linux; elsewhere there is none.

Asking costs next to nothing, where looking at every file of a large tree takes most of a second. What cannot be told
(too many events, too many folders) is said, and then everything is looked at.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys

_HEAD = struct.Struct("iIII")
_READ_BYTES = 1 << 16
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC

_MODIFY, _ATTRIB, _CLOSE_WRITE = 0x2, 0x4, 0x8
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x40, 0x80, 0x100, 0x200
_DELETE_SELF, _MOVE_SELF = 0x400, 0x800
_UNMOUNT, _OVERFLOW, _IGNORED = 0x2000, 0x4000, 0x8000
_ONLYDIR, _DONT_FOLLOW = 0x01000000, 0x02000000
_MASK = (
    _MODIFY
    | _ATTRIB
    | _CLOSE_WRITE
    | _MOVED_FROM
    | _MOVED_TO
    | _CREATE
    | _DELETE
    | _DELETE_SELF
    | _MOVE_SELF
    | _ONLYDIR
    | _DONT_FOLLOW
)
MOST_FOLDERS = 40_000
"""The kernel allows each user a number of them, which other programs need too."""


class LostTrack(Exception):
    """Not all folders can be watched, or not all events were heard: everything must be looked at."""


class FolderWatch:
    """The folders below one root, by their paths. `touched` empties what was heard since."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._libc.inotify_init1(_FLAGS)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        self._folders: dict[int, str] = {}
        self._watches: dict[str, int] = {}

    def fileno(self) -> int:
        """Readable when there is something to hear."""
        return self._fd

    def add(self, path: str, folder: int) -> None:
        """Watch a folder that is open as `folder`. Raises LostTrack when that cannot be."""
        if len(self._watches) >= MOST_FOLDERS:
            raise LostTrack
        # Through the descriptor: whatever a name leads to by now, this is the folder that is looked at.
        name = os.fsencode(f"/proc/self/fd/{folder}/.")
        watch = self._libc.inotify_add_watch(self._fd, name, _MASK)
        if watch < 0:
            raise LostTrack
        # A folder that was moved keeps its watch: the old name must not take it away later.
        former = self._folders.get(watch)
        if former is not None and former != path:
            self._watches.pop(former, None)
        self._folders[watch] = path
        self._watches[path] = watch

    def remove(self, path: str) -> None:
        watch = self._watches.pop(path, None)
        if watch is not None:
            self._folders.pop(watch, None)
            self._libc.inotify_rm_watch(self._fd, watch)

    def has(self, path: str) -> bool:
        return path in self._watches

    def touched(self) -> set[str]:
        """The folders in which something happened. Raises LostTrack when that is not known."""
        found: set[str] = set()
        while True:
            try:
                data = os.read(self._fd, _READ_BYTES)
            except BlockingIOError:
                return found
            except OSError as error:
                if error.errno == errno.EINTR:
                    continue
                raise LostTrack from error
            at = 0
            while at < len(data):
                watch, mask, _, length = _HEAD.unpack_from(data, at)
                at += _HEAD.size + length
                if mask & (_OVERFLOW | _UNMOUNT):
                    raise LostTrack
                path = self._folders.get(watch)
                if mask & _IGNORED:
                    self._forget(watch)
                elif path is not None:
                    found.add(path)

    def _forget(self, watch: int) -> None:
        """The kernel has let go of it: the folder is gone."""
        path = self._folders.pop(watch, None)
        if path is not None and self._watches.get(path) == watch:
            del self._watches[path]

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def make_watch() -> FolderWatch | None:
    """None where there is no such thing."""
    if not sys.platform.startswith("linux") or not os.path.isdir("/proc/self/fd"):
        return None
    try:
        return FolderWatch()
    except (OSError, AttributeError):
        return None
