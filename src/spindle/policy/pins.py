"""The contents of a program that the agent could write: a person's yes can be bound to them.

A pin is the hash of every file in the folders that the program is loaded from, so far as they are in the agent's reach.
What is too large to be looked at, or loads code from wherever it is started, cannot be pinned.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping, Sequence

from spindle.policy.reach import Reach

MAX_FILES = 2000
MAX_BYTES = 32 << 20
_MOST_FOLDERS = 16
_NOT_LOADED = frozenset((".git", "__pycache__"))
"""Not code: the one is protected, and the other is not read with `own_programs.LOADED_APART`."""


class _TooMuch(Exception):
    """There is more than can be pinned."""


def pin_of(reach: Reach, argv: Sequence[str], *, cwd: str, env: Mapping[str, str]) -> str | None:
    """The hash of everything in reach that the command is loaded from; None when it cannot be pinned."""
    folders: dict[str, None] = {}
    for _ in range(_MOST_FOLDERS):
        found = reach.apart_from(tuple(folders)).command(argv, cwd=cwd, env=env)
        if found is None:
            break
        real = os.path.realpath(found.what)
        if found.is_by_folder or not os.path.isabs(found.what) or not os.path.lexists(real):
            return None
        folder = real if os.path.isdir(real) else os.path.dirname(real)
        if folder in folders:
            return None
        folders[folder] = None
        folders.update(dict.fromkeys(_modules_above(reach, folder)))
    else:
        return None
    hashed = hashlib.sha256()
    tree = _Tree(reach.apart_from(tuple(folders)), hashed)
    try:
        for word in argv:
            # A link that leads into a pinned folder is a part of it.
            hashed.update(os.fsencode(os.path.realpath(f"{cwd}/{word}" if not word.startswith("/") else word)) + b"\0")
        for folder in sorted(folders):
            tree.add(folder)
    except (_TooMuch, OSError, ValueError):
        return None
    return hashed.hexdigest()


def _modules_above(reach: Reach, folder: str) -> list[str]:
    """Where Node looks for modules of a file: in `node_modules` of every folder above it."""
    found: list[str] = []
    while (parent := os.path.dirname(folder)) != folder:
        folder = parent
        if os.path.isdir(path := f"{folder}/node_modules") and reach.holds(path):
            found.append(path)
    return found


class _Tree:
    """Adds whole folders to a hash, as long as they are not too large."""

    def __init__(self, others: Reach, hashed: hashlib._Hash) -> None:
        self._others = others
        """What is in reach, apart from what is pinned."""
        self._hashed = hashed
        self._files_left = MAX_FILES
        self._bytes_left = MAX_BYTES

    def add(self, folder: str) -> None:
        self._hashed.update(os.fsencode(folder) + b"\0")
        for name in sorted(set(os.listdir(folder)) - _NOT_LOADED):
            path = f"{folder}/{name}"
            status = os.lstat(path)
            self._files_left -= 1
            if self._files_left < 0:
                raise _TooMuch
            self._hashed.update(os.fsencode(name) + b"\0%o\0" % stat.S_IFMT(status.st_mode))
            if stat.S_ISLNK(status.st_mode):
                if self._others.holds(path):
                    raise _TooMuch
                self._hashed.update(os.fsencode(os.path.realpath(path)) + b"\0")
            elif stat.S_ISDIR(status.st_mode):
                self.add(path)
            elif stat.S_ISREG(status.st_mode):
                self._add_file(path, status.st_size)

    def _add_file(self, path: str, size: int) -> None:
        self._bytes_left -= size
        if self._bytes_left < 0:
            raise _TooMuch
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            self._hashed.update(hashlib.file_digest(file, "sha256").digest())
