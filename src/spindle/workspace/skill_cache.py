"""What the skill files said when they were last read, in a file of the agent's home.

Reading YAML takes a library that loads for longer than all skills take to be looked at. As long as the files are the
same, by their times, size and inode, what is remembered here is used instead. Nothing depends on it: a cache that is
missing, damaged or of another version is made anew.
"""

from __future__ import annotations

import os

import msgspec

from spindle import __version__
from spindle.thread.private_files import FOLDER_MODE, replace_private
from spindle.workspace.files import read_regular

MAX_ENTRIES = 1000
_MAX_BYTES = 8 << 20

Stamp = tuple[tuple[int, ...], ...]
"""One entry for each file that was read; () = there is none."""


class _Entry(msgspec.Struct, frozen=True):
    stamp: Stamp
    said: msgspec.Raw


class _File(msgspec.Struct, frozen=True):
    version: str
    entries: dict[str, _Entry]


class SkillCache:
    """By the path of a SKILL.md: what it said. Read at the first question, written by `save` if anything was new."""

    def __init__(self, home: str) -> None:
        self._folder = f"{home}/spindle"
        self._path = f"{self._folder}/skills.json"
        self._entries: dict[str, _Entry] | None = None
        self._used: dict[str, _Entry] = {}
        self._has_news = False

    def get(self, path: str, stamp: Stamp) -> bytes | None:
        """What was made of the file, as JSON, if it is still the same; None if it must be read."""
        if self._entries is None:
            self._entries = self._load()
        entry = self._entries.get(path)
        if entry is None or entry.stamp != stamp:
            return None
        self._used[path] = entry
        return bytes(entry.said)

    def put(self, path: str, stamp: Stamp, said: msgspec.Struct | str) -> None:
        try:
            path.encode()
            self._used[path] = _Entry(stamp, msgspec.Raw(msgspec.json.encode(said)))
        except UnicodeEncodeError:
            return  # a path with bytes that are no text cannot be kept
        self._has_news = True

    def save(self) -> None:
        """Keep what is new. What other folders have is kept too, until it is too much."""
        if not self._has_news:
            return
        self._has_news = False
        entries = {**(self._entries or {}), **self._used}
        kept = self._used if len(entries) > MAX_ENTRIES else entries
        try:
            if not os.path.isdir(self._folder):
                os.mkdir(self._folder, FOLDER_MODE)
            replace_private(self._path, msgspec.json.encode(_File(__version__, kept)))
        except OSError:
            pass  # a home that cannot be written: the skills are read each time

    def _load(self) -> dict[str, _Entry]:
        try:
            found = msgspec.json.decode(read_regular(self._path, _MAX_BYTES), type=_File)
        except (OSError, msgspec.DecodeError, RecursionError):  # the last one for what is nested without end
            return {}
        return found.entries if found.version == __version__ else {}


def stamp_of(*paths: str) -> Stamp:
    """What changes when the files do: the times when one is written in place, the inode when one is replaced."""
    stamps: list[tuple[int, ...]] = []
    for path in paths:
        try:
            status = os.stat(path)
        except OSError:
            stamps.append(())
        else:
            stamps.append((status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino))
    return tuple(stamps)
