"""The whole thread, unfolded, for the pager: made into lines where it is looked at, and forgotten again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence

from spindle.frontends.tui.cells.cell import Cell, Look
from spindle.frontends.tui.shown import BLANK, Line

_KEPT = 64
"""How many blocks are kept as lines, so that scrolling to and fro costs nothing."""


class Transcript:
    """A sequence of blocks of lines, one for each cell; a block costs something only when it is asked for."""

    def __init__(self, cells: Sequence[Cell], look: Look) -> None:
        self._cells = cells
        self._look = look
        self._made: OrderedDict[int, list[Line]] = OrderedDict()

    def __len__(self) -> int:
        """The number of blocks."""
        return len(self._cells)

    def block(self, number: int) -> list[Line]:
        """The lines of one block, with the empty line that sets it apart."""
        lines = self._made.get(number)
        if lines is None:
            lines = self._cells[number].lines(self._look)
            if lines and number:
                lines = [BLANK, *lines]
            self._made[number] = lines
            if len(self._made) > _KEPT:
                self._made.popitem(last=False)
        else:
            self._made.move_to_end(number)
        return lines

    def __iter__(self) -> Iterator[Line]:
        """All lines, one after the other."""
        for number in range(len(self._cells)):
            yield from self.block(number)
