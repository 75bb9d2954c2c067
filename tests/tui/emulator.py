"""A terminal without a window: bytes in; a screen, its scrollback and what was switched on, out.

pyte keeps the cells. In front of it stands a reader of control sequences, since pyte prints those it does not know, has
no alternate screen, and answers no question. Two families of terminals are told apart by `reflows`: the first cuts rows
that are too long for a narrower window (xterm), the second breaks them anew and takes rows back from the scrollback
(VTE, kitty, tmux).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import Any

import pyte
from pyte.modes import DECAWM
from wcwidth import wcwidth

Row = dict[int, Any]
_WRAPPED = -1
"""The key in a row under which it is noted that the next row goes on with the same line."""

SEQUENCE = re.compile(
    rb"\x1b\[(?P<csi>[0-?]*[ -/]*[@-~])"
    rb"|\x1b\](?P<osc>[^\x07\x1b]*)(?:\x07|\x1b\\)"
    rb"|\x1b(?P<string>[P_^X](?:[^\x1b]|\x1b\x1b|\x1b[^\\])*)\x1b\\"
    rb"|\x1b(?P<esc>[ -/]*[0-OQ-WYZ`-~\\])",
    re.DOTALL,
)
_ANSWERED_MODES = (1, 7, 25, 1000, 1002, 1003, 1004, 1006, 1049, 2004, 2026)


class Grid(pyte.Screen):
    """The cells of one screen, and the rows that left it at the top."""

    def __init__(self, columns: int, rows: int, *, keeps: bool) -> None:
        self.above: list[Row] = []
        self.keeps = keeps
        super().__init__(columns, rows)

    def draw(self, data: str) -> None:
        for char in data:
            width = wcwidth(char)
            if width < 0 or (width == 0 and not unicodedata.combining(char)):
                continue
            if width == 0:
                self._combine(char)
                continue
            if self.cursor.x + width > self.columns:
                if DECAWM in self.mode:
                    flagged: Any = self.buffer[self.cursor.y]
                    flagged[_WRAPPED] = True
                    self.carriage_return()
                    super().linefeed()
                else:
                    self.cursor.x = self.columns - width
            row = self.buffer[self.cursor.y]
            row[self.cursor.x] = self.cursor.attrs._replace(data=char)
            if width == 2:
                row[self.cursor.x + 1] = self.cursor.attrs._replace(data="")
            self.cursor.x += width
            if self.cursor.x == self.columns:
                row.pop(_WRAPPED, None)

    def linefeed(self) -> None:
        """A line feed ends a line that was broken here, as in tmux."""
        self.buffer[self.cursor.y].pop(_WRAPPED, None)
        super().linefeed()

    def _combine(self, char: str) -> None:
        row = self.buffer[self.cursor.y]
        at = self.cursor.x - 1
        if at > 0 and not row[at].data:
            at -= 1
        if at >= 0:
            row[at] = row[at]._replace(data=unicodedata.normalize("NFC", row[at].data + char))

    def erase_in_line(self, how: int = 0, private: bool = False) -> None:
        super().erase_in_line(how, private)
        if how != 1:
            self._empty(self.cursor.y, 0 if how == 2 else self.cursor.x)

    def erase_in_display(self, how: int = 0, *args: Any, **kwargs: Any) -> None:
        super().erase_in_display(how, *args, **kwargs)
        if how != 1:
            for y in range(self.cursor.y + 1 if how == 0 else 0, self.lines):
                self._empty(y, 0)

    def _empty(self, y: int, start: int) -> None:
        """Cells that were erased are no blanks that were written: a narrower window does not break them."""
        row = self.buffer[y]
        for x in [x for x in row if x >= start or x == _WRAPPED]:
            row.pop(x)

    def index(self) -> None:
        top, bottom = self.margins or (0, self.lines - 1)
        if self.cursor.y == bottom and top == 0 and self.keeps:
            self.above.append(self.buffer[0])
        super().index()

    def scroll(self, count: int, *, up: bool) -> None:
        top, bottom = self.margins or (0, self.lines - 1)
        x, y = self.cursor.x, self.cursor.y
        for _ in range(min(count, self.lines)):
            self.cursor.y = bottom if up else top
            self.index() if up else self.reverse_index()
        self.cursor.x, self.cursor.y = x, y

    def row_text(self, row: Row, columns: int | None = None) -> str:
        out: list[str] = []
        for x in range(columns or max((x for x in row if x >= 0), default=-1) + 1):
            out.append(row[x].data if x in row else " ")
        return "".join(out).rstrip()

    def texts(self) -> list[str]:
        return [self.row_text(self.buffer[y], self.columns) for y in range(self.lines)]

    def cut(self, columns: int, rows: int) -> None:
        """A new size as xterm takes it: rows below the cursor go first, then the top ones go into the scrollback."""
        spare = self.lines - 1 - self.cursor.y
        for _ in range(max(0, self.lines - rows - spare)):
            if self.keeps:
                self.above.append(self.buffer[0])
            for y in range(self.lines - 1):
                self.buffer[y] = self.buffer[y + 1]
            self.buffer.pop(self.lines - 1, None)
            self.cursor.y -= 1
        for y in [y for y in self.buffer if y >= rows]:
            self.buffer.pop(y)
        self.lines, self.columns, self.margins = rows, columns, None
        self.cursor.x, self.cursor.y = min(self.cursor.x, columns), max(0, min(self.cursor.y, rows - 1))

    def reflow(self, columns: int, rows: int) -> None:
        """A new size as tmux takes it: a lower window drops rows below the cursor first, lines are broken anew, and
        the screen ends where it ended, but never above the cursor."""
        old = [*self.above, *(self.buffer[y] for y in range(self.lines))]
        cursor_row = len(self.above) + self.cursor.y
        last = len(old) - 1 - min(self.lines - 1 - self.cursor.y, max(0, self.lines - rows))
        made: list[Row] = []
        cells: list[Any] = []
        place = (0, 0)
        cursor: int | None = None
        for number, row in enumerate(old[: last + 1]):
            if number == cursor_row:
                cursor = len(cells) + self.cursor.x
            is_wrapped = row.get(_WRAPPED) is True
            end = self.columns if is_wrapped else self._end(row)
            cells += [row.get(x, self.default_char) for x in range(end)]
            if is_wrapped and number < last:
                continue
            broken = self._broken(cells, columns)
            if cursor is not None:
                place, cursor = self._place(broken, cursor, len(made)), None
            made += broken
            cells = []
        y, x = place
        start = max(0, len(made) - rows)
        start = min(start, y)
        self.above = made[:start]
        self.lines, self.columns, self.margins = rows, columns, None
        self.buffer.clear()
        for number, row in enumerate(made[start : start + rows]):
            self.buffer[number].update(row)
        self.cursor.x, self.cursor.y = x, y - start

    def _place(self, broken: list[Row], cursor: int, above: int) -> tuple[int, int]:
        """Where the cursor is in a line that was broken anew. Behind its end it stays there, as in tmux."""
        for number, row in enumerate(broken):
            taken = max((x + 1 for x in row if x >= 0), default=0)
            if cursor < taken or number + 1 == len(broken):
                return above + number, min(cursor, taken)
            cursor -= taken
        raise AssertionError("a line has at least one row")

    def _end(self, row: Row) -> int:
        return max((x + 1 for x in row if x >= 0), default=0)

    def _fresh(self) -> Row:
        return type(self.buffer[0])(self.default_char)

    def _broken(self, cells: list[Any], columns: int) -> list[Row]:
        rows = [self._fresh()]
        x = 0
        for number, cell in enumerate(cells):
            is_wide = number + 1 < len(cells) and cells[number + 1].data == ""
            if x + (2 if is_wide else 1) > columns:
                rows[-1][_WRAPPED] = True
                rows.append(self._fresh())
                x = 0
            rows[-1][x] = cell
            x += 1
        return rows


class Emulator:
    """`reply` is called with what a terminal would answer; `kitty`: it knows the keyboard protocol of that name."""

    def __init__(
        self,
        columns: int = 80,
        rows: int = 24,
        *,
        reply: Callable[[bytes], None] = lambda _: None,
        kitty: bool = False,
        reflows: bool = False,
        tells_size: bool | None = None,
        identity: bytes = b"\x1b[>41;367;0c",
    ) -> None:
        self.main = Grid(columns, rows, keeps=True)
        self.other: Grid | None = None
        self.modes: dict[int, bool] = {}
        self.kitty_flags = [0]
        self.titles: list[str] = [""]
        """The title, and those below it that were put aside."""
        self.events: list[tuple[str, str]] = []
        """Every control sequence: its kind (csi, osc, string, esc, c0, c1) and what it says."""
        self._main_stream = pyte.Stream(self.main)
        self._stream = self._main_stream
        self._reply = reply
        self._knows_kitty = kitty
        self._reflows = reflows
        self._tells_size = reflows if tells_size is None else tells_size
        self._identity = identity
        self._rest = b""

    # ---- what is to be seen --------------------------------------------------------------------

    @property
    def grid(self) -> Grid:
        return self.main if self.other is None else self.other

    @property
    def is_alternate(self) -> bool:
        return self.other is not None

    @property
    def screen(self) -> list[str]:
        """The rows of the window, without the blank ones at its end."""
        return _trimmed(self.grid.texts())

    @property
    def above(self) -> list[str]:
        """What has left the window at its top."""
        return [self.main.row_text(row) for row in self.main.above]

    @property
    def everything(self) -> list[str]:
        """The scrollback and the window of the main screen."""
        return _trimmed([*self.above, *self.main.texts()])

    @property
    def unbroken(self) -> list[str]:
        """The same as `everything`, with the lines that the terminal broke put together, as a copy has them."""
        lines: list[str] = []
        joined = ""
        rows = [*self.main.above, *(self.main.buffer[y] for y in range(self.main.lines))]
        for row in rows:
            wrapped = row.get(_WRAPPED) is True
            joined += self.main.row_text(row).ljust(self.main.columns) if wrapped else self.main.row_text(row)
            if not wrapped:
                lines.append(joined)
                joined = ""
        return _trimmed([*lines, joined])

    @property
    def cursor(self) -> tuple[int, int]:
        """Row and column, from 0."""
        return self.grid.cursor.y, min(self.grid.cursor.x, self.grid.columns - 1)

    @property
    def is_cursor_shown(self) -> bool:
        return self.modes.get(25, True)

    # ---- what comes in -------------------------------------------------------------------------

    def resize(self, columns: int, rows: int) -> None:
        for grid in (self.main, *([self.other] if self.other is not None else [])):
            if self._reflows and grid is self.main:
                grid.reflow(columns, rows)
            else:
                grid.cut(columns, rows)

    def feed(self, data: bytes) -> None:
        data = self._rest + data
        self._rest = b""
        at = 0
        while at < len(data):
            escape = data.find(b"\x1b", at)
            end = len(data) if escape < 0 else escape
            if end > at:
                self._text(data[at:end], is_last=escape < 0)
                at = end
            elif (found := SEQUENCE.match(data, at)) is not None:
                self._sequence(found)
                at = found.end()
            else:
                self._rest = data[at:]
                return

    def _text(self, data: bytes, *, is_last: bool) -> None:
        if is_last:  # a character may be cut at the end
            for back in range(1, min(4, len(data)) + 1):
                if data[-back] >= 0xC0:
                    if back < (2 if data[-back] < 0xE0 else 3 if data[-back] < 0xF0 else 4):
                        data, self._rest = data[:-back], data[-back:]
                    break
                if data[-back] < 0x80:
                    break
        kept: list[str] = []
        for char in data.decode("utf-8", "replace"):
            if 0x80 <= ord(char) <= 0x9F:
                self.events.append(("c1", char))
            elif char in "\r\n\t\b" or (ord(char) >= 32 and char != "\x7f"):
                kept.append(char)
            else:
                self.events.append(("c0", char))
        if kept:
            self._stream.feed("".join(kept))

    def _sequence(self, found: re.Match[bytes]) -> None:
        kind = str(found.lastgroup)
        body = found.group(kind).decode("utf-8", "replace")
        self.events.append((kind, body))
        if kind == "csi":
            self._csi(body[:-1], body[-1])
        elif kind == "osc":
            self._osc(body)
        elif kind == "esc" and body in "DEHM78c":
            self._stream.feed("\x1b" + body)

    def _osc(self, body: str) -> None:
        number, _, rest = body.partition(";")
        if number in ("0", "2"):
            self.titles[0] = rest
        elif number in ("10", "11") and rest == "?":
            colour = "eeee/eeee/eeee" if number == "10" else "1111/1111/1111"
            self._reply(f"\x1b]{number};rgb:{colour}\x1b\\".encode())

    def _csi(self, given: str, final: str) -> None:
        if given[:1] == "?" and final in "hl":
            for number in given[1:].split(";"):
                self._mode(int(number), final == "h")
        elif final == "n" and given == "6":
            self._reply(f"\x1b[{self.cursor[0] + 1};{self.cursor[1] + 1}R".encode())
        elif final == "t" and given == "18" and self._tells_size:
            self._reply(f"\x1b[8;{self.grid.lines};{self.grid.columns}t".encode())
        elif final == "c" and given in ("", "0"):
            self._reply(b"\x1b[?62;22c")
        elif final == "c" and given[:1] == ">":
            self._reply(self._identity)
        elif given[:1] == "?" and given.endswith("$") and final == "p":
            number = int(given[1:-1])
            state = (1 if self.modes.get(number) else 2) if number in _ANSWERED_MODES else 0
            self._reply(f"\x1b[?{number};{state}$y".encode())
        elif final == "u" and given[:1] in ("?", ">", "<", "="):
            self._kitty(given[0], given[1:])
        elif final == "t":
            if given.startswith("22"):
                self.titles.insert(0, self.titles[0])
            elif given.startswith("23") and len(self.titles) > 1:
                self.titles.pop(0)
        elif final in "ST" and (given.isdigit() or not given):
            self.grid.scroll(int(given or 1), up=final == "S")
        elif final == "J" and given == "3":
            self.main.above.clear()
        elif final in "@ABCDEFGHJKLMPXad`efgmr" and not re.search(r"[<-?]|[ -/]", given):
            self._stream.feed(f"\x1b[{given.replace(':', ';')}{final}")

    def _mode(self, number: int, on: bool) -> None:
        self.modes[number] = on
        if number in (47, 1047, 1049):
            if on and self.other is None:
                self.other = Grid(self.main.columns, self.main.lines, keeps=False)
                self._stream = pyte.Stream(self.other)
            elif not on and self.other is not None:
                self.other, self._stream = None, self._main_stream
        elif number == 7:
            self._stream.feed(f"\x1b[?7{'h' if on else 'l'}")

    def _kitty(self, what: str, given: str) -> None:
        if what == "?" and self._knows_kitty:
            self._reply(f"\x1b[?{self.kitty_flags[-1]}u".encode())
        elif what == ">":
            self.kitty_flags.append(int(given.split(";")[0] or 0))
        elif what == "<":
            self.kitty_flags = self.kitty_flags[: -int(given or 1)] or [0]
        elif what == "=":
            self.kitty_flags[-1] = int(given.split(";")[0] or 0)


def _trimmed(rows: list[str]) -> list[str]:
    while rows and not rows[-1]:
        rows.pop()
    return rows
