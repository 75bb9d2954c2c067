"""What a patch makes of the files it names. Bytes in, bytes out; nothing is written here.

Hunks are worked through in order on top of each other, so a later hunk sees what an earlier one made. What comes
out is one net change per file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import msgspec

from spindle.errors import PatchError
from spindle.patch.match import Replacement, find_replacements
from spindle.patch.parse import AddFile, Chunk, DeleteFile, Hunk, UpdateFile

_BYTE_ORDER_MARK = "\ufeff"

Locate = Callable[[str, bool], str]
"""`locate(path, is_removed)`: the absolute path that stands for the file a patch names. Two names of one file give the
same, so links are followed; except the last one of a file that goes, because the patch does not name its target."""


class FileChange(msgspec.Struct, frozen=True, kw_only=True):
    """The net change of one file."""

    kind: Literal["add", "delete", "update"]
    path: str
    old: bytes | None
    """What is there now; an added file may replace one."""
    new: bytes | None
    move_path: str | None = None
    """Where an updated file goes; `path` is then removed."""
    replaced: bytes | None = None
    """What stands at `move_path` now."""

    def to_wire(self) -> dict[str, Any]:
        """The FileChange object of protocol v1."""
        old, new = _shown(self.old), _shown(self.new)
        match self.kind:
            case "add":
                return {"type": "add", "content": new}
            case "delete":
                return {"type": "delete", "content": old}
            case "update":
                from spindle.patch.diff import unified_diff  # only once a patch came

                return {"type": "update", "unified_diff": unified_diff(old, new), "move_path": self.move_path}


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A patch that fits the files."""

    changes: tuple[FileChange, ...]
    added: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    """Paths as the patch writes them, for the summary."""


def summarise(plans: Iterable[Plan]) -> str:
    """The text that tells the model, or a person, what was done."""
    plans = list(plans)
    lines = ["Success. Updated the following files:"]
    lines += [f"A {path}" for plan in plans for path in plan.added]
    lines += [f"M {path}" for plan in plans for path in plan.modified]
    lines += [f"D {path}" for plan in plans for path in plan.deleted]
    return "\n".join(lines) + "\n"


def plan_changes(hunks: Sequence[Hunk], locate: Locate, read: Callable[[str], bytes]) -> Plan:
    """Fit `hunks` to the files, or raise PatchError. `read` gives a regular file's bytes or raises OSError."""
    files = _Files(read)
    added: list[str] = []
    modified: list[str] = []
    deleted: list[str] = []
    for hunk in hunks:
        is_removed = isinstance(hunk, DeleteFile) or (isinstance(hunk, UpdateFile) and hunk.move_to is not None)
        path = locate(hunk.path, is_removed)
        match hunk:
            case AddFile():
                files.add(path, _encode(hunk.content, path))
                added.append(hunk.path)
            case DeleteFile():
                files.delete(path)
                deleted.append(hunk.path)
            case UpdateFile():
                new = update_bytes(files.get(path, "read file to update"), hunk.chunks, path)
                if hunk.move_to is None:
                    files.put(path, new)
                else:
                    files.move(path, locate(hunk.move_to, False), new)
                modified.append(hunk.move_to or hunk.path)
    return Plan(changes=files.changes(), added=tuple(added), modified=tuple(modified), deleted=tuple(deleted))


class _Files:
    """The files as they are on disk, and as the hunks so far left them."""

    def __init__(self, read: Callable[[str], bytes]) -> None:
        self._read = read
        self._before: dict[str, bytes | None] = {}
        self._now: dict[str, bytes | None] = {}
        self._added: set[str] = set()
        self._moves: dict[str, str] = {}

    def get(self, path: str, purpose: str) -> bytes:
        content = self._load(path, purpose)
        if content is None:
            raise PatchError(f"Failed to {purpose} {path}: No such file or directory (os error 2)")
        return content

    def put(self, path: str, content: bytes) -> None:
        self._load(path, "write file")
        self._now[path] = content

    def add(self, path: str, content: bytes) -> None:
        if path not in self._before:
            self._added.add(path)
        self.put(path, content)

    def delete(self, path: str) -> None:
        self.get(path, "delete file")
        self._now[path] = None

    def move(self, source: str, target: str, content: bytes) -> None:
        self.put(target, content)
        if source == target:
            return
        self._now[source] = None
        # A file moved on keeps its first name; a target written twice belongs to the later move.
        origin = next((first for first, last in self._moves.items() if last == source), source)
        self._moves = {first: last for first, last in self._moves.items() if last != target}
        self._moves[origin] = target

    def changes(self) -> tuple[FileChange, ...]:
        moves = {
            source: target
            for source, target in self._moves.items()
            if self._before[source] is not None and self._now[source] is None and self._now[target] is not None
        }
        found: list[FileChange] = []
        for path, old in self._before.items():
            new = self._now[path]
            if path in moves:
                target = moves[path]
                change = FileChange(
                    kind="update",
                    path=path,
                    old=old,
                    new=self._now[target],
                    move_path=target,
                    replaced=self._before[target],
                )
            elif path in moves.values() or (old is None and new is None):
                continue
            elif new is None:
                change = FileChange(kind="delete", path=path, old=old, new=None)
            elif old is None or path in self._added:
                change = FileChange(kind="add", path=path, old=old, new=new)
            else:
                change = FileChange(kind="update", path=path, old=old, new=new)
            found.append(change)
        return tuple(found)

    def _load(self, path: str, purpose: str) -> bytes | None:
        if path not in self._now:
            try:
                self._now[path] = self._read(path)
            except FileNotFoundError:
                self._now[path] = None
            except OSError as error:
                raise PatchError(f"Failed to {purpose} {path}: {reason_of(error)}") from error
            self._before[path] = self._now[path]
        return self._now[path]


def reason_of(error: OSError) -> str:
    """An operating system's refusal in words, in the form models know: `Not a directory (os error 20)`."""
    if error.errno is None:
        return str(error)
    return f"{error.strerror or os.strerror(error.errno)} (os error {error.errno})"


def update_bytes(old: bytes, chunks: Sequence[Chunk], path: str) -> bytes:
    """The file after `chunks`. Every line they do not remove keeps its bytes; the result ends with a newline."""
    if not chunks:
        return old
    try:
        text = old.decode()
    except UnicodeDecodeError as error:
        raise PatchError(f"Failed to read file to update {path}: stream did not contain valid UTF-8") from error
    mark = _BYTE_ORDER_MARK if text.startswith(_BYTE_ORDER_MARK) else ""
    body = text[len(mark) :]
    try:
        new = _updated(body, chunks, path, _ANY_ENDING)
    except PatchError:
        if _LONE_RETURN.search(body) is None:
            raise
        # Programs that draw over a line print them inside of it, and the patch may quote it as it is.
        try:
            new = _updated(body, chunks, path, _NEWLINE)
        except PatchError:
            new = None
        if new is None:
            raise
    return _encode(mark + new, path)


def _updated(text: str, chunks: Sequence[Chunk], path: str, ending: re.Pattern[str]) -> str:
    texts, endings = _split_lines(text, ending)
    return _rebuild(texts, endings, find_replacements(texts, chunks, path))


_ANY_ENDING = re.compile(r"(\r\n|\n|\r)")
_NEWLINE = re.compile(r"(\r?\n)")
_LONE_RETURN = re.compile(r"\r(?!\n)")


def _split_lines(text: str, ending: re.Pattern[str]) -> tuple[list[str], list[str]]:
    """Lines and their endings; the last ending is "" when the file does not end with one."""
    if "\r" in text:
        parts = ending.split(text)
        texts, endings = parts[::2], [*parts[1::2], ""]
    else:
        texts = text.split("\n")
        endings = ["\n"] * (len(texts) - 1) + [""]
    if texts[-1] == "":
        del texts[-1], endings[-1]
    return texts, endings


def _rebuild(texts: list[str], endings: list[str], replacements: list[Replacement]) -> str:
    lines: list[tuple[str, str]] = []
    position = 0
    for replacement in replacements:
        lines += zip(texts[position : replacement.start], endings[position : replacement.start], strict=True)
        position = replacement.start
        # Endings of the lines just removed: the lines that take their place inherit them one by one.
        removed: list[str] = []
        for mark, text in replacement.lines:
            if mark == "+":
                inherited = removed.pop(0) if removed else ""
                lines.append((text, inherited or _ending_near(lines, endings, position)))
                continue
            if mark == "-":
                removed.append(endings[position])
            else:
                removed.clear()
                lines.append((texts[position], endings[position]))
            position += 1
    lines += zip(texts[position:], endings[position:], strict=True)
    # Only the line that was the file's last can lack its ending; it may stand in the middle now.
    for index, (text, ending) in enumerate(lines):
        if not ending:
            lines[index] = (text, lines[index - 1][1] if index else "\n")
    return "".join(text + ending for text, ending in lines)


def _ending_near(before: list[tuple[str, str]], endings: list[str], position: int) -> str:
    """The ending a new line takes: that of the line before it, else of the line behind it."""
    if before and before[-1][1]:
        return before[-1][1]
    behind = endings[position] if position < len(endings) else ""
    return behind or "\n"


def _encode(text: str, path: str) -> bytes:
    try:
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError as error:
        raise PatchError(f"Failed to write file {path}: the text holds a lone surrogate") from error


def _shown(content: bytes | None) -> str:
    return "" if content is None else content.decode(errors="replace")
