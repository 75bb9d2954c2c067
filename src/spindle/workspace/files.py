"""Reading files that other people may have prepared: bounded, never blocking, regular files only."""

from __future__ import annotations

import errno
import os
import stat

from spindle.protocol.quote import reveal, visible


def read_regular(path: str, limit: int) -> bytes:
    """At most `limit` bytes from the start of a regular file. Anything else raises OSError.

    Pipes and devices are refused without waiting on them, so a file of a hostile folder cannot hang the program.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        mode = os.fstat(fd).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        chunks: list[bytes] = []
        left = limit
        while left > 0 and (chunk := os.read(fd, min(left, 1 << 20))):
            chunks.append(chunk)
            left -= len(chunk)
        return b"".join(chunks)
    finally:
        os.close(fd)


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
