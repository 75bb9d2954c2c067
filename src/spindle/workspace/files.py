"""Reading files that other people may have prepared: bounded, never blocking, regular files only.

What is read into a prompt comes through `ProjectFiles`: one open that follows no link, and what was opened is judged by
its descriptor. A name that is checked first and opened then could lead somewhere else the second time.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable

import msgspec

from spindle.policy.ownership import foreign_owner, place_of
from spindle.policy.sandbox import is_below
from spindle.protocol.quote import reveal, visible

_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
_KERNEL_FOLDERS = ("/proc", "/sys", "/dev")
_MOST_ENTRIES = 50_000
"""How many names are looked at for another one of the same file."""


def read_regular(path: str, limit: int) -> bytes:
    """At most `limit` bytes from the start of a regular file. Anything else raises OSError.

    Pipes and devices are refused without waiting on them, so a file of a hostile folder cannot hang the program.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        _require_regular(os.fstat(fd), path)
        return _read(fd, limit)
    finally:
        os.close(fd)


def read_own(path: str, limit: int) -> bytes:
    """The same for a file of the user's own: raises LeftOut if it belongs to another user."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        status = os.fstat(fd)
        _require_regular(status, path)
        if (uid := foreign_owner(place_of(fd) or path, status)) is not None:
            raise LeftOut(errno.EACCES, f"it belongs to another user ({uid})", path)
        return _read(fd, limit)
    finally:
        os.close(fd)


class LeftOut(OSError):
    """A file that is there and is not read into a prompt; the message says why."""


class ProjectFiles(msgspec.Struct, frozen=True, kw_only=True):
    """What of a project may be read into a prompt."""

    root: str | None = None
    """The folder that a file must lie in, wherever links lead; None = any."""
    homes: tuple[str, ...] = ()
    """The agent's own folders, real paths: keys and other threads lie there."""
    may_read: Callable[[str], bool] = lambda path: True
    """What the sandbox lets commands read."""

    def read(self, path: str, limit: int) -> bytes:
        """At most `limit` bytes from the start. Raises LeftOut, or another OSError when it cannot be read."""
        fd = open_without_links(os.path.realpath(path))
        try:
            self._judge(fd, path)
            return _read(fd, limit)
        finally:
            os.close(fd)

    def problem(self, path: str) -> str | None:
        """Why the file is not read; None when it is."""
        try:
            self.read(path, 0)
        except OSError as error:
            return error.strerror or str(error)
        return None

    def _judge(self, fd: int, path: str) -> None:
        status = os.fstat(fd)
        _require_regular(status, path)
        place = place_of(fd)
        if place is None or _is_of_kernel(place, status):
            raise LeftOut(errno.EACCES, "it is a link that leads to something that is not an ordinary file", path)
        if self.root is not None and not is_below(place, self.root):
            raise LeftOut(errno.EACCES, "it is a link that leads out of the project", path)
        if any(self._is_in_home(place, status, home) for home in self.homes):
            raise LeftOut(errno.EACCES, "it leads into the agent's own folder", path)
        if (uid := foreign_owner(place, status)) is not None:
            raise LeftOut(errno.EACCES, f"it belongs to another user ({uid})", path)
        if not self.may_read(place):
            raise LeftOut(errno.EACCES, "what it holds may not be read, say the sandbox settings", path)

    def _is_in_home(self, place: str, status: os.stat_result, home: str) -> bool:
        if is_below(place, home):
            return self.root is None or not is_below(self.root, home)
        return status.st_nlink > 1 and _has_name_in(home, status)


def _has_name_in(folder: str, status: os.stat_result) -> bool:
    """Does the file have another name somewhere below? In doubt, among too many names to look at, it has."""
    waiting, left = [folder], _MOST_ENTRIES
    while waiting:
        try:
            entries = os.scandir(waiting.pop())
        except OSError:
            continue
        with entries:
            for entry in entries:
                left -= 1
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif left < 0 or (entry.inode() == status.st_ino and _device_of(entry) == status.st_dev):
                    return True
    return False


def _device_of(entry: os.DirEntry[str]) -> int | None:
    try:
        return entry.stat(follow_symlinks=False).st_dev
    except OSError:
        return None


def open_without_links(path: str) -> int:
    """The file at a real path, open for reading; a link that was put in its way since makes it fail."""
    *folders, name = [part for part in path.split("/") if part] or [""]
    folder = os.open("/", _FOLDER)
    try:
        for part in folders:
            inner = os.open(part, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = inner
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
        return os.open(name, flags, dir_fd=folder)
    finally:
        os.close(folder)


def _read(fd: int, limit: int) -> bytes:
    chunks: list[bytes] = []
    left = limit
    while left > 0 and (chunk := os.read(fd, min(left, 1 << 20))):
        chunks.append(chunk)
        left -= len(chunk)
    return b"".join(chunks)


def _require_regular(status: os.stat_result, path: str) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", path)


def _is_of_kernel(place: str, status: os.stat_result) -> bool:
    """Files of the kernel tell of this process and of others, wherever they are mounted."""
    if any(is_below(place, folder) for folder in _KERNEL_FOLDERS):
        return not is_below(place, "/dev/shm")
    return any(status.st_dev == _device(folder) for folder in _KERNEL_FOLDERS[:2])


def _device(folder: str) -> int | None:
    try:
        return os.stat(folder).st_dev
    except OSError:
        return None


def is_regular(path: str) -> bool:
    """Whether `path` is a regular file, perhaps through a symbolic link that resolves."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def folders_between(root: str, cwd: str) -> list[str]:
    """Every folder from `root` down to `cwd`, both included. `cwd` must lie at or below `root`."""
    folders = [cwd]
    while folders[-1] != root:
        parent = os.path.dirname(folders[-1])
        if parent == folders[-1]:
            return [cwd]
        folders.append(parent)
    folders.reverse()
    return folders


def shown(path: str) -> str:
    """`path` for a message to a person: what could not be seen in it is escaped."""
    return visible(path)


def decoded(path: str, content: bytes, warnings: list[str], *, is_cut: bool = False) -> str:
    """The text of a file; a warning says where it is not UTF-8. Not `is_cut`: its last character is whole."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        if not (is_cut and error.reason == "unexpected end of data"):
            line = content.count(b"\n", 0, error.start) + 1
            warnings.append(
                f"{shown(path)} is not UTF-8 (line {line}): the model is shown \ufffd for what cannot be read; "
                "save it as UTF-8"
            )
    return content.decode("utf-8", "replace")


def revealed(path: str, text: str, warnings: list[str]) -> str:
    """What a model is given of a file others wrote: nothing that a person who reads it would not see.

    Hidden characters become escapes, and a warning names the lines. A clean text comes back as it is.
    """
    text, lines = reveal(text)
    if lines:
        places = ", ".join(map(str, lines[:_LINES_NAMED])) + (", …" if len(lines) > _LINES_NAMED else "")
        warnings.append(
            f"{shown(path)} has invisible or direction-changing characters in line {places}; "
            "the model is shown them as escapes, check what it really says"
        )
    return text


_LINES_NAMED = 5
