"""Rows as bytes: a whole row, or only what has changed in it. Pure."""

from __future__ import annotations

import re
from typing import Protocol

from spindle.frontends.fit import cells
from spindle.frontends.tui.shown import Span
from spindle.frontends.tui.text.layout import Row, row_width

_RESET = "\x1b[0m"
_SURE = re.compile(
    "[\u0020-\u007e\u00a0-\u00ac\u00ae-\u02ff\u0370-\u0482\u048a-\u058f\u2010-\u2027\u2030-\u205e\u20a0-\u20bf"
    "\u2190-\u2319\u2500-\u25fc\u2713-\u2718\u2800-\u28ff\u3041-\u3096\u30a1-\u30ff\u4e00-\u9fff\uac00-\ud7a3\uff01-\uff60]*"
)
"""Characters that every terminal shows in the same number of cells. Of emoji and of marks that join letters, each
terminal has an idea of its own: behind one of these no column is certain."""


_DRIVES = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What no text may hold that is written to a terminal: it drives it, ends the line or turns its direction."""


class Looks(Protocol):
    def sgr(self, style: str) -> str: ...


def is_sure(row: Row) -> bool:
    """Whether we know for certain in which column each character of the row stands."""
    return all(span.text.isascii() or _SURE.fullmatch(span.text) for span in row)


def ink(row: Row, looks: Looks) -> str:
    parts: list[str] = []
    for text, style in row:
        code = looks.sgr(style)
        if not text.isprintable():
            # The last gate. Whoever made the text has to clean it (`text/clean.py`); should one forget, it is not seen.
            text = _DRIVES.sub("\ufffd", text)
        parts.append(f"{code}{text}{_RESET}" if code else text)
    return "".join(parts)


def tidy(row: Row) -> Row:
    """A row without empty spans and without the plain blanks at its end, which nobody sees."""
    kept = [span for span in row if span.text]
    while kept and not kept[-1].style and kept[-1].text.endswith(" "):
        last = kept.pop()
        if text := last.text.rstrip(" "):
            kept.append(Span(text, ""))
    return tuple(kept)


def head(row: Row, width: int) -> Row:
    """The beginning of a row, up to this column."""
    kept: list[Span] = []
    for text, style in row:
        if width <= 0:
            break
        if cells(text) > width:
            text = text[: _reach(text, width)]
        kept.append(Span(text, style))
        width -= cells(text)
    return tuple(kept)


def _reach(text: str, width: int) -> int:
    end = min(len(text), width)
    while end and cells(text[:end]) > width:
        end -= 1
    return end


def change(old: Row, new: Row) -> tuple[int, Row]:
    """How many cells at the beginning are the same, and the rest of the new row. Both rows must be sure."""
    column = 0
    for number, span in enumerate(new):
        before = old[number] if number < len(old) else None
        if before == span:
            column += cells(span.text)
            continue
        if before is None or before.style != span.style:
            return column, new[number:]
        same = _common(before.text, span.text)
        rest = (Span(span.text[same:], span.style),) if same < len(span.text) else ()
        return column + cells(span.text[:same]), (*rest, *new[number + 1 :])
    return column, ()


def _common(one: str, other: str) -> int:
    """The length of the beginning that two texts share."""
    if other.startswith(one):
        return len(one)
    if one.startswith(other):
        return len(other)
    low, high = 0, min(len(one), len(other))
    while low < high:  # the same as letter by letter, in a few comparisons of slices
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def is_shorter(new: Row, old: Row) -> bool:
    return row_width(new) < row_width(old)
