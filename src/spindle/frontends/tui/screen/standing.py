"""How far above the cursor the live area begins, after the terminal has broken its rows anew. Pure.

To go up too far would take away what belongs to the terminal; to go up too little leaves something of the live area
behind. Where it is not certain, it is the latter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from spindle.frontends.fit import cells, rows_of
from spindle.frontends.tui.screen import inking
from spindle.frontends.tui.shown import Line
from spindle.frontends.tui.text.layout import Row, height, row_width


class Standing(NamedTuple):
    """A live area that was drawn as it should be, and where in it the cursor is."""

    rows: list[Row]
    row: int
    column: int
    width: int
    """Of the window in which it was drawn: what is wider was cut."""
    pending: Sequence[Line] = ()
    """The lines at its top that will be finished later, if they are seen from their beginning."""
    was_broken: bool = False
    """It was drawn over rows that the terminal had broken, and puts together again in a wider window."""

    @property
    def is_top(self) -> bool:
        """Whether the cursor is at the very beginning."""
        return not self.row and not self.column

    def rows_above(self, width: int) -> int:
        """How many rows of the terminal stand between its top and the cursor: the cursor stays with its character."""
        if width >= self.width:
            return 0 if width > self.width and self.was_broken else self.row
        above = sum(self.heights(width)[: self.row])
        row = self._cut(self.row)
        is_behind = self.column >= row_width(row)
        within = inking.head(row, row_width(row) if is_behind else self.column + 1)
        return above + height(within, width) - 1

    def heights(self, width: int) -> list[int]:
        return [height(self._cut(number), width) for number in range(len(self.rows))]

    def is_unbroken(self, width: int) -> bool:
        """Whether no row is too wide. One that was broken is one line to the terminal, whatever is written over it."""
        return width >= self.width or max(self.heights(width)) == 1

    def _cut(self, number: int) -> Row:
        row = self.rows[number]
        return inking.head(row, self.width) if row_width(row) > self.width else row

    def rest_of_row(self, gone: int, width: int) -> int:
        """How many rows more belong to a row whose beginning has left the window. They have to stay: to the terminal
        they are one line, and what were written there would become a part of it."""
        for tall in self.heights(width):
            if gone <= tall:
                return tall - gone
            gone -= tall
        return 0

    @property
    def known(self) -> int:
        """How many rows of the terminal, at the top, are certainly what they should be."""
        return 1 << 20

    def raised(self, up: int, width: int) -> Standing | Adrift:
        """After the cursor went up, to the first column, in a window of this width."""
        left = self.rows_above(width) - up
        if left < 0:
            return Adrift(self, left, width, 0)
        for number, tall in enumerate(self.heights(width)):
            if left < tall:
                text = "".join(span.text for span in self._cut(number))
                column = sum(cells(piece) for piece in rows_of(text, width)[:left])
                return self._replace(row=number, column=column)
            left -= tall
        return self


class Adrift(NamedTuple):
    """What was written since `base` was drawn in another window than it was made for. Only its height is known."""

    base: Standing
    below: int
    """So many rows of the terminal are between the top of `base` and the cursor; negative: the cursor is above it."""
    width: int
    """As long as the window is as wide as this."""
    untouched: int
    """So many of them, at the top, are still what they were."""

    @property
    def pending(self) -> Sequence[Line]:
        return self.base.pending

    @property
    def is_top(self) -> bool:
        return not self.below

    def is_unbroken(self, width: int) -> bool:
        return self.base.is_unbroken(width)

    def rows_above(self, width: int) -> int:
        if width == self.width or (width > self.width and self.below < 0):
            return self.below
        if self.below < 0:
            return self.below * -(-self.width // width)
        return self.below if width < self.width else self._below_when_wider(width)

    def _below_when_wider(self, width: int) -> int:
        """Rows that were not touched are put together again. The others are not: we went over them by line feeds."""
        rows, left = 0, self.untouched
        for number, tall in enumerate(self.base.heights(self.width)):
            if left < tall:
                # What stands behind the last of them may become a part of it.
                return rows + (-(-left * self.width // width) - 1 if left else 0) + self.below - self.untouched
            rows += self.base.heights(width)[number]
            left -= tall
        return rows + self.below - self.untouched

    def rest_of_row(self, gone: int, width: int) -> int:
        return self.base.rest_of_row(gone, width) if gone <= self.untouched else 0

    @property
    def known(self) -> int:
        return max(0, self.untouched)

    def raised(self, up: int, width: int) -> Adrift:
        return self._replace(below=self.rows_above(width) - up, width=width)


Place = Standing | Adrift
