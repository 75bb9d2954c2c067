"""What the terminal is asked about its window and its cursor, and what it has answered. Pure.

We write relative to the cursor, so as long as the window stays as it is, it does not matter where that is. A window
that becomes smaller moves rows, each terminal in its own way; and what we wrote may be drawn before or after that,
since the news of it comes late (up to a quarter of a second, from tmux). So after a change the terminal is asked before
anything is painted; and it is always asked in which window it has drawn a frame that moved rows. Answers come in the
order of the questions. One that does not tell its size is asked whether it is there: when it says so, `Terminal` looks
up the size, which such a terminal tells the system as soon as it changes. GNU screen does not tell it either, and may
have another one before we look: it is asked where the cursor is when that is sent to the last corner.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from spindle.frontends.tui.keys import Reply

Size = tuple[int, int]
T = TypeVar("T")

_HOW_LARGE = "\x1b[18t"
_ARE_YOU_THERE = "\x1b[5n"
_WHERE_IS_THE_CORNER = "\x1b7\x1b[999;999H\x1b[6n\x1b8"
_WHERE = "\x1b[6n"
_CUTS = ((0, 136, 0), (1, 10, 0))
"""What PuTTY and mosh call themselves: a narrower window cuts their rows. Most others break them anew."""
_XTERM, _TMUX, _GNU_SCREEN = 41, 84, 83
"""And xterm, whatever its version; then tmux and GNU screen."""
_MOST_OPEN = 50
"""Questions without an answer that are remembered: this terminal does not answer."""


class _Question:
    """Where is the cursor?"""

    def __init__(self, row: int) -> None:
        self.row = row
        """The row of the live area where it was then."""
        self.is_outdated = False
        self.since: list[tuple[int, int, int]] = []
        """What was painted since: rows that were printed, rows of the live area, rows of the window."""


class _Drawn(Generic[T]):
    """In which window was this frame drawn?"""

    def __init__(self, frame: T) -> None:
        self.frame = frame


class Whereabouts(Generic[T]):
    """`T` is what the painter wants to have back with the answer about a frame."""

    def __init__(self) -> None:
        self.reflows = False
        """Whether the terminal breaks its rows anew when the window becomes narrower."""
        self.is_tmux = False
        self.saves_deleted = False
        """Rows that are deleted at the top of its window go into its scrollback."""
        self.top: int | None = None
        """The row of the window where the live area begins, if we know it."""
        self.found: int | None = None
        """The row of the window in which the cursor is, as just told."""
        self.told: Size | None = None
        """How large the window is, as told with it."""
        self._questions: list[_Question] = []
        self._sizes: list[_Drawn[T] | Size] = []
        """Questions for the size: with a question for the cursor, the size that we take it to be."""
        self._tells_size = self._tells_cursor = False
        self._how_large = _HOW_LARGE
        self._corners: list[bool] = []
        """Of each place of the cursor that is to be told: whether it is that of the corner."""
        self._is_swapped: bool | None = None
        """Some versions of tmux tell columns and rows the wrong way round. None: not known yet."""
        self._has_asked = False
        """Since the window has changed."""

    @property
    def is_asking(self) -> bool:
        return bool(self._questions or self._sizes)

    @property
    def is_awaited(self) -> bool:
        """Whether a frame waits for what is told."""
        return self._has_asked

    @property
    def confirms(self) -> bool:
        """Whether we get to know in which window a frame was drawn, where it matters."""
        return self.reflows and self._tells_size

    @property
    def may_confirm(self) -> bool:
        """The same, or the first question has no answer yet, and the terminal may turn out to be one that tells."""
        is_new = bool(self._questions) and not self._tells_cursor and len(self._sizes) < _MOST_OPEN
        return self.confirms or is_new

    def take(self, reply: Reply) -> tuple[T, Size] | None:
        """What the terminal has told. Gives a frame and the window in which it was drawn, if it was about that."""
        values = reply.values
        if reply.kind == "terminal" and values:
            self.reflows = values[0] != _XTERM and values not in _CUTS
            self.is_tmux, self.saves_deleted = values[0] == _TMUX, values[0] == _GNU_SCREEN
            if values[0] == _GNU_SCREEN and self._how_large != _WHERE_IS_THE_CORNER:
                self._how_large, self._is_swapped = _WHERE_IS_THE_CORNER, False
                self._sizes.clear()  # what was asked before is not answered
        elif self._is_size(reply):
            return self._take_size(values)
        elif reply.kind == "cursor" and values and self._questions:
            if not self._tells_size and self._how_large == _HOW_LARGE:
                # The question for the size came before this one, and was not answered.
                self._how_large = _ARE_YOU_THERE
                self._sizes.clear()
            self._tells_cursor = True
            self._locate(self._questions.pop(0), values[0] - 1)
        return None

    def _is_size(self, reply: Reply) -> bool:
        if reply.kind == "cursor":
            return bool(self._corners) and self._corners.pop(0)
        return reply.kind == "size" and self._how_large != _WHERE_IS_THE_CORNER

    def _take_size(self, values: tuple[int, ...]) -> tuple[T, Size] | None:
        if len(values) != 2 or not self._sizes:
            return None
        self._tells_size = True
        asked = self._sizes.pop(0)
        if isinstance(asked, _Drawn):
            return asked.frame, self._turned(values)
        if self._is_swapped is None and asked in (values, values[::-1]) and values[0] != values[1]:
            self._is_swapped = asked == values
        self.told = self._turned(values)
        return None

    def _turned(self, values: tuple[int, ...]) -> Size:
        return (values[0], values[1]) if self._is_swapped else (values[1], values[0])

    def _locate(self, asked: _Question, row: int) -> None:
        if asked.is_outdated:
            return
        self.found = None if asked.since else row
        self.top = max(0, row - asked.row)
        for printed, live, height in asked.since:
            self.top = max(0, min(self.top + printed, height - live))

    def ask(self, row: int, size: Size) -> str:
        """Where is the cursor, and how large is the window? It is in this row of the live area now."""
        self.outdate()
        self._questions = [*self._questions[-_MOST_OPEN:], _Question(row)]
        self._sizes = [*self._sizes[-_MOST_OPEN:], size]
        self.told = self.found = None
        return self._size_question() + self._cursor_question()

    def _size_question(self) -> str:
        if self._how_large == _WHERE_IS_THE_CORNER:
            self._corners = [*self._corners[-2 * _MOST_OPEN :], True]
        return self._how_large

    def _cursor_question(self) -> str:
        self._corners = [*self._corners[-2 * _MOST_OPEN :], False]
        return _WHERE

    def confirm(self, frame: T) -> str:
        """In which window is this frame drawn?"""
        self._sizes = [*self._sizes[-_MOST_OPEN:], _Drawn(frame)]
        return self._size_question()

    def outdate(self) -> None:
        """Answers that are still to come will tell where the cursor was before."""
        for question in self._questions:
            question.is_outdated = True

    def painted(self, printed: int, live: int, height: int) -> None:
        """A frame: so many rows printed for good, above so many rows of the live area."""
        self.found = None
        self._has_asked = False
        if self.top is not None:
            self.top = max(0, min(self.top + printed, height - live))
        for question in self._questions:
            question.since.append((printed, live, height))

    def before_frame(self, size: Size, row: int, *, may_wait: bool) -> str | None:
        """The window has changed. None: it is known now where the cursor is, or nobody will tell. Otherwise wait, and
        write this first."""
        if not self._has_asked:
            self._has_asked = True
            return self.ask(row, size)
        return "" if self.found is None and self._tells_cursor and may_wait else None

    def expire(self) -> None:
        """The window is changing again: what it has told is true no longer."""
        if self.found is not None:
            self.found, self._has_asked = None, False

    def moved(self, up: int, height: int) -> int:
        """The window has changed, and the live area begins `up` rows above the cursor. Gives in which row the cursor
        is."""
        # A lower window drops the rows below the cursor first, and then pushes rows out at its top.
        guess = height - 1 if self.top is None else min(self.top + up, height - 1)
        at = guess if self.found is None else self.found
        self.top = None if self.top is None and self.found is None else max(0, at - up)
        self.outdate()
        return at

    def forget(self, top: int | None) -> None:
        self.outdate()
        self.top, self.found, self._has_asked = top, None, False
