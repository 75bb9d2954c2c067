"""The draft as rows of a window: where lines are broken, which row the cursor is in, what each row looks like.

Cost grows with the draft only, and for most keys with the one line that changed: the rows of a line are remembered
by its text.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

from spindle.frontends.fit import EMOJI_STYLE, cells, cut
from spindle.frontends.tui.composer.draft import MARKS, Folds
from spindle.frontends.tui.shown import Line, Span, plain

_TAB = "    "
_JOINERS = frozenset("\u200c\u200d\ufe0e\ufe0f")
"""Parts of a spelling or of an emoji, which do no harm in a draft."""


@lru_cache(maxsize=4096)
def shown_char(char: str) -> tuple[str, int]:
    """How a character that is not plain is shown, and in how many cells. Nothing of it can drive the terminal."""
    if char == "\t":
        return _TAB, len(_TAB)
    if char in _JOINERS:
        return char, int(char == EMOJI_STYLE)  # it can make the sign before it wider
    from spindle.frontends.tui.text.clean import safe  # only where there is more than plain letters

    text = safe(char)
    return text, cells(text)


def shown_text(text: str) -> str:
    """A short text of the person's own, safe to be shown."""
    return "".join(char if " " <= char <= "~" else shown_char(char)[0] for char in text)


class Layout:
    """The rows of a text at a width. Each row is a piece of the text: from, up to."""

    def __init__(self, folds: Folds) -> None:
        self._folds = folds
        self._known: dict[str, tuple[int, ...]] = {}
        self._width = 0
        self._text: str | None = None
        self.rows: list[tuple[int, int]] = [(0, 0)]

    def update(self, text: str, width: int) -> None:
        if (text, width) == (self._text, self._width):
            return
        known = self._known if width == self._width else {}
        self._width = width
        used: dict[str, tuple[int, ...]] = {}
        rows: list[tuple[int, int]] = []
        start = 0
        for line in text.split("\n"):
            breaks = used.get(line) or known.get(line) or self._breaks(line, width)
            used[line] = breaks
            for begin, end in pairwise(breaks):
                rows.append((start + begin, start + end))
            start += len(line) + 1
        self._known, self._text, self.rows = used, text, rows

    def _breaks(self, line: str, width: int) -> tuple[int, ...]:
        """Where the rows of a line begin, and its end: after blanks where it can be, else anywhere."""
        if line.isascii() and line.isprintable():
            return self._plain_breaks(line, width)
        places = [0]
        taken = 0
        blank = blank_taken = 0  # after the last blank in this row: the place, and the cells up to it
        for place, char in enumerate(line):
            size = self.size(char)
            if taken + size > width and place > places[-1] and size:
                begin, rest = (blank, taken - blank_taken) if blank > places[-1] else (place, 0)
                places.append(begin)
                taken = rest
                blank = blank_taken = 0
            taken += size
            if char == " ":
                blank, blank_taken = place + 1, taken
        places.append(len(line))
        return tuple(places)

    @staticmethod
    def _plain_breaks(line: str, width: int) -> tuple[int, ...]:
        places = [0]
        start, length = 0, len(line)
        while length - start > width:
            blank = line.rfind(" ", start, start + width)
            start = blank + 1 if blank >= start else start + width
            places.append(start)
        places.append(length)
        return tuple(places)

    def size(self, char: str) -> int:
        if " " <= char <= "~":
            return 1
        if (fold := self._folds.get(char)) is not None:
            return cells(cut(fold.label, self._width))
        return shown_char(char)[1]

    def find(self, place: int) -> int:
        """The row in which a place of the text is; between two rows of a line it is at the start of the second."""
        low, high = 0, len(self.rows) - 1
        while low < high:
            middle = (low + high + 1) // 2
            if self.rows[middle][0] <= place:
                low = middle
            else:
                high = middle - 1
        return low

    def column(self, place: int) -> int:
        """How many cells stand before a place in its row."""
        start = self.rows[self.find(place)][0]
        piece = (self._text or "")[start:place]
        return (
            len(piece) if piece.isascii() and piece.isprintable() else cells(plain(Line(tuple(self._spans(piece, "")))))
        )

    def place(self, row: int, column: int) -> int:
        """The place in a row nearest to a column."""
        start, end = self.rows[row]
        text = self._text or ""
        taken = 0
        for place in range(start, end):
            taken += self.size(text[place])
            if taken > column:
                return place
        # The end of a row that goes on in the next one is that row's start.
        is_broken = row + 1 < len(self.rows) and self.rows[row + 1][0] == end
        return max(start, end - 1) if is_broken else end

    def spans(self, row: int, selected: tuple[int, int] | None = None) -> list[Span]:
        """What a row looks like."""
        start, end = self.rows[row]
        text = self._text or ""
        if selected is None or selected[1] <= start or selected[0] >= end:
            return self._spans(text[start:end], "")
        begin, until = max(start, selected[0]), min(end, selected[1])
        return [
            *self._spans(text[start:begin], ""),
            *self._spans(text[begin:until], "reverse"),
            *self._spans(text[until:end], ""),
        ]

    def _spans(self, piece: str, style: str) -> list[Span]:
        if not piece:
            return []
        if piece.isascii() and piece.isprintable():
            return [Span(piece, style)]
        spans: list[Span] = []
        plain = ""
        for char in piece:
            fold = self._folds.get(char) if MARKS.match(char) else None
            if fold is None:
                plain += char if " " <= char <= "~" else shown_char(char)[0]
                continue
            if plain:
                spans.append(Span(plain, style))
            spans.append(Span(cut(fold.label, self._width), f"{style} accent".strip()))
            plain = ""
        return [*spans, Span(plain, style)] if plain else spans
