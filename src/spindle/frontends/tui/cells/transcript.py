"""The whole thread, unfolded, for the pager: made into lines where it is looked at, and forgotten again."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import overload

from spindle.frontends.tui.cells.cell import Cell, Look
from spindle.frontends.tui.shown import BLANK, Line

_KEPT = 64
"""How many blocks are kept as lines, so that scrolling to and fro costs nothing."""


class Transcript(Sequence[Line]):
    """A sequence of lines in blocks, one for each cell. A block costs something only when it is asked for.

    Who knows blocks (`block_count`, `block`) can begin at the end of a long thread at once. To know how many lines
    there are, or which is the tenth, all blocks must have been made once.
    """

    def __init__(self, cells: Sequence[Cell], look: Look) -> None:
        self._cells = cells
        self._look = look
        self._made: OrderedDict[int, list[Line]] = OrderedDict()
        self._starts: list[int] | None = None
        """The number of the first line of each block, and of all lines."""

    @property
    def block_count(self) -> int:
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
        for number in range(len(self._cells)):
            yield from self.block(number)

    def __reversed__(self) -> Iterator[Line]:
        for number in range(len(self._cells) - 1, -1, -1):
            yield from reversed(self.block(number))

    def __len__(self) -> int:
        return self._places()[-1]

    @overload
    def __getitem__(self, index: int) -> Line: ...

    @overload
    def __getitem__(self, index: slice) -> list[Line]: ...

    def __getitem__(self, index: int | slice) -> Line | list[Line]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        starts = self._places()
        place = index + starts[-1] if index < 0 else index
        if not 0 <= place < starts[-1]:
            raise IndexError(index)
        number = bisect_right(starts, place) - 1
        return self.block(number)[place - starts[number]]

    def _places(self) -> list[int]:
        if self._starts is None:
            starts = [0]
            for number in range(len(self._cells)):
                starts.append(starts[-1] + len(self.block(number)))
            self._starts = starts
        return self._starts
