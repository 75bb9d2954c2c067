"""Where cells stand: running ones in the live area, finished ones on their way into the scrollback, all in the record.

Cells go into the scrollback in the order in which they are done, so a command that runs for an hour holds nothing back:
it is seen in the live area meanwhile. Only text that streams holds back what is done after its beginning, for seconds,
because nothing may stand in the middle of an answer. A record of the thread has the same order, so a thread that is
resumed looks as it did.
"""

from __future__ import annotations

from collections import deque

from spindle.frontends.fit import counted
from spindle.frontends.tui.cells.cell import Cell, Look, Running, Streaming
from spindle.frontends.tui.shown import BLANK, Line, Span, line

MOST_RUNNING = 6
"""How many running cells the live area shows; of more it tells the number."""


class Stage:
    """Takes cells, gives lines: each finished line once, and the live ones as often as they are asked for."""

    def __init__(self) -> None:
        self.cells: list[Cell] = []
        """Everything, in order: what the transcript shows."""
        self.running: list[Running] = []
        self._queue: deque[Cell] = deque()
        self._last_kind: str | None = None
        """Of the cell that was printed last."""
        self._is_inside = False
        """The first cell of the queue has given some of its lines already."""

    # ---- in ------------------------------------------------------------------------------------

    def push(self, cell: Cell) -> None:
        """It is done, or it streams."""
        self.cells.append(cell)
        self._queue.append(cell)

    def queue(self, cell: Cell) -> None:
        """It is to be printed, but is no part of the record: the record has it already."""
        self._queue.append(cell)

    def begin(self, cell: Running) -> None:
        self.running.append(cell)

    def finish(self, cell: Running) -> None:
        """It is over: from the live area into the scrollback."""
        self.withdraw(cell)
        self.push(cell)

    def withdraw(self, cell: Running) -> None:
        self.running = [each for each in self.running if each is not cell]

    # ---- out -----------------------------------------------------------------------------------

    def take_finished(self, look: Look) -> list[Line]:
        """Lines for the scrollback that were not given before."""
        given: list[Line] = []
        while self._queue:
            cell = self._queue[0]
            lines = self._lines_of(cell, look)
            if lines:
                given += [*self._gap(cell), *lines]
                self._last_kind = cell.kind
                self._is_inside = True
            if isinstance(cell, Streaming) and cell.is_open:
                break
            self._queue.popleft()
            self._is_inside = False
        return given

    @staticmethod
    def _lines_of(cell: Cell, look: Look) -> list[Line]:
        if isinstance(cell, Streaming):
            return cell.take_finished(look) if cell.is_shown else []
        return cell.lines(look) if cell.is_shown else []

    def _gap(self, cell: Cell) -> list[Line]:
        """An empty line, unless this belongs to what stands above."""
        if self._is_inside or (cell.kind and cell.kind == self._last_kind):
            return []
        return [BLANK]

    def live(self, look: Look, now_s: float) -> list[Line]:
        """What streams, then what waits for its end, then what runs."""
        shown: list[Line] = []
        for number, cell in enumerate(self._queue):
            if isinstance(cell, Streaming) and cell.is_open:
                tail = cell.tail(look)
                shown += [*([] if self._is_inside and number == 0 else [BLANK]), *tail] if tail else []
            elif cell.is_shown and number:
                shown += [BLANK, *cell.lines(look)]
        for cell in self.running[-MOST_RUNNING:]:
            shown += [BLANK, *cell.live(look, now_s)]
        if len(self.running) > MOST_RUNNING:
            shown.append(line(Span(f"  … and {counted(len(self.running) - MOST_RUNNING, 'more')} running", "dim")))
        return shown
