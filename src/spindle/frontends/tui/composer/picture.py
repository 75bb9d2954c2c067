"""What is seen of the draft: the rows of it that fit, and the cell of the cursor."""

from __future__ import annotations

from spindle.frontends.fit import cut
from spindle.frontends.tui.composer.draft import Folds
from spindle.frontends.tui.composer.rows import Layout
from spindle.frontends.tui.shown import Line, Span

PLACEHOLDER = "Ask for anything, / for commands, @ for files"
MARK = "› "


class Picture:
    """Rows of the draft, scrolled so that the cursor is among them."""

    def __init__(self, folds: Folds) -> None:
        self.layout = Layout(folds)
        self.cursor = (0, len(MARK))
        self._top = 0
        self._room = 80

    def layout_of(self, raw: str) -> Layout:
        """The rows of a text at the width of the last picture; several keys may come before the next one."""
        self.layout.update(raw, self._room)
        return self.layout

    def scroll_up(self) -> None:
        """Another text: begin with its first row."""
        self._top = 0

    def lines(self, raw: str, place: int, selected: tuple[int, int] | None, size: tuple[int, int]) -> list[Line]:
        """The rows of a text with the cursor at `place`, in a window of this size: a third of its height at most."""
        width, height = size
        if not raw:
            self.cursor = (0, len(MARK))
            hint = cut(PLACEHOLDER, max(1, width - len(MARK) - 1))
            return [Line((Span(MARK, "bold"), Span(hint, "dim")), is_verbatim=True)]
        # One cell is left free at the right, for the cursor behind a full row.
        self._room = max(1, width - len(MARK) - 1)
        self.layout.update(raw, self._room)
        rows = self.layout.rows
        room = max(1, height // 3)
        row = self.layout.find(place)
        self._top = max(0, min(self._top, row, len(rows) - room), row - room + 1)
        self.cursor = (row - self._top, len(MARK) + self.layout.column(place))
        first = Span(MARK, "running bold" if raw.startswith("!") else "bold")
        others = Span(" " * len(MARK))
        return [
            Line((others if number else first, *self.layout.spans(number, selected)), is_verbatim=True)
            for number in range(self._top, min(len(rows), self._top + room))
        ]
