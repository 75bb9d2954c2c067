"""A long text on a screen of its own, until the person closes it: moving about, and finding words.

It takes the alternate screen, or, for those who do not want that (`--no-alt-screen`), the live area.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Protocol

from spindle.frontends.fit import cells, cut
from spindle.frontends.tui.keys import Key
from spindle.frontends.tui.screen.inking import ink, tidy
from spindle.frontends.tui.screen.painter import BEGIN, END, HIDE, NO_WRAP, SHOW, Painter
from spindle.frontends.tui.screen.scroll import Blocks, Scroll
from spindle.frontends.tui.shown import Line, Span
from spindle.frontends.tui.text.layout import Row
from spindle.frontends.tui.text.layout import cut as cut_row

_CLOSE = ("q", "Q", "esc", "ctrl-c", "ctrl-t", "ctrl-o")
_RESTS = 20
"""A text that grows is looked at again after so many times as long as that takes: keys come first."""
_HELP = "q closes · ↑ ↓ PgUp PgDn · / finds · n N next"


class Screen(Protocol):
    """What of the terminal is needed here (`Terminal`)."""

    size: tuple[int, int]

    def write(self, data: bytes) -> None: ...

    def alternate_screen(self, on: bool) -> None: ...


class Pager:
    """`paint` shows it, `key` and `paste` are for what the person does, and `closed` is done when they have enough.

    `close` gives the screen back; whoever opened it calls it, whatever happened.
    """

    def __init__(
        self, terminal: Screen, painter: Painter, title: str, lines: Iterable[Line] | Blocks, *, inline: bool = False
    ) -> None:
        self.scroll = Scroll(lines)
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._terminal = terminal
        self._painter = painter
        self._title = title
        self._is_inline = inline
        self._typed: str | None = None
        """What is being sought, while it is typed."""
        self._painted: list[Row] = []
        self._painted_size = (0, 0)
        self._is_open = False
        self._loop = asyncio.get_running_loop()
        self._renews_at = 0.0
        self._renewal: asyncio.TimerHandle | None = None
        self.is_awaited = False
        """Something behind it waits for the person."""

    # ---- what is seen ----------------------------------------------------------------------------

    def paint(self) -> None:
        if self.closed.done():
            return
        size = self._terminal.size
        shown = self._rows(*size)
        if self._is_inline:
            self._painter.frame([], [Line(row, is_verbatim=True) for row in shown], self._cursor(size), size)
            return
        if not self._is_open:
            self._is_open = True
            self._terminal.alternate_screen(True)
        self._paint_all(shown, size)

    def close(self) -> None:
        """Give the screen back."""
        if not self.closed.done():
            self.closed.set_result(None)
        if self._renewal is not None:
            self._renewal.cancel()
        self.leave_screen()

    def leave_screen(self) -> None:
        """Leave the alternate screen; `paint` takes it again."""
        if self._is_open:
            self._is_open, self._painted_size = False, (0, 0)
            self._terminal.alternate_screen(False)

    def _rows(self, width: int, height: int) -> list[Row]:
        """All rows of the window: a title, the text, and a line of help, which go first when there is no room."""
        has_title, has_foot = height >= 4, height >= 2
        room = height - has_title - has_foot
        text = [tidy(row) for row in self._text(width, room)]
        text += [()] * (room - len(text))
        title = [self._head(width)] if has_title else []
        return [*title, *text, *([self._foot(width)] if has_foot else [])]

    def _text(self, width: int, room: int) -> list[Row]:
        begun = self._loop.time()
        is_due = begun >= self._renews_at
        shown = self.scroll.rows(width, room, renews=is_due)
        if is_due:
            self._renews_at = begun + _RESTS * (self._loop.time() - begun)
        elif self._renewal is None:
            self._renewal = self._loop.call_at(self._renews_at, self._renew)
        return shown

    def _renew(self) -> None:
        self._renewal = None
        self.paint()

    def _head(self, width: int) -> Row:
        rule = "─" * max(0, width - cells(self._title) - 4)
        return cut_row((Span("─ ", "dim"), Span(self._title, "bold"), Span(f" {rule}", "dim")), width)

    def _foot(self, width: int) -> Row:
        if self._typed is not None:
            return (Span(cut(f"/{self._typed}", width)),)
        percent = self.scroll.percent
        right = "" if percent is None else f"{percent} %"
        left = f"a question waits for you · {_HELP}" if self.is_awaited else _HELP
        if self.scroll.is_searching:
            left = f"looking for {self.scroll.sought} …"
        elif self.scroll.has_failed:
            left = f"not found: {self.scroll.sought}"
        left = cut(left, max(0, width - cells(right) - 1))
        return (Span(f"{left}{' ' * (width - cells(left) - cells(right))}{right}", "dim"),)

    def _cursor(self, size: tuple[int, int]) -> tuple[int, int] | None:
        """In the line where a word is typed; hidden otherwise."""
        if self._typed is None or size[1] < 2:
            return None
        return size[1] - 1, min(cells(self._typed) + 1, size[0] - 1)

    def _paint_all(self, shown: list[Row], size: tuple[int, int]) -> None:
        parts: list[str] = []
        if size != self._painted_size:
            parts.append(f"{NO_WRAP}\x1b[H\x1b[J")
            self._painted, self._painted_size = [()] * size[1], size
        for number, row in enumerate(shown):
            if row != self._painted[number]:
                parts.append(f"\x1b[{number + 1};1H\x1b[K{ink(row, self._painter.looks)}")
        self._painted = shown
        cursor = self._cursor(size)
        place = "" if cursor is None else f"\x1b[{cursor[0] + 1};{cursor[1] + 1}H{SHOW}"
        if parts or place:
            self._terminal.write(f"{BEGIN}{HIDE}{''.join(parts)}{place}{END}".encode("utf-8", "replace"))

    # ---- what a person does ----------------------------------------------------------------------

    @property
    def is_typing(self) -> bool:
        """What is searched for is being typed."""
        return self._typed is not None

    def key(self, key: Key) -> None:
        if self.closed.done():
            return
        if self._typed is not None:
            self._key_of_search(key)
        else:
            self._key_of_text(key)
        if not self.closed.done():
            self._search_on()

    def paste(self, text: str) -> None:
        if self._typed is not None:
            self._typed += text.partition("\n")[0]

    def _key_of_text(self, key: Key) -> None:
        scroll = self.scroll
        match key.name:
            case "down" | "j" | "enter" | "ctrl-n":
                scroll.move(1)
            case "up" | "k" | "ctrl-p":
                scroll.move(-1)
            case "pgdn" | "space" | "ctrl-f":
                scroll.move_pages(1)
            case "pgup" | "ctrl-b" | "shift-space" | "b":
                scroll.move_pages(-1)
            case "ctrl-d":
                scroll.move_pages(0.5)
            case "ctrl-u":
                scroll.move_pages(-0.5)
            case "home" | "g":
                scroll.to_start()
            case "end" | "G":
                scroll.to_end()
            case "/":
                self._typed = ""
            case "n":
                scroll.search_on(1)
            case "N":
                scroll.search_on(-1)
            case name if name in _CLOSE:
                self.closed.set_result(None)
            case _:
                pass

    def _key_of_search(self, key: Key) -> None:
        assert self._typed is not None
        match key.name:
            case "enter":
                sought, self._typed = self._typed or self.scroll.sought, None
                self.scroll.search(sought)
            case "esc" | "ctrl-c":
                self._typed = None
                self.scroll.search("")
            case "backspace" | "ctrl-h":
                self._typed = self._typed[:-1] if self._typed else None
            case "ctrl-u":
                self._typed = ""
            case _:
                self._typed += key.text

    def _search_on(self) -> None:
        """A search through very much text gives way to keys now and then."""
        if self.scroll.is_searching and not self.closed.done():
            asyncio.get_running_loop().call_soon(self._search_step)

    def _search_step(self) -> None:
        self.scroll.search_step()
        if self.scroll.is_searching:
            self._search_on()
        else:
            self.paint()
