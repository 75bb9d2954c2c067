"""Large tool outputs, each kept in its own file; a handle says where.

One text a call, below $CODEX_HOME/spindle/offload/THREAD, readable by its owner only. Nothing here fails a turn: when
the text cannot be stored, there is no handle, and the caller cuts the output as always.
"""

from __future__ import annotations

import os

import msgspec

from spindle.thread.private_files import FILE_MODE, make_private_folders, unlink_if_possible, write_all

FOLDER = "spindle/offload"
MAX_BYTES = 64 << 20
"""No more of one output is kept."""
MAX_THREAD_BYTES = 256 << 20
"""A thread that has put aside this much puts aside no more: what a handle names must stay."""
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
_NAME_LENGTH = 100
_SAME_CALL = 1_000


class Handle(msgspec.Struct, frozen=True, kw_only=True):
    """Where an output went."""

    path: str
    size: int
    """Bytes."""
    lines: int

    @property
    def line(self) -> str:
        """What the model is told; it names the file, so that `read_file` or a command can get the rest."""
        return (
            f"[The whole output is in {self.path} ({self.lines} lines, {self.size} bytes); read what you need of it.]"
        )


def folder_of(home: str, thread_id: str) -> str:
    """The folder that holds what one thread put aside."""
    return f"{home.rstrip('/')}/{FOLDER}/{_plain(thread_id)}"


def store_output(home: str, thread_id: str, call_id: str, text: str, *, most: int = MAX_THREAD_BYTES) -> Handle | None:
    """Put `text` aside; None when that is not possible. Secrets must be taken out of it before.

    A second output of the same call gets a file of its own: what a handle names never changes.
    """
    data = text.encode("utf-8", "replace")
    if len(data) > MAX_BYTES:
        data = data[:MAX_BYTES].decode("utf-8", "ignore").encode() + b"\n[cut here]\n"
    folder = folder_of(home, thread_id)
    path = ""
    try:
        make_private_folders(folder, f"{home.rstrip('/')}/{FOLDER}")
        if _size_of(folder) + len(data) > most:
            return None
        fd, path = _create(folder, _plain(call_id))
        try:
            write_all(fd, data)
        finally:
            os.close(fd)
    except OSError:
        if path:
            unlink_if_possible(path)
        return None
    return Handle(path=path, size=len(data), lines=data.count(b"\n") + (not data.endswith(b"\n") and len(data) > 0))


def forget_outputs(home: str, thread_id: str) -> None:
    """Remove what a thread put aside, when the thread itself is deleted."""
    folder = folder_of(home, thread_id)
    try:
        for name in os.listdir(folder):
            os.unlink(f"{folder}/{name}")
        os.rmdir(folder)
    except OSError:
        pass


def is_offloaded(true: str, homes: tuple[str, ...], thread_id: str) -> bool:
    """Is the file at a true path one that this thread put aside?"""
    return any(os.path.dirname(true) == folder_of(home, thread_id) for home in homes)


def _size_of(folder: str) -> int:
    with os.scandir(folder) as found:
        return sum(entry.stat(follow_symlinks=False).st_size for entry in found)


def _create(folder: str, name: str) -> tuple[int, str]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    for number in range(1, _SAME_CALL):
        path = f"{folder}/{name}{f'-{number}' if number > 1 else ''}.txt"
        try:
            fd = os.open(path, flags, FILE_MODE)
        except FileExistsError:
            continue
        os.fchmod(fd, FILE_MODE)  # whatever the umask
        return fd, path
    raise FileExistsError(folder)


def _plain(name: str) -> str:
    """An id as a file name. Ids are given by servers, so anything else than a plain word is replaced by its hash."""
    if name and len(name) <= _NAME_LENGTH and _PLAIN.issuperset(name):
        return name
    from hashlib import sha256  # rarely needed

    return "x" + sha256(name.encode("utf-8", "replace")).hexdigest()[:32]
