"""Reading what the kernel tells in /proc.

By plain system calls: a file object asks for five things that are not wanted here, and programs wait for the answer.
"""

from __future__ import annotations

import os

_CHUNK = 16 * 1024


def read(path: str) -> bytes:
    """The whole file. Raises OSError, as opening and reading it does."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        # To the very end: a list may come in several pieces, each shorter than what was asked for.
        data = piece = os.read(fd, _CHUNK)
        while piece:
            piece = os.read(fd, _CHUNK)
            data += piece
        return data
    finally:
        os.close(fd)


def read_record(path: str) -> bytes:
    """The same for what the kernel writes as one piece: the files of a single process, its list of children apart."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, _CHUNK)
    finally:
        os.close(fd)
