"""What a Markdown text is made of while it is read: containers and the leaf that are open, blocks that are done."""

from __future__ import annotations

from typing import NamedTuple

from spindle.frontends.tui.shown import Line, Span
from spindle.frontends.tui.text.highlight import Highlighter
from spindle.frontends.tui.text.signs import BLANK
from spindle.frontends.tui.text.tables import Table, table_lines

TAIL = 4_000
_TAIL_LINES = 40
"""As much of an unfinished block as is shown: characters and lines."""


class Container:
    """A quote, or an item of a list, that is open."""

    def __init__(self, first: tuple[Span, ...], rest: tuple[Span, ...], indent: int = -1) -> None:
        self.first, self.rest = first, rest
        """What its first row begins with, and every other one."""
        self.indent = indent
        """How far the text of an item is indented; -1 for a quote."""
        self.is_begun = False
        """Something in it was handed out."""
        self.is_empty = indent >= 0
        """An item with nothing behind its bullet so far."""

    def copy(self) -> Container:
        other = Container(self.first, self.rest, self.indent)
        other.is_begun, other.is_empty = self.is_begun, self.is_empty
        return other


class Leaf:
    """The block that the text goes into: `paragraph`, `fence`, `indented`, `html` or `table`."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.lines: list[str] = []
        self.size = 0
        self.fence = ""
        self.indent = 0
        self.end = BLANK
        self.is_flowing = False
        """Too long to wait for its end: its lines are handed out as they come."""
        self.highlighter: Highlighter | None = None
        self.alignments: list[str] = []
        self.blanks = 0
        """Blank lines of indented code that count only if more of it follows."""

    def copy(self) -> Leaf:
        """The same, with no more of its text than is shown of what is unfinished."""
        other = Leaf(self.kind)
        other.lines = self._last_lines()
        other.size, other.fence, other.indent = self.size, self.fence, self.indent
        other.end, other.is_flowing = self.end, self.is_flowing
        other.highlighter = self.highlighter.copy() if self.highlighter else None
        other.alignments, other.blanks = self.alignments, self.blanks
        return other

    def _last_lines(self) -> list[str]:
        first = 1 if self.kind == "table" else 0
        start, size = len(self.lines), 0
        while start > first and size < TAIL and len(self.lines) - start < _TAIL_LINES:
            start -= 1
            size += len(self.lines[start])
        return self.lines[:first] + self.lines[start:]


class Block(NamedTuple):
    """Something finished, to be shown once."""

    lines: list[Line]
    table: Table | None = None
    first: tuple[Span, ...] = ()
    rest: tuple[Span, ...] = ()
    is_rule: bool = False

    def shown(self, width: int) -> list[Line]:
        if self.table is None and not self.is_rule:
            return self.lines
        room = max(1, width - sum(len(span.text) for span in self.rest))
        if self.table is None:
            return [*self.lines, Line((*self.first, Span("─" * min(room, 40), "dim")), (), True)]
        found = table_lines(self.table, room)
        return [
            *self.lines,
            *(
                Line((*(self.rest if number else self.first), *line.spans), (*self.rest, *line.hang), line.is_verbatim)
                for number, line in enumerate(found)
            ),
        ]
