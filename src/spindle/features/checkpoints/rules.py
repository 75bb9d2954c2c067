"""What git ignores below a folder, as far as undo must know it: `.gitignore`, `info/exclude`, the user's own file.

Outside of a repository nothing is ignored. Files that git tracks are not ignored whatever patterns say; their names
are read from git's index. No program is run.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence

from spindle.policy import git_find
from spindle.tools.ignore_rules import IgnoreFile
from spindle.workspace.files import read_regular

GIT_IGNORE = ".gitignore"
_FILE_BYTES = 1 << 18
_INDEX_BYTES = 256 << 20
_ENTRY_HEAD = 62
_EXTENDED = 0x4000
_FLAGS_AT = 60


class Rules:
    """What holds for the entries of one folder: its own file first, then those of the folders above."""

    __slots__ = ("_above", "_file", "_parts")

    def __init__(self, above: Rules | None, parts: Sequence[str], file: IgnoreFile | None) -> None:
        self._above = above
        self._parts = tuple(parts)
        """The folder, from the root."""
        self._file = file

    def hides(self, *below: str, is_folder: bool) -> bool:
        """Is a path hidden, of which the steps below this folder are given?"""
        parts = (*self._parts, *below)
        level: Rules | None = self
        while level is not None:
            if level._file is not None:
                verdict = level._file.verdict(parts[len(level._parts) :], is_folder)
                if verdict is not None:
                    return verdict
            level = level._above
        return False


def parsed(text: bytes | None) -> IgnoreFile | None:
    return None if text is None else IgnoreFile(text.decode("utf-8", "replace"))


def top_rules(root: str) -> Rules | None:
    """What holds at the root of a repository, without its own `.gitignore`; None outside of one."""
    try:
        found = git_find.find(root)
    except git_find.OddRepository:
        return None
    if found is None or found.tree is None:
        return None
    rules: Rules | None = None
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    for path in (f"{config}/git/ignore", f"{found.common_dir}/info/exclude"):
        try:
            rules = Rules(rules, (), parsed(read_regular(path, _FILE_BYTES)))
        except OSError:
            continue
    return rules or Rules(None, (), None)


def tracked_paths(root: str) -> list[str]:
    """The files of git's index, from the root; none where there is no index, or one of a form that is not known."""
    try:
        found = git_find.find(root)
        data = b"" if found is None else read_regular(f"{found.git_dir}/index", _INDEX_BYTES)
    except (OSError, git_find.OddRepository):
        return []
    if data[:4] != b"DIRC":
        return []
    try:
        return [os.fsdecode(name) for name in _names(data)]
    except (struct.error, IndexError, ValueError):
        return []


def index_stamp(root: str) -> tuple[int, int] | None:
    """Changes when git's index does."""
    try:
        found = git_find.find(root)
        status = None if found is None else os.stat(f"{found.git_dir}/index")
    except (OSError, git_find.OddRepository):
        return None
    return None if status is None else (status.st_mtime_ns, status.st_size)


def _names(data: bytes) -> list[bytes]:
    version, count = struct.unpack_from(">II", data, 4)
    if version not in (2, 3, 4):
        return []
    names: list[bytes] = []
    at, name = 12, b""
    for _ in range(count):
        (flags,) = struct.unpack_from(">H", data, at + _FLAGS_AT)
        start = at + _ENTRY_HEAD + (2 if flags & _EXTENDED else 0)
        if version == 4:
            cut, start = _offset(data, start)
            end = data.index(b"\0", start)
            name = name[: len(name) - cut] + data[start:end]
            at = end + 1
        else:
            end = data.index(b"\0", start)
            name = data[start:end]
            at += (end - at + 8) // 8 * 8
        names.append(name)
    return names


def _offset(data: bytes, at: int) -> tuple[int, int]:
    """A number of variable length, as git writes it, and where it ends."""
    byte = data[at]
    value = byte & 0x7F
    while byte & 0x80:
        at += 1
        byte = data[at]
        value = (value + 1 << 7) | (byte & 0x7F)
    return value, at + 1
