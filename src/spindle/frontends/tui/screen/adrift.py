"""What stands below the top of the live area after frames were drawn in another window than they were made for. Pure.

Such a frame goes up too few rows where the terminal has broken some; it cuts rows, writes over halves of them, and the
next window breaks again what it has left. Only who follows it letter by letter knows where the top is afterwards. So
this is a small terminal of its own: it holds the rows as the real one has them, and does with them what tmux does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from spindle.frontends.fit import cells
from spindle.frontends.tui.shown import Line

_TOKEN = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])|([\r\n])|([^\x1b\r\n]+)")


class TerminalRow(NamedTuple):
    cells: tuple[str, ...] = ()
    """A character of two cells has an empty one behind it."""
    goes_on: bool = False
    """The next row belongs to the same line: the terminal has broken it here."""
    is_known: bool = False
    """No frame has gone astray over it."""


class Adrift(NamedTuple):
    """The rows of the terminal, and where the cursor is in them."""

    rows: list[TerminalRow]
    top: int
    """So many of the rows stand above the live area; what is in them is not known."""
    row: int
    column: int
    width: int
    pending: Sequence[Line] = ()
    is_tmux: bool = False
    """In tmux a line feed ends a line that was broken there, and blanks that were written are broken like letters."""

    @property
    def is_top(self) -> bool:
        return self.row == self.top and not self.column

    def is_unbroken(self, width: int) -> bool:
        return not any(row.goes_on for row in self.broken(width).rows)

    def rows_above(self, width: int) -> int:
        """How many rows the top of the live area is above the cursor; negative: it is below it."""
        if self.row < self.top:  # rows that we know nothing of: it may be far, and to stop short is the safe side
            return (self.row - self.top) * (-(-self.width // width) if width < self.width else 1)
        now = self.broken(width)
        return now.row - now.top

    def rest_of_row(self, gone: int, width: int) -> int:
        """How many rows more belong to a line whose beginning has left the window."""
        now = self.broken(width)
        last = at = now.top + gone - 1
        while 0 <= at < len(now.rows) and now.rows[at].goes_on:
            at += 1
        return at - last

    def known(self, width: int) -> int:
        """How many rows, from the top of the live area on, are certainly what they should be."""
        now = self.broken(width)
        return next((n for n, row in enumerate(now.rows[now.top :]) if not row.is_known), len(now.rows) - now.top)

    def raised(self, up: int, width: int) -> Adrift:
        """After the cursor went up, to the first column, in a window of this width."""
        if self.row < self.top and width != self.width:
            above, now = up - self.rows_above(width), self.broken(width)
            return now._replace(rows=[*[TerminalRow()] * above, *now.rows[now.top :]], top=above, row=0, column=0)
        return self.broken(width)._climbed(up)._replace(column=0)

    def _climbed(self, up: int) -> Adrift:
        short = max(0, up - self.row)
        rows = [*[TerminalRow()] * short, *self.rows] if short else self.rows
        return self._replace(rows=rows, top=self.top + short, row=self.row + short - up)

    # ---- a window of another width ---------------------------------------------------------------

    def broken(self, width: int) -> Adrift:
        """The same in a window of another width: lines are put together and broken anew, and the cursor stays with
        its character, or behind the end of its line."""
        if width == self.width:
            return self
        made: list[TerminalRow] = []
        line: list[str] = []
        is_known = True
        top, place, offset = 0, (0, 0), -2  # where the cursor is in this line; -1 is behind its end, -2 elsewhere
        for number, row in enumerate(self.rows):
            if number == self.top:
                top = len(made)
            if number == self.row:
                offset = len(line) + self.column if self.column < len(row.cells) else -1
            line += row.cells if row.goes_on or self.is_tmux else _trimmed(row.cells)
            is_known = is_known and row.is_known
            if row.goes_on and number + 1 < len(self.rows):
                continue
            pieces = _pieces(line, width)
            if offset != -2:
                at, column = _place(pieces, offset)
                place = (len(made) + at, column)
            last = len(pieces) - 1
            made += [TerminalRow(piece, each != last, is_known) for each, piece in enumerate(pieces)]
            line, is_known, offset = [], True, -2
        return self._replace(rows=made, top=top, row=place[0], column=place[1], width=width)

    # ---- a frame -----------------------------------------------------------------------------------

    def drawn(self, frame: str, at: int | None) -> Adrift:
        """After a frame. `at` is the row of the window in which the cursor is before it, if that is known: no movement
        leads out of the window."""
        following = _Following(self, at)
        for given, final, feed, text in _TOKEN.findall(frame):
            if text:
                following.write(text)
            elif feed:
                following.feed(feed)
            else:
                following.obey(given, final)
        return following.result()


class _Following:
    """A frame as the terminal draws it."""

    def __init__(self, start: Adrift, at: int | None) -> None:
        self._page = start
        self._rows = [list(row.cells) for row in start.rows]
        self._goes_on = [row.goes_on for row in start.rows]
        self._is_known = [row.is_known for row in start.rows]
        self._row, self._column, self._top = start.row, start.column, start.top
        self._highest = None if at is None else start.row - at
        """The row that is the first of the window; the window scrolls, so it only sinks."""
        self._wraps = False
        self._reach()

    def result(self) -> Adrift:
        rows = [
            TerminalRow(tuple(row), goes_on, is_known)
            for row, goes_on, is_known in zip(self._rows, self._goes_on, self._is_known, strict=True)
        ]
        return self._page._replace(rows=rows, top=self._top, row=self._row, column=self._column)

    def _reach(self) -> None:
        """The row of the cursor is there."""
        while self._row < 0:
            self._insert(0)
            self._row += 1
            self._top += 1
            self._highest = None if self._highest is None else self._highest + 1
        while self._row >= len(self._rows):
            self._insert(len(self._rows))

    def _insert(self, at: int) -> None:
        self._rows.insert(at, [])
        self._goes_on.insert(at, False)
        self._is_known.insert(at, False)

    def _delete(self, at: int) -> None:
        if at < len(self._rows):
            del self._rows[at], self._goes_on[at], self._is_known[at]

    def feed(self, which: str) -> None:
        if which == "\n":
            self._goes_on[self._row] = self._goes_on[self._row] and not self._page.is_tmux
            self._row += 1
            self._reach()
        else:
            self._column = 0

    def obey(self, given: str, final: str) -> None:
        count = int(given) if given.isdigit() else 1
        if final == "A":
            up = self._row - count
            self._row = up if self._highest is None else max(up, min(self._highest, self._row))
            self._reach()
        elif final == "G":
            self._column = min(count, self._page.width) - 1
        elif final == "K":
            self._erase(self._row)
        elif final == "J":
            self._erase(self._row)
            while len(self._rows) > self._row + 1:
                self._delete(self._row + 1)
        elif final in "ML":
            for _ in range(min(count, len(self._rows) - self._row)):
                self._delete(self._row) if final == "M" else self._insert(self._row)
            self._is_known[self._row :] = [False] * len(self._is_known[self._row :])
            self._reach()
        elif given == "?7":
            self._wraps = final == "h"

    def _erase(self, row: int) -> None:
        del self._rows[row][self._column :]
        self._is_known[row] = False
        if not self._column:
            self._goes_on[row] = False

    def write(self, text: str) -> None:
        for char in text:
            taken = cells(char)
            if not taken:
                continue
            if self._column + taken > self._page.width:
                if self._wraps:
                    self._goes_on[self._row] = True
                    self._row, self._column = self._row + 1, 0
                    self._reach()
                else:
                    self._column = max(0, self._page.width - taken)
            row = self._rows[self._row]
            row += [" "] * (self._column - len(row))
            row[self._column : self._column + taken] = [char, *[""] * (taken - 1)]
            self._is_known[self._row] = False
            self._column += taken


def _trimmed(row: tuple[str, ...]) -> tuple[str, ...]:
    end = len(row)
    while end and row[end - 1] == " ":
        end -= 1
    return row[:end]


def _pieces(line: Sequence[str], width: int) -> list[tuple[str, ...]]:
    """A line as the rows that it takes."""
    made: list[tuple[str, ...]] = []
    start = 0
    while len(line) - start > width:
        end = start + width
        end -= line[end] == "" and end - start > 1  # a character of two cells is not divided
        made.append(tuple(line[start:end]))
        start = end
    return [*made, tuple(line[start:])]


def _place(pieces: Sequence[tuple[str, ...]], offset: int) -> tuple[int, int]:
    """In which row of a line, and in which column, the cursor is; an offset of -1 is behind its end."""
    if offset < 0:
        return len(pieces) - 1, len(pieces[-1])
    for number, piece in enumerate(pieces):
        if offset < len(piece) or number + 1 == len(pieces):
            return number, offset
        offset -= len(piece)
    raise AssertionError("a line has at least one row")
