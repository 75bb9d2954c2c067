"""The patch language, read into hunks.

    *** Begin Patch
    *** Add File: notes.md
    +one line
    *** Delete File: old.txt
    *** Update File: src/a.py
    *** Move to: src/b.py
    @@ def greet():
     kept line
    -removed line
    +added line
    *** End Patch

Only the text is judged here; whether it fits any file is decided in `match` and `apply`.
"""

from __future__ import annotations

from typing import NoReturn

import msgspec

from spindle.errors import PatchError

BEGIN = "*** Begin Patch"
END = "*** End Patch"
ADD = "*** Add File:"
DELETE = "*** Delete File:"
UPDATE = "*** Update File:"
MOVE = "*** Move to:"
END_OF_FILE = "*** End of File"


class AddFile(msgspec.Struct, frozen=True):
    """Make a file, or replace it as a whole."""

    path: str
    content: str


class DeleteFile(msgspec.Struct, frozen=True):
    path: str


class Chunk(msgspec.Struct, frozen=True):
    """One place to change."""

    lines: tuple[tuple[str, str], ...]
    """(" ", text) stays, ("-", text) goes, ("+", text) is new; in the order of the result."""
    anchors: tuple[str, ...] = ()
    """The texts of the `@@ TEXT` lines before it, outermost first."""
    at_end: bool = False
    """`*** End of File` followed: the place is expected at the end."""

    @property
    def old_lines(self) -> list[str]:
        return [text for mark, text in self.lines if mark != "+"]


class UpdateFile(msgspec.Struct, frozen=True):
    """Change lines of a file; with `move_to`, also its name. No chunks means a pure rename."""

    path: str
    chunks: tuple[Chunk, ...]
    move_to: str | None = None


Hunk = AddFile | DeleteFile | UpdateFile


def parse_patch(text: str) -> list[Hunk]:
    """The hunks of a patch, in order; an empty list when it has none. Raises PatchError."""
    return _Reader(_unwrap(_split(text.strip()))).hunks()


def _split(text: str) -> list[str]:
    # Not str.splitlines: form feeds, U+2028 and lone carriage returns are content.
    return [line.removesuffix("\r") for line in text.split("\n")]


def _unwrap(lines: list[str]) -> list[str]:
    """Without the here-document some models wrap around the patch."""
    first, last = lines[0].strip(), lines[-1].strip()
    if len(lines) >= 3 and first.startswith("<<"):
        word = first[2:].strip()
        if len(word) >= 2 and word[0] == word[-1] and word[0] in "'\"":
            word = word[1:-1]
        if word and word == last:
            return _split("\n".join(lines[1:-1]).strip())
    return lines


class _Reader:
    """Walks over the lines once; `self.at` is the index of the next line."""

    def __init__(self, lines: list[str]) -> None:
        if lines[0].strip() != BEGIN:
            raise PatchError(f"invalid patch: The first line of the patch must be '{BEGIN}'")
        if lines[-1].strip() != END:
            raise PatchError(f"invalid patch: The last line of the patch must be '{END}'")
        self.lines = lines[:-1]
        self.at = 1

    def hunks(self) -> list[Hunk]:
        found: list[Hunk] = []
        while not self._is_over():
            line = self._peek().strip()
            if not line:
                self.at += 1
            elif (path := self._argument(line, ADD)) is not None:
                found.append(self._add(path))
            elif (path := self._argument(line, DELETE)) is not None:
                self.at += 1
                found.append(DeleteFile(path))
            elif (path := self._argument(line, UPDATE)) is not None:
                found.append(self._update(path))
            else:
                self._refuse(
                    f"'{line}' is not a valid hunk header; expected one of "
                    f"'{ADD} PATH', '{DELETE} PATH', '{UPDATE} PATH'"
                )
        return found

    def _is_over(self) -> bool:
        return self.at >= len(self.lines)

    def _peek(self) -> str:
        return self.lines[self.at]

    def _refuse(self, reason: str, at: int | None = None) -> NoReturn:
        raise PatchError(f"invalid hunk at line {(self.at if at is None else at) + 1}, {reason}")

    def _argument(self, line: str, header: str) -> str | None:
        """The path behind `header`, or None when the line is something else."""
        path = line.removeprefix(header).strip()
        if not path or not line.startswith(header):
            return None
        if "\0" in path:
            self._refuse("a path must not contain a NUL character")
        return path

    def _add(self, path: str) -> AddFile:
        self.at += 1
        content: list[str] = []
        while not self._is_over() and self._peek().startswith("+"):
            content.append(self._peek()[1:] + "\n")
            self.at += 1
        return AddFile(path, "".join(content))

    def _update(self, path: str) -> UpdateFile:
        header = self.at
        self.at += 1
        move_to = None
        if not self._is_over():
            move_to = self._argument(self._peek().strip(), MOVE)
            self.at += move_to is not None
        chunks: list[Chunk] = []
        while not self._is_over() and not self._peek().startswith("***"):
            if self._peek().strip():
                chunks.append(self._chunk(is_first=not chunks))
            else:
                self.at += 1
        if not chunks and move_to is None:
            self._refuse(f"the update of '{path}' is empty", header)
        return UpdateFile(path, tuple(chunks), move_to)

    def _chunk(self, *, is_first: bool) -> Chunk:
        if not is_first and not self._is_anchor():
            self._refuse(f"expected a line starting with '@@', got '{self._peek()}'")
        anchors: list[str] = []
        while not self._is_over() and self._is_anchor():
            # One blank belongs to the marker; the rest is the indentation of the line looked for.
            if text := self._peek()[2:].rstrip():
                anchors.append(text[1:])
            self.at += 1
        lines = self._chunk_lines()
        at_end = not self._is_over() and self._peek().rstrip() == END_OF_FILE
        if not lines:
            if self._is_over() or at_end:
                self._refuse("a chunk must contain at least one line")
            self._refuse(
                f"'{self._peek()}' must start with ' ' (kept line), '+' (added line) or '-' (removed line)",
            )
        self.at += at_end
        return Chunk(tuple(lines), tuple(anchors), at_end)

    def _is_anchor(self) -> bool:
        line = self._peek()
        return line.rstrip() == "@@" or line.startswith("@@ ")

    def _chunk_lines(self) -> list[tuple[str, str]]:
        lines: list[tuple[str, str]] = []
        while not self._is_over():
            line = self._peek()
            if not line:
                lines.append((" ", ""))
            elif line[0] in " +-":
                lines.append((line[0], line[1:]))
            else:
                break
            self.at += 1
        return lines
