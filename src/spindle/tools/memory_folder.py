"""Notes that outlive a thread: a folder of Markdown files for each project, in the agent's own home.

    $CODEX_HOME/spindle/memory/PROJECT/build.md

All functions work below one root and never follow a link; names are plain, sizes bounded. What the model is told at the
start of a thread is the index, not the notes. Raises ToolError with a sentence for the model.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from spindle.errors import ToolError
from spindle.patch.apply import reason_of
from spindle.policy.ownership import foreign_owner
from spindle.protocol.quote import visible
from spindle.thread.private_files import FILE_MODE, make_private_folders, open_private, try_lock
from spindle.tools import safe_files
from spindle.tools.read_file import read_lines

FOLDER = "spindle/memory"
SUFFIX = ".md"
FILE_BYTES = 64 << 10
FILES = 200
DEPTH = 4
NAME_LENGTH = 80
_TITLE_LENGTH = 100
_INDEX_BYTES = 4_096
_LOCK = ".lock"
_LOCK_PAUSE_S = 0.02
_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")


class Note(msgspec.Struct, frozen=True):
    """One file as the index shows it."""

    path: str
    title: str
    """Its first line that is not blank."""
    size: int
    """Bytes."""


def project_folder(home: str, project: str) -> str:
    """Where the notes of the project with the root folder `project` are: its name for people, a hash for the rest."""
    from hashlib import sha256  # once a thread, and only where notes are used

    real = os.path.realpath(project)
    name = "".join(char if char in _NAME else "-" for char in os.path.basename(real)).lstrip(".")[:40] or "root"
    digest = sha256(os.fsencode(real)).hexdigest()[:12]
    return f"{os.path.realpath(home)}/{FOLDER}/{name}-{digest}"


class MemoryFolder:
    """The notes below `root`, which need not exist before the first one is written."""

    def __init__(self, root: str, *, lock_wait_s: float = 5.0) -> None:
        self.root = os.path.realpath(root)
        self._lock_wait_s = lock_wait_s

    # ---- looking -----------------------------------------------------------------------------------

    def notes(self) -> list[Note]:
        """All of them, sorted by path."""
        return sorted(self._walk(self.root, "", DEPTH), key=lambda note: note.path)

    def view(self, path: str = "", *, offset: int = 1, limit: int = 2_000, budget: int = 40_000) -> str:
        """The lines of a note, numbered; without a path, or for a folder, the list of the notes there."""
        folder = path.strip("/")
        if folder in ("", ".") or not folder.endswith(SUFFIX):
            below = "" if folder in ("", ".") else "/".join(_parts(folder)) + "/"
            listed = [note for note in self.notes() if note.path.startswith(below)]
            return "\n".join(f"{_line(note)} ({note.size} bytes)" for note in listed) or "There are no notes here."
        if (uid := foreign_owner(true := self._true(path))) is not None:
            raise ToolError(f"{path} belongs to another user ({uid})")
        return read_lines(true, shown=path, offset=offset, limit=limit, budget=budget)

    def index(self) -> str | None:
        """What a thread is told at its start: each note's name and first line; None when there are none.

        The same notes give the same text. Titles are shown with nothing hidden in them.
        """
        lines: list[str] = []
        size = 0
        notes = self.notes()
        for note in notes:
            line = _line(note)
            size += len(line.encode()) + 1
            if size > _INDEX_BYTES:
                lines.append(f"- and {len(notes) - len(lines)} more; the memory tool lists all of them")
                break
            lines.append(line)
        return "\n".join(lines) or None

    # ---- changing ----------------------------------------------------------------------------------

    def create(self, path: str, text: str) -> None:
        """Write a note; one of that name is replaced."""
        with self._changing():
            if not os.path.lexists(self._true(path)) and len(self.notes()) >= FILES:
                raise ToolError(f"there are {FILES} notes already; delete or merge some before you write another")
            self._write(path, text)

    def str_replace(self, path: str, old: str, new: str) -> None:
        """Exchange a passage that occurs exactly once."""
        with self._changing():
            text = self._read(path)
            count = text.count(old) if old else 0
            if count != 1:
                times = "does not occur" if count == 0 else f"occurs {count} times"
                raise ToolError(f"the text to replace {times} in {path}; give a passage that occurs exactly once")
            self._write(path, text.replace(old, new))

    def insert(self, path: str, line: int, text: str) -> None:
        """Put `text` below line number `line`; 0 puts it at the top."""
        with self._changing():
            lines = self._read(path).removesuffix("\n").split("\n")
            if not 0 <= line <= len(lines):
                raise ToolError(f"{path} has {len(lines)} lines; insert below one of them, or below 0 for the top")
            lines.insert(line, text.removesuffix("\n"))
            self._write(path, "\n".join(lines) + "\n")

    def delete(self, path: str) -> None:
        """Forget a note."""
        with self._changing(), _explained(path):
            safe_files.remove_file(self._true(path))
            self._drop_empty_folders(path)

    def rename(self, path: str, new_path: str) -> None:
        with self._changing():
            text = self._read(path)
            if os.path.lexists(self._true(new_path)):
                raise ToolError(f"there is a note {new_path} already")
            self._write(new_path, text)
            with _explained(path):
                safe_files.remove_file(self._true(path))
            self._drop_empty_folders(path)

    # ---- files -------------------------------------------------------------------------------------

    def _true(self, path: str) -> str:
        parts = _parts(path)
        if not parts[-1].endswith(SUFFIX):
            raise ToolError(f"a note is a Markdown file: its name must end in {SUFFIX}")
        return "/".join((self.root, *parts))

    def _read(self, path: str) -> str:
        with _explained(path):
            return safe_files.read_file(self._true(path), FILE_BYTES).decode("utf-8", "replace")

    def _write(self, path: str, text: str) -> None:
        data = text.encode("utf-8", "replace")
        if len(data) > FILE_BYTES:
            raise ToolError(f"a note may have {FILE_BYTES} bytes, this one would have {len(data)}; keep it short")
        with _explained(path):
            safe_files.write_file(self._true(path), data, mode=FILE_MODE)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """One at a time, also of several agents in one project."""
        with _explained(os.path.basename(self.root)):
            make_private_folders(self.root, self.root)
            lock = open_private(f"{self.root}/{_LOCK}", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)
        try:
            _take(lock, self._lock_wait_s)
            yield
        finally:
            os.close(lock)

    def _walk(self, folder: str, prefix: str, depth: int) -> Iterator[Note]:
        try:
            with safe_files.open_folder(folder) as fd, os.scandir(fd) as found:
                entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]
        except OSError:
            return
        for name, is_folder in entries:
            if not _is_name(name):
                continue
            if is_folder and depth > 1:
                yield from self._walk(f"{folder}/{name}", f"{prefix}{name}/", depth - 1)
            elif name.endswith(SUFFIX) and not is_folder and foreign_owner(f"{folder}/{name}") is None:
                try:
                    data = safe_files.read_file(f"{folder}/{name}", FILE_BYTES)
                except OSError:
                    continue  # a link, a pipe, or gone
                yield Note(prefix + name, _title(data), len(data))

    def _drop_empty_folders(self, path: str) -> None:
        folder = os.path.dirname(self._true(path))
        while folder != self.root:
            try:
                os.rmdir(folder)
            except OSError:
                return
            folder = os.path.dirname(folder)


def _take(lock: int, wait_s: float) -> None:
    """Wait for the others, but not forever: whoever may read the file can hold its lock."""
    for _ in range(1 + int(wait_s / _LOCK_PAUSE_S)):
        if try_lock(lock):
            return
        time.sleep(_LOCK_PAUSE_S)
    raise ToolError("the notes are in use by another program; try again later")


@contextmanager
def _explained(path: str) -> Iterator[None]:
    """A refusal of the operating system as a sentence about the note."""
    try:
        yield
    except OSError as error:
        raise ToolError(f"the note {path} cannot be used: {reason_of(error)}") from error


def _parts(path: str) -> list[str]:
    """The components of a note's path. Anything that could lead out of the folder is refused, not repaired."""
    parts = path.split("/")
    if not all(map(_is_name, parts)) or len(parts) > DEPTH:
        raise ToolError(
            f"{visible(path)[:NAME_LENGTH] or 'an empty path'} cannot name a note; use a relative path of letters, "
            f"digits, -, _ and dots, no part beginning with a dot, at most {DEPTH} levels deep"
        )
    return parts


def _is_name(part: str) -> bool:
    return 0 < len(part) <= NAME_LENGTH and not part.startswith(".") and _NAME.issuperset(part)


def _title(data: bytes) -> str:
    for line in data[:4_096].decode("utf-8", "replace").split("\n"):
        text = line.strip().lstrip("#").strip()
        if text:
            return visible(text)[:_TITLE_LENGTH]
    return ""


def _line(note: Note) -> str:
    return f"- {note.path}: {note.title}" if note.title else f"- {note.path}"
