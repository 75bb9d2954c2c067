"""Where rollout files are and what their names say: `sessions/YYYY/MM/DD/rollout-TIME-ID.jsonl`, in local time."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

PREFIX = "rollout-"
TOP_FOLDERS = ("sessions", "archived_sessions")
SHORTEST_START = 4
KEPT_SUFFIX = ".damaged"
BACKUP_SUFFIX = ".bak"
"""Behind the name of a rollout file that was gone on with, or mended: no reader takes such a file for a thread."""


def file_name(thread_id: str, unix_s: float) -> str:
    """`rollout-2026-11-15T18-16-43-ID.jsonl`, in local time."""
    return f"{PREFIX}{time.strftime('%Y-%m-%dT%H-%M-%S', time.localtime(unix_s))}-{thread_id}.jsonl"


def is_thread_id(text: str) -> bool:
    """True for the 8-4-4-4-12 form of a UUID."""
    if len(text) != 36 or text[8] != "-" or text[13] != "-" or text[18] != "-" or text[23] != "-":
        return False
    digits = text.replace("-", "")
    return len(digits) == 32 and all(digit in "0123456789abcdefABCDEF" for digit in digits)


def may_begin_id(text: str) -> bool:
    """Whether these are the first characters of a thread id, and enough of them not to be typed by chance."""
    return len(text) >= SHORTEST_START and is_thread_id(text + "00000000-0000-0000-0000-000000000000"[len(text) :])


def is_rollout_name(name: str) -> bool:
    return name.startswith(PREFIX) and name.endswith((".jsonl", ".jsonl.zst"))


def thread_id_of(path: str) -> str | None:
    """The thread id in a rollout file's name."""
    name = os.path.basename(path).removesuffix(".zst").removesuffix(".jsonl")
    return name[-36:].lower() if is_thread_id(name[-36:]) else None


def name_time_of(path: str) -> str:
    """The local time in a rollout file's name, `2026-11-15T18-16-43`; file names sort by it."""
    return os.path.basename(path)[len(PREFIX) : len(PREFIX) + 19]


def day_folder(name: str) -> str:
    """`2026/11/15`, from a rollout file's name."""
    return name_time_of(name)[:10].replace("-", "/")


def top_folder(path: str) -> str:
    """The highest folder that is ours alone: `sessions`, when `path` lies in one, else the file's own folder."""
    folder = os.path.dirname(path)
    current = folder
    for _ in range(4):
        if os.path.basename(current) in TOP_FOLDERS:
            return current
        current = os.path.dirname(current)
    return folder


def rollouts_in(folder: str) -> list[str]:
    """The rollout files of one folder, newest first."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if is_rollout_name(entry.name) and _is_file(entry)]
    except OSError:
        return []
    return [f"{folder}/{name}" for name in sorted(names, reverse=True)]


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:
        return False  # a link that leads to itself


def kept_originals(path: str) -> list[str]:
    """What a damaged file looked like before it was gone on with, or mended, as copies beside it."""
    folder, name = os.path.split(path)
    kept = (name + KEPT_SUFFIX, name + BACKUP_SUFFIX, f"{name}.zst{BACKUP_SUFFIX}")
    try:
        return [f"{folder}/{found}" for found in sorted(os.listdir(folder)) if found.startswith(kept)]
    except OSError:
        return []


def newest_first(sessions: str) -> Iterator[str]:
    """All rollout files under `sessions`, newest first. Folders are read as they are needed."""
    for year in _folders_descending(sessions):
        for month in _folders_descending(year):
            for day in _folders_descending(month):
                yield from rollouts_in(day)


def last_written_first(sessions: str) -> list[str]:
    """All rollout files under `sessions`, the one that was written to last first; equals by their names."""
    return sorted(newest_first(sessions), key=_written_at, reverse=True)


def _written_at(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def days_near(thread_id: str) -> list[str]:
    """The folders of the day on which a (version 7) id was made, and of its neighbours."""
    seconds = int(thread_id.replace("-", "")[:12], 16) / 1000
    try:
        return [time.strftime("%Y/%m/%d", time.localtime(seconds + shift)) for shift in (0, 86_400, -86_400)]
    except (OverflowError, ValueError, OSError):
        return []


def _folders_descending(folder: str) -> list[str]:
    try:
        names = [name for name in os.listdir(folder) if name.isdigit()]
    except OSError:
        return []
    return [f"{folder}/{name}" for name in sorted(names, reverse=True)]
