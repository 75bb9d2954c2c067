"""How far above the cursor the live area begins, after the terminal has broken its rows anew. Pure.

To go up too far would take away what belongs to the terminal; to go up too little leaves something of the live area
behind. Where it is not certain, it is the latter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Union

from spindle.frontends.fit import cells, rows_of
from spindle.frontends.tui.screen import inking
from spindle.frontends.tui.shown import Line
from spindle.frontends.tui.text.layout import Row, height, row_width

if TYPE_CHECKING:
    from spindle.frontends.tui.screen.adrift import Adrift


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

    def known(self, width: int) -> int:
        """How many rows of the terminal, at the top, are certainly what they should be."""
        return 1 << 20

    def adrift(self, width: int, *, is_tmux: bool = False) -> Adrift:
        """The same, row by row, in a window of this width."""
        from spindle.frontends.tui.screen.adrift import Adrift, TerminalRow  # only when a frame has gone astray

        texts = ("".join(span.text for span in self._cut(number)) for number in range(len(self.rows)))
        rows = [TerminalRow(tuple(_cells(text)), is_known=True) for text in texts]
        return Adrift(rows, 0, self.row, self.column, self.width, self.pending, is_tmux).broken(width)

    def raised(self, up: int, width: int) -> Standing | Adrift:
        """After the cursor went up, to the first column, in a window of this width."""
        left = self.rows_above(width) - up
        if left < 0:
            return self.adrift(width).raised(up, width)
        for number, tall in enumerate(self.heights(width)):
            if left < tall:
                text = "".join(span.text for span in self._cut(number))
                column = sum(cells(piece) for piece in rows_of(text, width)[:left])
                return self._replace(row=number, column=column)
            left -= tall
        return self


def _cells(text: str) -> Iterator[str]:
    """What stands in each cell; nothing in the second one of a wide character."""
    for char in text:
        for number in range(cells(char)):
            yield "" if number else char


Place = Union[Standing, "Adrift"]
