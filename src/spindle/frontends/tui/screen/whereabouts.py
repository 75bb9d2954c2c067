"""Where in its window a terminal has the live area: what it tells us, and what follows from what we write. Pure.

We write relative to the cursor, so as long as the window stays as it is, it does not matter. A window that becomes
smaller moves rows, each terminal in its own way; and what we wrote may be drawn before or after that, since the news of
it comes late (up to a quarter of a second, from tmux). So after a change the terminal is asked before each frame, for a
while; and it is asked in which window it has drawn a frame that moved rows. Answers come in the order of the questions.
"""

from __future__ import annotations

from spindle.frontends.tui.keys import Reply

Size = tuple[int, int]

_HOW_LARGE = "\x1b[18t"
_WHERE = "\x1b[6n"
_CUTS = (41, 83)
"""What xterm and screen call themselves: a narrower window cuts their rows. Most others break them anew."""
_CUTS_TOO = ((0, 136, 0), (1, 10, 0))
"""PuTTY and mosh."""
_MOST_OPEN = 50
"""Questions without an answer that are remembered: this terminal does not answer."""
_PATIENCE = 5
"""How often a frame is put off for an answer, if this terminal is known to answer at all."""
_MOST_DELAYS = 4
"""How often it is put off because the terminal tells another size than that which is to be painted."""
_STORM = 15
"""How many frames after a change are asked for first."""


class _Question:
    """Where is the cursor?"""

    def __init__(self, row: int) -> None:
        self.row = row
        """The row of the live area where it was then."""
        self.is_outdated = False
        self.since: list[tuple[int, int, int]] = []
        """What was painted since: rows that were printed, rows of the live area, rows of the window."""


class Whereabouts:
    def __init__(self) -> None:
        self.reflows = False
        """Whether the terminal breaks its rows anew when the window becomes narrower."""
        self.top: int | None = None
        """The row of the window where the live area begins, if we know it."""
        self.found: int | None = None
        """The row of the window in which the cursor is, as just told."""
        self._questions: list[_Question] = []
        self._sizes: list[Size | None] = []
        """Questions for the size: the size that a frame was made for, or None if it belongs to a question for the
        cursor."""
        self._told: Size | None = None
        self._tells_size = self._tells_cursor = False
        self._delays = 0
        self._storm = 0
        self._is_mixed = False
        """A frame was drawn in another window than it was made for."""

    @property
    def is_certain(self) -> bool:
        """Whether all we wrote was drawn in the window that it was made for."""
        return not self._is_mixed and not any(self._sizes)

    @property
    def is_asking(self) -> bool:
        return bool(self._questions or self._sizes)

    def take(self, reply: Reply) -> None:
        """What the terminal has told."""
        values = reply.values
        if reply.kind == "terminal" and values:
            self.reflows = values[0] not in _CUTS and values not in _CUTS_TOO
        elif reply.kind == "size" and len(values) == 2 and self._sizes:
            self._tells_size = True
            made_for = self._sizes.pop(0)
            if made_for is None:
                self._told = (values[1], values[0])
            elif not _agree((values[1], values[0]), made_for):
                self._is_mixed = True
        elif reply.kind == "cursor" and values and self._questions:
            self._tells_cursor = True
            self._locate(self._questions.pop(0), values[0] - 1)

    def _locate(self, asked: _Question, row: int) -> None:
        if asked.is_outdated:
            return
        self.found = None if asked.since else row
        self.top = max(0, row - asked.row)
        for printed, live, height in asked.since:
            self.top = max(0, min(self.top + printed, height - live))

    def ask(self, row: int) -> str:
        """Where is the cursor, and how large is the window? It is in this row of the live area now."""
        self.outdate()
        self._questions = [*self._questions[-_MOST_OPEN:], _Question(row)]
        self._sizes = [*self._sizes[-_MOST_OPEN:], None]
        self._told = None
        return _HOW_LARGE + _WHERE

    def confirm(self, size: Size) -> str:
        """In which window is this frame drawn? Asked where it matters, of those who tell."""
        if not self.reflows or not self._tells_size:
            return ""
        self._sizes = [*self._sizes[-_MOST_OPEN:], size]
        return _HOW_LARGE

    def outdate(self) -> None:
        """Answers that are still to come will tell where the cursor was before."""
        for question in self._questions:
            question.is_outdated = True

    def painted(self, printed: int, live: int, height: int) -> None:
        """A frame: so many rows printed for good, above so many rows of the live area."""
        self.found = None
        if self.top is not None:
            self.top = max(0, min(self.top + printed, height - live))
        for question in self._questions:
            question.since.append((printed, live, height))

    def before_frame(self, size: Size, painted: Size, row: int) -> str | None:
        """None: paint now. Otherwise wait, and write this first."""
        if size == painted and not self._storm:
            return None
        if not self._delays:
            self._delays = 1
            return self.ask(row)
        if self._questions:
            if self._tells_cursor and self._delays <= _PATIENCE:
                self._delays += 1
                return ""
        elif self._told is not None and not _agree(self._told, size) and self._delays < _MOST_DELAYS:
            self._delays += 1
            return self.ask(row)
        self._delays = 0
        is_restless = size != painted and self.reflows and self._tells_size
        self._storm = _STORM if is_restless else max(0, self._storm - 1)
        return None

    def moved(self, up: int, height: int) -> int:
        """The window has changed, and the live area begins `up` rows above the cursor. Gives in which row the cursor
        is."""
        # A lower window drops the rows below the cursor first, and then pushes rows out at its top.
        guess = height - 1 if self.top is None else min(self.top + up, height - 1)
        at = guess if self.found is None else self.found
        self.top = None if self.top is None and self.found is None else max(0, at - up)
        self.outdate()
        self._is_mixed = False
        return at

    def forget(self, top: int | None) -> None:
        self.outdate()
        self.top, self.found = top, None


def _agree(told: Size, size: Size) -> bool:
    """Some versions of tmux tell columns and rows the wrong way round."""
    return size in (told, told[::-1])
