"""What a patch does to files, as old and new text for an editor. Reads the files while they are as before the patch."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from typing import Any

_MAX_BYTES = 2 << 20
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")

Read = Callable[[str], str | None]
"""The text of a file; None when it is not there, or is no text."""


def diff_contents(changes: dict[str, Any], read: Read) -> list[dict[str, Any]]:
    """One diff for each file of a patch that is not written yet."""
    return [_diff(path, change, read) for path, change in changes.items() if isinstance(change, dict)]


def _diff(path: str, change: dict[str, Any], read: Read) -> dict[str, Any]:
    content = str(change.get("content") or "")
    match change.get("type"):
        case "add":
            old, new = read(path), content
        case "delete":
            old, new = content, ""
        case _:
            old, new = _texts(str(change.get("unified_diff") or ""), read(path))
    return {"type": "diff", "path": change.get("move_path") or path, "oldText": old, "newText": new}


def _texts(diff: str, present: str | None) -> tuple[str, str]:
    """The whole file before and after; only the changed places where the file is not what the diff is about."""
    hunks = _hunks(diff)
    if present is not None and (new := _applied(present, hunks)) is not None:
        return present, new
    return "".join(line for _, old, _ in hunks for line in old), "".join(line for _, _, new in hunks for line in new)


def _applied(text: str, hunks: list[tuple[int, list[str], list[str]]]) -> str | None:
    lines = _lines(text)
    result: list[str] = []
    done = 0
    for start, old, new in hunks:
        if start < done or lines[start : start + len(old)] != old:
            return None
        result += [*lines[done:start], *new]
        done = start + len(old)
    return "".join([*result, *lines[done:]])


def _hunks(diff: str) -> list[tuple[int, list[str], list[str]]]:
    """Each with the index of its first line, its old lines and its new ones."""
    hunks: list[tuple[int, list[str], list[str]]] = []
    mark = " "
    for line in _lines(diff):
        if (head := _HUNK.match(line)) is not None:
            start, length = int(head[1]), int(head[2] or 1)
            hunks.append((start - 1 if length else start, [], []))
        elif hunks and line.startswith("\\"):
            # The line before it has no newline: in the old text, the new one or both, as its mark says.
            for side in _sides(hunks[-1], mark):
                side[-1] = side[-1].removesuffix("\n")
        elif hunks:
            mark = line[0]
            for side in _sides(hunks[-1], mark):
                side.append(line[1:])
    return hunks


def _sides(hunk: tuple[int, list[str], list[str]], mark: str) -> list[list[str]]:
    """Where a line with this mark belongs."""
    _, old, new = hunk
    return {" ": [old, new], "-": [old], "+": [new]}.get(mark, [])


def _lines(text: str) -> list[str]:
    """Lines with their newline; only "\\n" ends a line."""
    lines = [line + "\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def read_text(path: str) -> str | None:
    """A file on disk as text."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_BYTES:
            return None
        with open(fd, "rb", closefd=False) as file:
            return file.read(_MAX_BYTES + 1).decode()
    except (OSError, UnicodeDecodeError):
        return None
    finally:
        os.close(fd)
