"""Finding the place in a file that a chunk of a patch speaks of.

Models quote lines almost right, so a search has four passes, each laxer than the one before; the first hit wins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from spindle.errors import PatchError
from spindle.patch.parse import Chunk

_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
_SINGLE_QUOTES = "\u2018\u2019\u201a\u201b"
_DOUBLE_QUOTES = "\u201c\u201d\u201e\u201f"
_SPACES = "\u00a0\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
_TO_ASCII = str.maketrans(
    _DASHES + _SINGLE_QUOTES + _DOUBLE_QUOTES + _SPACES,
    "-" * len(_DASHES) + "'" * len(_SINGLE_QUOTES) + '"' * len(_DOUBLE_QUOTES) + " " * len(_SPACES),
)


class Replacement(msgspec.Struct, frozen=True):
    """`lines` (marked as in a Chunk) replace the lines of the file that they quote, beginning at `start`."""

    start: int
    lines: tuple[tuple[str, str], ...]


def find_replacements(file_lines: Sequence[str], chunks: Sequence[Chunk], path: str) -> list[Replacement]:
    """Where each chunk goes, sorted by position. `path` is only for the error texts."""
    search = _Search(file_lines)
    found: list[Replacement] = []
    position = 0
    for chunk in chunks:
        for anchor in chunk.anchors:
            at = search.find([anchor], position)
            if at is None:
                raise PatchError(f"Failed to find context '{anchor}' in {path}")
            position = at + 1
        if not chunk.old_lines:
            found.append(Replacement(len(file_lines), chunk.lines))
            continue
        replacement = _place(search, chunk, position)
        if replacement is None:
            raise PatchError(f"Failed to find expected lines in {path}:\n" + "\n".join(chunk.old_lines))
        found.append(replacement)
        if quoted := sum(mark != "+" for mark, _ in replacement.lines):
            position = replacement.start + quoted
    # Stable: several additions at the end of the file keep their order.
    return sorted(found, key=lambda replacement: replacement.start)


def _place(search: _Search, chunk: Chunk, position: int) -> Replacement | None:
    at = search.find(chunk.old_lines, position, at_end=chunk.at_end)
    if at is not None:
        return Replacement(at, chunk.lines)
    if chunk.old_lines[-1] != "":
        return None
    shorter = _without_last_empty_line(chunk.lines)
    old_lines = [text for mark, text in shorter if mark != "+"]
    if not old_lines:
        return Replacement(len(search.lines), shorter)
    at = search.find(old_lines, position, at_end=chunk.at_end)
    return None if at is None else Replacement(at, shorter)


def _without_last_empty_line(lines: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """The chunk without its last old line, which is empty, and without an empty last new line.

    A kept line with additions behind it becomes an addition itself: the result shall have the gap the model saw.
    """
    result = list(lines)
    last_old = max(index for index, (mark, _) in enumerate(result) if mark != "+")
    if result[last_old][0] == " ":
        result[last_old] = ("+", "")
    else:
        del result[last_old]
    last_new = max((index for index, (mark, _) in enumerate(result) if mark != "-"), default=None)
    if last_new is not None and result[last_new] == ("+", ""):
        del result[last_new]
    return tuple(result)


class _Search:
    """Looks for runs of lines in one file; each lax form of the file is made once, when first needed."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self._forms: dict[int, list[str]] = {0: list(lines)}

    def find(self, wanted: list[str], start: int, *, at_end: bool = False) -> int | None:
        end_start = len(self.lines) - len(wanted)
        if end_start < start:
            return None
        if at_end:
            at = self._find_laxer_and_laxer(wanted, end_start)
            if at is not None:
                return at
        return self._find_laxer_and_laxer(wanted, start)

    def _find_laxer_and_laxer(self, wanted: list[str], start: int) -> int | None:
        for level, relax in enumerate(_PASSES):
            at = _index_of_run(self._form(level), [relax(line) for line in wanted], start)
            if at is not None:
                return at
        return None

    def _form(self, level: int) -> list[str]:
        if level not in self._forms:
            relax = _PASSES[level]
            self._forms[level] = [relax(line) for line in self.lines]
        return self._forms[level]


def _index_of_run(lines: list[str], wanted: list[str], start: int) -> int | None:
    last_start = len(lines) - len(wanted)
    at = start - 1
    while True:
        try:
            at = lines.index(wanted[0], at + 1, last_start + 1)
        except ValueError:
            return None
        if lines[at : at + len(wanted)] == wanted:
            return at


def _in_ascii(line: str) -> str:
    return line.strip().translate(_TO_ASCII)


_PASSES: tuple[Callable[[str], str], ...] = (str, str.rstrip, str.strip, _in_ascii)
