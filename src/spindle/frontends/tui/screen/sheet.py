"""One frame in the making: how to get from the rows that stand there to those that should."""

from __future__ import annotations

from spindle.frontends.tui.screen import inking
from spindle.frontends.tui.screen.inking import Looks, ink, is_sure
from spindle.frontends.tui.text.layout import Row, height, row_width

WRAP, NO_WRAP = "\x1b[?7h", "\x1b[?7l"
"""Only finished rows may be broken by the terminal. Live rows are cut, also when the window has become narrower and we
do not know it yet: each of them takes exactly one row."""
_TAKE_AWAY, _ERASE = "\x1b[999M", "\x1b[J"
NOTHING: Row = ()
_FARTHEST, _WORTH_IT = 8, 4
"""How far rows may have moved, and how many of them must have, for the terminal to move them."""


def erasing(*, saves_deleted: bool) -> str:
    """This row and all below it. They are taken away, not erased: a terminal that cuts rows may still have what is out
    of sight, and where the whole window would become empty, tmux saves it in the scrollback first. With `saves_deleted`
    rows that are taken away at the top of the window go into the scrollback, as in GNU screen: there they are erased.
    """
    return _ERASE if saves_deleted else _TAKE_AWAY


class Sheet:
    """One frame in the making. Rows are counted from where the live area began before it."""

    def __init__(
        self, old: list[Row], row: int, looks: Looks, width: int, *, is_confirmed: bool, saves_deleted: bool
    ) -> None:
        self.parts: list[str] = []
        self.row = row
        """Where the cursor is."""
        self.top = 0
        """Where the live area begins: the finished rows stand above it."""
        self.widest = 0
        """Of the rows that are finished, and that the terminal need not break."""
        self.relies = False
        """Whether a finished row, or the beginning of one, stood there already."""
        self.printed = 0
        """How many rows of the terminal were printed for good."""
        self._old = old
        self._there = len(old)
        """How many rows there are that can be reached without making the terminal scroll."""
        self._looks = looks
        self._width = width
        self._wraps = False
        self._is_confirmed = is_confirmed
        """The terminal will tell in which window it has drawn this."""
        self._saves_deleted = saves_deleted
        """Rows that are taken away at the top of the window go into the scrollback."""
        self._is_fresh = False
        """Nothing stands below."""

    def restart(self, text: str) -> None:
        """`text` leads to a place below which everything is blank."""
        self.parts.append(text)
        self._is_fresh = True
        self._old, self._there, self.row, self.top = [NOTHING], 1, 0, 0

    def print(self, row: Row) -> None:
        """A finished row; the terminal breaks it if it is too long."""
        tall = height(row, self._width)
        if tall > 1 or not is_sure(row):
            self._print_below(row)
        else:
            self.widest = max(self.widest, row_width(row))
            self._put(self.top, row, is_live=False)
            self.top += 1
        self.printed += tall

    def _print_below(self, row: Row) -> None:
        """Where we cannot be certain how many rows it takes, nothing below may matter."""
        self._go(self.top)
        self._wrap(on=True)
        erased = "" if self._is_fresh else erasing(saves_deleted=self._saves_deleted)
        self.restart(f"\r{erased}{ink(row, self._looks)}\r\n")

    def show(self, live: list[Row]) -> None:
        if not self.top and not self._saves_deleted:
            self._shift(live)
        for number, row in enumerate(live):
            self._put(self.top + number, row, is_live=True)
        end = self.top + len(live)
        if end < self._there and any(self._old[end:]):
            self._go(end)
            self.parts.append("\r\x1b[J")

    def _shift(self, live: list[Row]) -> None:
        """A text that is higher than the window moves up with each new row: the terminal can move it for us."""
        up = next((n for n in range(1, min(_FARTHEST, len(self._old))) if self._old[n : n + 2] == live[:2]), 0)
        same = 0
        while up and same < len(live) and up + same < len(self._old) and live[same] == self._old[up + same]:
            same += 1
        if same < _WORTH_IT:
            return
        self._go(0)
        self.parts.append(f"\x1b[{up}M")
        self._go(same)
        self.parts.append(f"\x1b[{up}L")
        self._old = [*self._old[up : up + same], *[NOTHING] * up, *self._old[up + same :]]

    def put_cursor(self, row: int, column: int, shown: Row) -> None:
        self._go(self.top + row)
        before = inking.head(shown, column)
        if is_sure(before):
            self.parts.append(f"\x1b[{column + 1}G" if column else "\r")
        else:
            blanks = " " * (column - row_width(before))
            self.parts.append(f"\r{ink(before, self._looks)}{blanks}")
        self._wrap(on=False)

    def _put(self, at: int, row: Row, *, is_live: bool) -> None:
        old = self._old[at] if at < len(self._old) else None
        if old == row or (old is None and not row and at < self._there):
            self.relies = self.relies or (not is_live and bool(row))
            return
        self._go(at)
        # What may overwrite rows that are still needed is not broken; if it should have been, it is printed again.
        self._wrap(on=not is_live and (self._is_fresh or not self._is_confirmed))
        column, rest = inking.change(old, row) if old and is_sure(old) and is_sure(row) else (0, row)
        if not column or inking.is_shorter(row, old or ()) or (not is_live and column < row_width(old or ())):
            # Erased first, as a whole: whatever the terminal thinks that this row belongs to, it does no longer. And a
            # row of which only the end was erased has blanks there, which some terminals break in a narrower window.
            self.parts.append(("\r\x1b[K" if old else "\r") + ink(row, self._looks))
            return
        self.relies = self.relies or not is_live
        self.parts.append(f"\x1b[{column + 1}G" + ink(rest, self._looks))

    def _go(self, row: int) -> None:
        if row < self.row:
            self.parts.append(f"\x1b[{self.row - row}A")
        elif row > self.row:
            # By line feeds, even where the rows are there: should the window have become lower meanwhile, they make
            # it scroll, where a movement would end in its last row, on what was just printed.
            self.parts.append("\n" * (row - self.row))
            self._there = max(self._there, row + 1)
        self.row = row

    def _wrap(self, *, on: bool) -> None:
        if on != self._wraps:
            self._wraps = on
            self.parts.append(WRAP if on else NO_WRAP)
