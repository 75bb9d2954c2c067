"""The whole thread, unfolded, for the pager: made into lines where it is looked at. It grows while the thread does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spindle.frontends.tui.cells.cell import Cell, Look, Streaming
from spindle.frontends.tui.shown import BLANK, Line


class Transcript:
    """Lines in blocks, one for each cell. A block costs something only when it is asked for, so a reader can begin at
    the end of a long thread at once (`screen/scroll.py`)."""

    def __init__(self, cells: Sequence[Cell], look: Look) -> None:
        self._cells = cells
        self._look = look

    @property
    def block_count(self) -> int:
        return len(self._cells)

    def block(self, number: int) -> list[Line]:
        """The lines of one block, with the empty line that sets it apart."""
        lines = self._cells[number].lines(self._look)
        return [BLANK, *lines] if lines and number else lines

    def is_open(self, number: int) -> bool:
        """The block may still change: its text is arriving."""
        cell = self._cells[number]
        return isinstance(cell, Streaming) and cell.is_open

    def __iter__(self) -> Iterator[Line]:
        for number in range(len(self._cells)):
            yield from self.block(number)
