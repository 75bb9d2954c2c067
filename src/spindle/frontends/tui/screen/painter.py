"""Prints finished lines into the terminal's own scrollback, and keeps a live area below them up to date.

Read this first: everything is written relative to the top of the live area, the row where the next finished line goes.
Nothing above that row is ever touched again: it belongs to the terminal. A frame goes down from there, row by row, past
the rows that stand there already, and writes those that differ; rows below the end of the window make the terminal
scroll by itself, so what leaves the window at the top is in its scrollback. A line that streamed in the live area and
then is finished mostly costs no byte: it stands where it belongs.

Two things are not certain, and nothing relies on them. One is how many cells some characters take (`inking.is_sure`):
rows with such characters are erased before they are written, and the cursor is put behind them by writing them again.
The other is what a terminal does with its rows when the window changes (`whereabouts`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spindle.frontends.tui.keys import Reply
from spindle.frontends.tui.screen import inking
from spindle.frontends.tui.screen.inking import Looks, ink, is_sure, tidy
from spindle.frontends.tui.screen.stranded import Stranded
from spindle.frontends.tui.screen.whereabouts import Whereabouts
from spindle.frontends.tui.shown import Line
from spindle.frontends.tui.text.layout import Row, cut, height, row_width, rows

BEGIN, END = "\x1b[?2026h", "\x1b[?2026l"
HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"
WRAP, NO_WRAP = "\x1b[?7h", "\x1b[?7l"
"""Only finished rows may be broken by the terminal. Live rows are cut, also when the window has become narrower and we
do not know it yet: each of them takes exactly one row."""
_NOTHING: Row = ()
_FARTHEST, _WORTH_IT = 8, 4
"""How far rows may have moved, and how many of them must have, for the terminal to move them."""


class Painter:
    """`write` gets each frame in one piece; it must take all of it, in order (`Terminal.write`)."""

    def __init__(self, write: Callable[[bytes], None], looks: Looks) -> None:
        self._looks = looks
        self._is_outdated = False
        """The rows look different now, although they say the same."""
        self.bytes_written = 0
        self._write = write
        self._size = (0, 0)
        self._rows: list[Row] = [_NOTHING]
        """The live area as it stands on the screen."""
        self._row, self._column = 0, 0
        """Where the cursor is, counted from the top of the live area."""
        self._is_shown = True
        self._begins = True
        """Nothing was written yet: the cursor is where some other program left it."""
        self._where = Whereabouts()
        self._held: list[Line] = []
        """Finished lines that wait for the answer to a question."""
        self._stranded = Stranded()

    @property
    def looks(self) -> Looks:
        return self._looks

    @looks.setter
    def looks(self, looks: Looks) -> None:
        self._is_outdated = self._is_outdated or looks is not self._looks
        self._looks = looks

    # ---- painting ------------------------------------------------------------------------------

    def frame(
        self,
        finished: Sequence[Line],
        live: Sequence[Line],
        cursor: tuple[int, int] | None,
        size: tuple[int, int],
        *,
        pending: int = 0,
    ) -> bool:
        """Print the finished lines, once, and show the live ones below them; all of it in one write, or in none when
        nothing has changed.

        False: the window has changed, and the terminal was asked where the cursor is now. Nothing is painted yet, but
        the finished lines are kept: call again with what is live when the answer is there (`take_reply`), or a
        moment later.

        `cursor` is the number of a live line and a column in it; None hides the cursor. The first `pending` live
        lines are text that will be finished later: if a smaller window pushes them into the scrollback, they are
        not printed again.
        """
        size = (max(1, size[0]), max(1, size[1]))
        question = None if self._begins else self._where.before_frame(size, self._size, self._row)
        if question is not None:
            self._held += finished
            self._send(question)
            return False
        if self._held:
            finished = [*self._held, *finished]
            self._held = []
        sheet = _Sheet(self._rows, self._row, self.looks, size[0])
        if self._begins:
            sheet.parts.append(self._fresh_line(size[0]))
        elif size != self._size:
            self._lay_anew(sheet, size)
        elif self._is_outdated:
            sheet.restart(self._to_top() + "\r\x1b[J")
            self._row = 0
        self._is_outdated = False
        finished, live, pending = self._stranded.leave_out(finished, live, pending)
        self._size = size
        asks, self._begins = self._begins, False
        for line in finished:
            for row in rows(line, size[0]):
                sheet.print(tidy(row))
        shown, place, away = self._live_rows(live, cursor)
        # Rows that were never shown cannot have been pushed out.
        self._stranded.remember([] if away else live[:pending])
        sheet.show(shown)
        self._finish(sheet, shown, place, asks=asks)
        return True

    def _live_rows(
        self, live: Sequence[Line], cursor: tuple[int, int] | None
    ) -> tuple[list[Row], tuple[int, int] | None, int]:
        """The rows of the live area, where the cursor is, and how many rows at the top have no room in the window."""
        width, most = self._size
        shown: list[Row] = []
        place: tuple[int, int] | None = None
        for number, line in enumerate(live):
            if cursor is not None and cursor[0] == number:
                place = (len(shown), cursor[1])
            shown += [tidy(cut(row, width)) for row in rows(line, width)]
        away = max(0, len(shown) - most)
        if away and place is not None and place[0] < away:
            away = place[0]  # the row with the cursor is seen in any case
        shown = shown[away : away + most] or [_NOTHING]
        if place is None:
            return shown, None, away
        place = (min(max(0, place[0] - away), len(shown) - 1), min(max(0, place[1]), width - 1))
        return shown, place, away

    def _finish(self, sheet: _Sheet, shown: list[Row], place: tuple[int, int] | None, *, asks: bool) -> None:
        """Put the cursor where it belongs, and write the frame if there is anything to write."""
        has_moved = place is not None and (place[0] + sheet.top, place[1]) != (self._row, self._column)
        self._rows = shown
        self._where.painted(sheet.printed, len(shown), self._size[1])
        if not sheet.parts and not has_moved and (place is not None) == self._is_shown:
            self._row -= sheet.top  # what was finished stood there already, and the live area begins below it now
            return
        if place is not None:
            sheet.put_cursor(*place, shown[place[0]])
            self._row, self._column = place
        else:
            self._row, self._column = sheet.row - sheet.top, 0
            sheet.parts.append("\r" if sheet.parts else "")
        before = BEGIN + (HIDE if self._is_shown else "")
        self._is_shown = place is not None
        question = self._where.confirm(self._size) if sheet.has_moved_rows and not asks else ""
        question += self._where.ask(self._row) if asks else ""
        self._send(before + "".join(sheet.parts) + (SHOW if self._is_shown else "") + question + END)

    def _send(self, text: str) -> None:
        if text:
            data = text.encode("utf-8", "replace")
            self.bytes_written += len(data)
            self._write(data)

    # ---- where the live area is ----------------------------------------------------------------

    def take_reply(self, reply: Reply) -> None:
        """What the terminal has told about itself, its window or its cursor."""
        self._where.take(reply)

    def begins_in_column(self, column: int) -> None:
        """Where some other program left the cursor, counted from 1; known before the first frame, or never."""
        self._column = column

    def _fresh_line(self, width: int) -> str:
        """Begin in the first column, below what stands there."""
        if self._column == 1:
            return "\r"
        # Not told where the cursor is: blanks up to the last column lead into the next row, but from the first column.
        start = "\r\n" if self._column else " " * (width - 1) + "\r"
        self._row = self._column = 0
        return WRAP + start + "\x1b[K" + NO_WRAP

    def _lay_anew(self, sheet: _Sheet, size: tuple[int, int]) -> None:
        """After a change of the window: erase the live area, wherever it is now, and begin at its top."""
        up = self._rows_above_cursor(size[0])
        is_known = self._where.is_certain and self._where.found is not None
        at = self._where.moved(up, size[1])
        up_to = min(up, at)
        if up > at:
            stays = self._rest_of_row(up - at, size[0])
            up_to -= stays
            if is_known:  # if it is only a guess, rather print something twice than never
                self._stranded.strand(up - up_to, self._size[0], size[0] if self._where.reflows else self._size[0])
        # Rows are taken away, not only erased: a terminal that cuts them may still have what is out of sight.
        sheet.restart((f"\x1b[{up_to}A" if up_to > 0 else "\n" * -up_to) + f"\r\x1b[{size[1]}M")
        self._row = 0

    def _rest_of_row(self, gone: int, width: int) -> int:
        """How many rows more belong to a row whose beginning has left the window. They have to stay: to the terminal
        they are one line, and what were written there would become a part of it."""
        if not self._where.reflows:
            return 0
        for row in self._rows:
            tall = height(row, width)
            if gone <= tall:
                return tall - gone
            gone -= tall
        return 0

    def _rows_above_cursor(self, width: int) -> int:
        """How many rows of the terminal now stand between the top of the live area and the cursor.

        Some terminals cut rows that are too long for a narrower window, others break them in two; in these the cursor
        stays with its character. To go up too far would erase what belongs to the terminal, so where it is not
        certain which rows were broken, none is taken to be: some of the live area may stay behind then.
        """
        if not self._where.reflows or width >= self._size[0] or not self._where.is_certain:
            return self._row
        above = sum(height(row, width) for row in self._rows[: self._row])
        before = inking.head(self._rows[self._row], self._column)
        is_behind = self._column >= row_width(self._rows[self._row])
        within = row_width(before) if is_behind else self._column + 1
        return above + height(inking.head(self._rows[self._row], within), width) - 1

    # ---- all of it -----------------------------------------------------------------------------

    def push_up(self, size: tuple[int, int]) -> None:
        """Make room: everything on the screen goes up into the scrollback. Nothing is erased but the live area."""
        above = size[1] - 1 if self._where.top is None else self._where.top
        self._send(self.farewell() + f"\x1b[{size[1]}B" + "\n" * above + "\x1b[H" + NO_WRAP)
        self._forget()
        self._where.forget(0)

    def clear_live(self) -> None:
        """Take the live area away; the cursor is where it began. Another program may write there now."""
        self._send(self.farewell())
        self._forget()
        self._begins, self._column = True, 1
        self._where.forget(None)

    def farewell(self) -> str:
        """What takes the live area away and leaves the terminal as other programs expect it, from any state.

        With a question that every terminal answers, if others are open: so one knows when no answer is to come.
        """
        if self._begins:
            return WRAP + SHOW  # nothing here is ours
        return f"{END}\x1b[0m{self._to_top()}\r\x1b[J{WRAP}{SHOW}" + ("\x1b[c" if self._where.is_asking else "")

    def _to_top(self) -> str:
        return f"\x1b[{self._row}A" if self._row else ""

    def _forget(self) -> None:
        self._rows, self._row, self._column, self._is_shown = [_NOTHING], 0, 0, True


class _Sheet:
    """One frame in the making. Rows are counted from where the live area began before it."""

    def __init__(self, old: list[Row], row: int, looks: Looks, width: int) -> None:
        self.parts: list[str] = []
        self.row = row
        """Where the cursor is."""
        self.top = 0
        """Where the live area begins: the finished rows stand above it."""
        self.printed = 0
        """How many rows of the terminal were printed for good."""
        self._old = old
        self._there = len(old)
        """How many rows there are that can be reached without making the terminal scroll."""
        self._looks = looks
        self._width = width
        self._wraps = False
        self._touched = 0

    @property
    def has_moved_rows(self) -> bool:
        """Whether it does more than to change the text of one row."""
        return self._touched > 1 or bool(self.printed)

    def restart(self, text: str) -> None:
        """`text` leads to a place below which everything is blank."""
        self.parts.append(text)
        self._touched = 2
        self._old, self._there, self.row, self.top = [_NOTHING], 1, 0, 0

    def print(self, row: Row) -> None:
        """A finished row; the terminal breaks it if it is too long."""
        tall = height(row, self._width)
        if tall > 1 or not is_sure(row):
            self._print_below(row)
        else:
            self._put(self.top, row, is_live=False)
            self.top += 1
        self.printed += tall

    def _print_below(self, row: Row) -> None:
        """Where we cannot be certain how many rows it takes, nothing below may matter."""
        self._go(self.top)
        self._wrap(on=True)
        self.restart(f"\r\x1b[J{ink(row, self._looks)}\r\n")

    def show(self, live: list[Row]) -> None:
        if not self.top:
            self._shift(live)
        for number, row in enumerate(live):
            self._put(self.top + number, row, is_live=True)
        end = self.top + len(live)
        if end < self._there and any(self._old[end:]):
            self._go(end)
            self._touched = 2
            self.parts.append("\r\x1b[J")

    def _shift(self, live: list[Row]) -> None:
        """A text that is higher than the window moves up with each new row: the terminal can move it for us."""
        up = next((n for n in range(1, min(_FARTHEST, len(self._old))) if self._old[n : n + 2] == live[:2]), 0)
        same = 0
        while up and same < len(live) and up + same < len(self._old) and live[same] == self._old[up + same]:
            same += 1
        if same < _WORTH_IT:
            return
        self._touched = 2
        self._go(0)
        self.parts.append(f"\x1b[{up}M")
        self._go(same)
        self.parts.append(f"\x1b[{up}L")
        self._old = [*self._old[up : up + same], *[_NOTHING] * up, *self._old[up + same :]]

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
            return
        self._touched += 1 if old is not None else 2
        self._go(at)
        self._wrap(on=not is_live)
        column, rest = inking.change(old, row) if old and is_sure(old) and is_sure(row) else (0, row)
        if not column or (not is_live and column < row_width(old or ())):
            # Erased first: whatever the terminal thinks that this row belongs to, it does no longer.
            self.parts.append(("\r\x1b[K" if old else "\r") + ink(row, self._looks))
            return
        self.parts.append(f"\x1b[{column + 1}G" + ink(rest, self._looks))
        if old is not None and inking.is_shorter(row, old):
            self.parts.append("\x1b[K")

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
