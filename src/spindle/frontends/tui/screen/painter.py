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
from typing import NamedTuple

from spindle.frontends.tui.keys import Reply
from spindle.frontends.tui.screen.inking import Looks, tidy
from spindle.frontends.tui.screen.sheet import NO_WRAP, NOTHING, WRAP, Sheet, erasing
from spindle.frontends.tui.screen.standing import Place, Standing
from spindle.frontends.tui.screen.stranded import Stranded
from spindle.frontends.tui.screen.whereabouts import Size, Whereabouts
from spindle.frontends.tui.shown import Line
from spindle.frontends.tui.text.layout import Row, cut, row_width, rows

BEGIN, END = "\x1b[?2026h", "\x1b[?2026l"
HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"


class _Frame(NamedTuple):
    """What was written, until we know in which window it was drawn."""

    size: Size
    """For which it was made."""
    before: Place
    after: Standing
    at: int | None
    """The row of the window in which the cursor was before it, if that was known."""
    text: str
    sheet: Sheet
    printed: Sequence[Line]
    is_fresh: bool
    """It does not matter to it what stood there, nor in which window it is drawn."""
    era: int

    def is_sound(self, drawn_in: Size) -> bool:
        """Whether it is as it should be, although it was drawn in this window."""
        if self.is_fresh or not isinstance(self.before, Standing):
            return self.is_fresh
        fits = len(self.before.rows) <= drawn_in[1] and self.sheet.widest <= drawn_in[0]
        return fits and self.before.is_unbroken(drawn_in[0])

    def start_in(self, drawn_in: Size) -> int | None:
        """In which row of this window the cursor was before it, as far as that is known."""
        return None if self.at is None else _row_in(drawn_in[1], self.at, self.size[1])

    def pending_in(self, width: int) -> Sequence[Line]:
        """What is there of the lines that will be finished later, if it was drawn in a window of this width."""
        if all(row_width(row) <= width for line in self.after.pending for row in rows(line, self.size[0])):
            return self.after.pending
        return () if self.is_fresh or self.printed else self.before.pending

    def is_whole(self, drawn_in: Size) -> bool:
        """Whether what it printed is there and whole, if not in the right place."""
        return not self.sheet.relies and self.sheet.widest <= drawn_in[0]


class _Aim(NamedTuple):
    """The cursor was sent to the top of the live area."""

    told: Size | None
    start: int
    up: int
    """In which row of the window it was, and how far up it should go."""


class Painter:
    """`write` gets each frame in one piece; it must take all of it, in order (`Terminal.write`)."""

    def __init__(self, write: Callable[[bytes], None], looks: Looks) -> None:
        self._looks = looks
        self._is_outdated = False
        """The rows look different now, although they say the same."""
        self.bytes_written = 0
        self._write = write
        self._size = (0, 0)
        self._rows: list[Row] = [NOTHING]
        """The live area as it should stand on the screen."""
        self._row, self._column = 0, 0
        """Where the cursor is, counted from the top of the live area."""
        self._place: Place = Standing(self._rows, 0, 0, 1)
        """The live area as it does stand there, as far as we know."""
        self._pending: Sequence[Line] = ()
        self._is_shown = True
        self._begins = True
        """Nothing was written yet: the cursor is where some other program left it."""
        self._where: Whereabouts[_Frame] = Whereabouts()
        self._is_lost = False
        """Something was drawn in another window than it was made for."""
        self._era = 0
        """Counts how often the live area was drawn from its top."""
        self._aim: _Aim | None = None
        self._is_left = False
        """The cursor was led up, and is in the first column."""
        self._is_away = False
        """The live area was taken away, as long as the window changes."""
        self._damaged: list[Line] = []
        """Finished lines that have to be printed again: they were drawn in another window."""
        self._whole: Standing | None = None
        """The live area below them, if they are whole, though in the wrong place."""
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
        may_wait: bool = True,
        is_wary: bool = False,
    ) -> bool:
        """Print the finished lines, once, and show the live ones below them; all of it in one write, or in none when
        nothing has changed.

        False: the window has changed, and the terminal was asked where the cursor is now. Nothing is painted yet, but
        the finished lines are kept: call again with what is live when the answer is there (`take_reply`), or a
        moment later. When that has lasted too long, call with `may_wait` false: it is painted by guess then. With
        `is_wary`, the terminal is asked even if we know of no change.

        `cursor` is the number of a live line and a column in it; None hides the cursor. The first `pending` live
        lines are text that will be finished later: if a smaller window pushes them into the scrollback, they are
        not printed again.
        """
        size = (max(1, size[0]), max(1, size[1]))
        is_fresh = not self._begins and (size != self._size or self._is_lost)
        if is_fresh:
            request = self._seek_top(size, may_wait=may_wait)
        else:
            asks_first = is_wary and not self._begins and self._where.confirms
            request = self._where.before_frame(size, self._row, may_wait=may_wait) if asks_first else None
        if request is not None:
            self._held += finished
            self._send(request)
            return False
        if self._held or self._damaged:
            finished = [*self._damaged, *self._held, *finished]
            self._held, self._damaged = [], []
        at = None if is_fresh or self._where.top is None else self._where.top + self._row
        sheet = self._new_sheet(size, is_fresh=is_fresh)
        finished, live, pending = self._stranded.leave_out(finished, live, pending)
        self._size = size
        asks, self._begins = self._begins, False
        for line in finished:
            for row in rows(line, size[0]):
                sheet.print(tidy(row))
        shown, place, away = self._live_rows(live, cursor)
        sheet.show(shown)
        before = self._place
        is_written = self._finish(sheet, shown, place)
        # Rows that were never shown cannot have been pushed out.
        self._pending = () if away else live[:pending]
        self._place = after = Standing(shown, self._row, self._column, size[0], self._pending)
        if is_written:
            text = "".join(sheet.parts)
            frame = _Frame(size, before, after, at, text, sheet, finished, is_fresh, self._era)
            self._send(text + self._questions(frame, asks=asks) + END)
        return True

    def _new_sheet(self, size: tuple[int, int], *, is_fresh: bool) -> Sheet:
        """The sheet that the frame is drawn on, and the way to where it begins."""
        sheet = Sheet(
            self._rows,
            self._row,
            self.looks,
            size[0],
            is_confirmed=self._where.confirms,
            saves_deleted=self._where.saves_deleted,
        )
        if self._begins:
            sheet.parts.append(self._fresh_line(size[0]))
        elif is_fresh:
            self._lay_anew(sheet, size)
        elif self._is_outdated:
            sheet.restart(f"{self._to_top()}\r{self._erase}")
            self._row = 0
        self._is_outdated = False
        return sheet

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
        shown = shown[away : away + most] or [NOTHING]
        if place is None:
            return shown, None, away
        place = (min(max(0, place[0] - away), len(shown) - 1), min(max(0, place[1]), width - 1))
        return shown, place, away

    def _finish(self, sheet: Sheet, shown: list[Row], place: tuple[int, int] | None) -> bool:
        """Put the cursor where it belongs. Whether there is anything to write."""
        has_moved = place is not None and (place[0] + sheet.top, place[1]) != (self._row, self._column)
        self._rows = shown
        self._where.painted(sheet.printed, len(shown), self._size[1])
        if not sheet.parts and not has_moved and (place is not None) == self._is_shown:
            self._row -= sheet.top  # what was finished stood there already, and the live area begins below it now
            return False
        if place is not None:
            sheet.put_cursor(*place, shown[place[0]])
            self._row, self._column = place
        else:
            self._row, self._column = sheet.row - sheet.top, 0
            sheet.parts.append("\r" if sheet.parts else "")
        sheet.parts.insert(0, BEGIN + (HIDE if self._is_shown else ""))
        self._is_shown = place is not None
        sheet.parts.append(SHOW if self._is_shown else "")
        return True

    def _questions(self, frame: _Frame, *, asks: bool) -> str:
        if asks:
            return self._where.ask(self._row, self._size)
        return self._where.confirm(frame) if self._where.may_confirm else ""

    def _send(self, text: str) -> None:
        if text:
            data = text.encode("utf-8", "replace")
            self.bytes_written += len(data)
            self._write(data)

    # ---- where the live area is ----------------------------------------------------------------

    def take_reply(self, reply: Reply) -> None:
        """What the terminal has told about itself, its window or its cursor."""
        if (answer := self._where.take(reply)) is not None:
            frame, told = answer
            if self._where.confirms and frame.era == self._era and (self._is_lost or told != frame.size):
                self._drawn_elsewhere(frame, told)
        if self._aim is not None and self._where.found is not None:
            self._arrived(self._aim)

    def _drawn_elsewhere(self, frame: _Frame, told: Size) -> None:
        """A frame was drawn in another window than it was made for, or after one that was."""
        is_first, self._is_lost = not self._is_lost, True
        after = frame.after
        # Too many rows have pushed the first ones out.
        row = max(after.row, len(after.rows) - told[1])
        was_broken = not frame.is_fresh and not frame.before.is_unbroken(told[0])
        drawn = Standing(after.rows, row, after.column, told[0], frame.pending_in(told[0]), was_broken)
        if is_first and frame.is_sound(told):
            self._place = drawn
            return
        is_whole = (is_first or self._whole is not None) and frame.is_whole(told)
        self._whole = drawn if is_whole else None
        place = frame.before if is_first else self._place
        is_tmux = self._where.is_tmux
        before = place.adrift(told[0], is_tmux=is_tmux) if isinstance(place, Standing) else place.broken(told[0])
        self._place = before.drawn(frame.text, frame.start_in(told))
        self._damaged += frame.printed

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

    @property
    def is_waiting(self) -> bool:
        """An answer of the terminal has changed what is to be done next."""
        return self._is_lost or self._where.is_awaited

    @property
    def is_out_of_reach(self) -> bool:
        """The top of the live area has left the window, as far as we were told."""
        at = self._where.found
        return at is not None and not self._is_away and self._place.rows_above(self._width_of_rows(self._size)) > at

    def window_changes(self) -> None:
        """What the terminal has told about its window is no longer true."""
        self._where.expire()

    def seek(self, size: Size) -> None:
        """The window is changing, and nothing is painted: take the live area away meanwhile. The sooner it is gone,
        the less can happen to it."""
        if not self._begins and not self._is_away and (size != self._size or self._is_lost):
            self._send(self._seek_top(size, may_wait=True, is_final=False) or "")

    def _seek_top(self, size: Size, *, may_wait: bool, is_final: bool = True) -> str | None:
        """Lead the cursor to the top of the live area. None: it is there, or it has to be guessed where it is.

        Otherwise what to write first. The terminal may change its window between its answer and what we write then,
        so nothing is taken away before it has told that the cursor is where it should be. From then on it stays there,
        with its character, whatever happens to the window.
        """
        where = self._where
        request = where.before_frame(size, self._row, may_wait=may_wait)
        if request is not None or where.found is None or (self._is_left and self._place.is_top):
            return request
        up, gone = self._way_up(size, where.found)
        # Nearer it does not get: in the last row of the window, a way down only pushes more of it out.
        is_nearest = not up or not may_wait or where.found - up >= (where.told or size)[1]
        if gone and (not is_final or (self._is_left and is_nearest)):
            return None  # it has left the window: it may come back, as long as the window changes
        self._aim = _Aim(where.told, where.found, up)
        before = BEGIN + (HIDE if self._is_shown else "")
        self._is_shown, self._is_lost = False, True
        return before + _vertically(up) + "\r" + where.ask(self._row, size) + END

    def _arrived(self, aim: _Aim) -> None:
        """The cursor was sent up, and the terminal has told where it is."""
        self._aim, self._is_left = None, True
        way, width = self._way_gone(aim, self._size), self._width_of_rows(self._size)
        self._place = self._place.raised(way, width)
        whole = None if self._whole is None else self._whole.raised(way, width)
        self._whole = whole if isinstance(whole, Standing) else None
        if self._place.is_top:
            # At once: if there is much below the cursor that a narrower window breaks, tmux loses its place.
            self._send(f"{BEGIN}{self._erase}{END}")
            self._place = Standing([NOTHING], 0, 0, 1)
            self._is_away = True

    def _way_gone(self, aim: _Aim, size: Size) -> int:
        """How many rows the cursor went up, although the window had changed before."""
        before, now = aim.told or size, self._where.told or size
        if self._where.found or now[1] >= before[1] or self._where.saves_deleted:
            return aim.up  # in GNU screen not even this is certain: so rather too far, which leaves something behind
        # A lower window: it may have come to its first row before it was where it should be.
        if self._where.is_tmux:
            return min(aim.up, _row_in(now[1], aim.start, before[1]))
        sunk = self._place.rows_above(now[0]) - self._place.rows_above(before[0]) if self._where.reflows else 0
        return min(aim.up, aim.start + sunk, now[1] - 1)

    def _width_of_rows(self, size: Size) -> int:
        """Where the terminal breaks the rows that stand there."""
        if not self._where.reflows:
            return 1 << 20
        return size[0] if self._where.told is None else self._where.told[0]

    def _way_up(self, size: Size, at: int) -> tuple[int, int]:
        """How many rows to go up, from this row of the window, and how many more there would be."""
        width = self._width_of_rows(size)
        up = self._place.rows_above(width)
        up_to = up if up <= at else at - self._place.rest_of_row(up - at, width)
        is_certain = up - up_to <= self._place.known(width)
        if self._whole is not None and self._damaged and not is_certain:
            # What was printed is perhaps out of reach: it stays where it is, below what was there before.
            self._place, self._whole, self._damaged = self._whole, None, []
            return self._way_up(size, at)
        return up_to, up - up_to

    def _lay_anew(self, sheet: Sheet, size: Size) -> None:
        """After a change of the window: take the live area away, and begin at its top."""
        start, gone = "", 0
        if not self._is_left:  # the terminal does not answer
            at = self._where.moved(self._place.rows_above(self._width_of_rows(size)), size[1])
            up, gone = self._way_up(size, at)
            start = _vertically(up)
            if not self._where.reflows:
                gone = 0  # it is only a guess: rather print something twice than never
        elif self._where.found is not None:
            _, gone = self._way_up(size, self._where.found)
            self._where.top = self._where.found
        if gone:
            broken_at = min(self._size[0], self._width_of_rows(size))
            known = min(gone, self._place.known(self._width_of_rows(size)))
            self._stranded.strand(self._place.pending, known, self._size[0], broken_at)
        # Rows are taken away, not only erased: a terminal that cuts them may still have what is out of sight.
        sheet.restart(f"{start}\r{self._erase}")
        self._row = 0
        self._found_again()

    def _found_again(self) -> None:
        self._is_lost, self._whole, self._aim, self._is_left, self._is_away = False, None, None, False, False
        self._era += 1

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
        return f"{END}\x1b[0m{self._to_top()}\r{self._erase}{WRAP}{SHOW}" + ("\x1b[c" if self._where.is_asking else "")

    @property
    def _erase(self) -> str:
        return erasing(saves_deleted=self._where.saves_deleted)

    def _to_top(self) -> str:
        return f"\x1b[{self._row}A" if self._row else ""

    def _forget(self) -> None:
        self._rows, self._row, self._column, self._is_shown = [NOTHING], 0, 0, True
        self._place = Standing(self._rows, 0, 0, 1)
        self._found_again()


def _row_in(height: int, row: int, before: int) -> int:
    """In which row of a window of this height the cursor is that was in this row of a window with so many `before`:
    tmux keeps what is below the cursor, but a lower window drops that first."""
    below = before - 1 - row
    return max(0, height - 1 - max(0, below - max(0, before - height)))


def _vertically(up: int) -> str:
    return f"\x1b[{up}A" if up > 0 else "\n" * -up
