"""A long text in a window that is moved over it: lines are laid out only where they are seen. Pure.

The place is the line and the row of it at the top of the window, so a new width moves nothing, and nothing depends on
how many lines there are. Lines may still be in the making: they are taken from an iterator as far as they are needed.
A text in blocks (`Blocks`: the transcript) is shown from its end, and may grow: whoever is at its end stays there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import Protocol, runtime_checkable

from spindle.frontends.fit import cells, reach
from spindle.frontends.tui.shown import Line, Span, plain
from spindle.frontends.tui.text.layout import Row, rows

_AT_ONCE = 2000
"""Lines that are searched before somebody else may have the processor."""
_AHEAD = 200
_MOST_KEPT = 500
_FOUND = "reverse"


@runtime_checkable
class Blocks(Protocol):
    """Lines in blocks. New ones come at the end; those that are open may change."""

    @property
    def block_count(self) -> int: ...

    def block(self, number: int) -> list[Line]: ...

    def is_open(self, number: int) -> bool: ...


class Lines:
    """Lines as far as they have been asked for."""

    above = 0
    """How many lines have a number below 0."""

    def __init__(self, source: Iterable[Line]) -> None:
        self._known: Sequence[Line] = source if isinstance(source, Sequence) else []
        self._rest: Iterator[Line] | None = None if isinstance(source, Sequence) else iter(source)

    def __getitem__(self, number: int) -> Line:
        return self._known[number]

    def has(self, number: int) -> bool:
        """Whether there is such a line; it is there then."""
        if number >= len(self._known) and self._rest is not None and isinstance(self._known, list):
            self._known += islice(self._rest, number - len(self._known) + _AHEAD)
            if number >= len(self._known):
                self._rest = None
        return 0 <= number < len(self._known)

    def first(self) -> int:
        return 0

    def renew(self) -> int | None:
        """The number of the first line that may be another one now; None when there is none."""
        return None

    def last(self) -> int:
        """The number of the last line; makes all of them."""
        if self._rest is not None and isinstance(self._known, list):
            self._known += self._rest
            self._rest = None
        return max(0, len(self._known) - 1)

    @property
    def count(self) -> int | None:
        """None as long as nobody knows."""
        return len(self._known) if self._rest is None else None


class LinesFromEnd:
    """The same for blocks, beginning with the last one: line 0 is its first, and those before it count down."""

    def __init__(self, source: Blocks) -> None:
        self._source = source
        self._first_made = self._next = max(0, source.block_count - 1)
        """Which blocks are lines: from the one up to the other."""
        self._before: list[Line] = []
        """Those before line 0, the nearest first."""
        self._after: list[Line] = []
        self._settled_blocks, self._settled = self._next, 0
        """How many blocks, and lines from 0 on, cannot change any more."""

    def __getitem__(self, number: int) -> Line:
        return self._after[number] if number >= 0 else self._before[-1 - number]

    def has(self, number: int) -> bool:
        """Whether there is such a line; it is there then."""
        while number < -len(self._before) and self._first_made:
            self._first_made -= 1
            self._before += reversed(self._source.block(self._first_made))
        while number >= len(self._after) and self._next < self._source.block_count:
            self._after += self._source.block(self._next)
            is_settled = self._settled_blocks == self._next and not self._source.is_open(self._next)
            self._next += 1
            if is_settled:
                self._settled_blocks, self._settled = self._next, len(self._after)
        return -len(self._before) <= number < len(self._after)

    def renew(self) -> int | None:
        if self._settled_blocks == self._source.block_count:
            return None
        del self._after[self._settled :]
        self._next = self._settled_blocks
        return self._settled

    @property
    def above(self) -> int:
        return len(self._before)

    def first(self) -> int:
        """The number of the first line; makes all lines before 0."""
        while self._first_made:
            self.has(-len(self._before) - 1)
        return -len(self._before)

    def last(self) -> int:
        """The number of the last line; makes all from 0 on."""
        while self._next < self._source.block_count:
            self.has(len(self._after))
        return len(self._after) - 1 if self._after or self.has(-1) else 0

    @property
    def count(self) -> int | None:
        is_all = not self._first_made and self._next == self._source.block_count
        return len(self._before) + len(self._after) if is_all else None


class Scroll:
    """A window over lines. Ask for `rows` first: it tells how large the window is."""

    def __init__(self, source: Iterable[Line] | Blocks) -> None:
        self.lines = LinesFromEnd(source) if isinstance(source, Blocks) else Lines(source)
        self._follows = isinstance(self.lines, LinesFromEnd)
        """The window stays at the end of the text, wherever that is."""
        self._top, self._skipped = 0, 0
        """The line at the top, and how many of its rows are above the window."""
        self._width, self._height = 80, 24
        self._made: dict[int, list[Row]] = {}
        """The rows of lines that were seen lately, for this width."""
        self.sought = ""
        self._pattern: re.Pattern[str] | None = None
        self._search: Iterator[bool] | None = None
        self._hit: int | None = None
        """The line that was found last, as long as nobody has moved on."""
        self.has_failed = False
        """What was sought is not there."""

    # ---- what is seen ----------------------------------------------------------------------------

    def rows(self, width: int, height: int, *, renews: bool = True) -> list[Row]:
        """The rows in the window; fewer than `height` at the end of the text. `renews`: look whether it has grown."""
        if width != self._width:
            self._made.clear()
        self._width, self._height = max(1, width), max(1, height)
        if renews and (renewed := self.lines.renew()) is not None:
            self._made = {number: made for number, made in self._made.items() if number < renewed}
        if self._follows:
            self._go_to_end()
        self._skipped = min(self._skipped, len(self._rows_of(self._top)) - 1)
        self._stay_inside()
        shown: list[Row] = []
        number, skipped = self._top, self._skipped
        while len(shown) < self._height and self.lines.has(number):
            shown += self._rows_of(number)[skipped:]
            number, skipped = number + 1, 0
        return [self._marked(row) for row in shown[: self._height]]

    @property
    def is_at_end(self) -> bool:
        return self._rows_below(self._height + 1) <= self._height

    @property
    def percent(self) -> int | None:
        """How much of it is above the end of the window; None as long as nobody knows how much there is."""
        if self.is_at_end:
            return 100
        count = self.lines.count
        return None if count is None else min(99, (self._top + self.lines.above) * 100 // max(1, count))

    def _rows_of(self, number: int) -> list[Row]:
        if not self.lines.has(number):
            return [()]
        made = self._made.get(number)
        if made is None:
            if len(self._made) > _MOST_KEPT:
                self._made.clear()
            made = [piece for row in rows(self.lines[number], self._width) for piece in pieces(row, self._width)]
            self._made[number] = made
        return made

    def _marked(self, row: Row) -> Row:
        return row if self._pattern is None else marked(row, self._pattern)

    # ---- moving ----------------------------------------------------------------------------------

    def move(self, count: int) -> None:
        """So many rows down, or up if it is less than nothing."""
        self._hit = None
        while count > 0:
            left = len(self._rows_of(self._top)) - self._skipped
            if count < left:
                self._skipped += count
                break
            if not self.lines.has(self._top + 1):
                self._skipped += left - 1
                break
            count -= left
            self._top, self._skipped = self._top + 1, 0
        while count < 0:
            if -count <= self._skipped:
                self._skipped += count
                break
            count += self._skipped
            self._skipped = 0
            if not self.lines.has(self._top - 1):
                break
            self._top -= 1
            self._skipped = len(self._rows_of(self._top)) - 1
            count += 1
        self._stay_inside()
        self._moved()

    def _moved(self) -> None:
        self._follows = isinstance(self.lines, LinesFromEnd) and self.is_at_end

    def move_pages(self, pages: float) -> None:
        """A row stays in sight, so that the eye finds its place."""
        self.move(int(max(1, self._height - 1) * pages))

    def to_start(self) -> None:
        self._top, self._skipped = self.lines.first(), 0
        self._hit = None
        self._moved()

    def to_end(self) -> None:
        self._hit = None
        self._go_to_end()
        self._moved()

    def _go_to_end(self) -> None:
        self._top = self.lines.last()
        self._skipped = len(self._rows_of(self._top)) - 1
        self._stay_inside()

    def _rows_below(self, most: int) -> int:
        """How many rows there are from the top of the window on; counted no further than needed."""
        found = len(self._rows_of(self._top)) - self._skipped
        number = self._top + 1
        while found < most and self.lines.has(number):
            found += len(self._rows_of(number))
            number += 1
        return found

    def _stay_inside(self) -> None:
        """The last row is at the end of the window, not above it."""
        missing = self._height - self._rows_below(self._height)
        while missing > 0 and (self._skipped or self.lines.has(self._top - 1)):
            up = min(missing, self._skipped)
            self._skipped -= up
            missing -= up
            if missing and self.lines.has(self._top - 1):
                self._top -= 1
                self._skipped = len(self._rows_of(self._top))

    # ---- searching -------------------------------------------------------------------------------

    def search(self, sought: str) -> None:
        """Find and mark a text, from the top of the window on, else above it. Small letters find large ones, too."""
        self.sought = sought
        flags = re.IGNORECASE if sought == sought.lower() else 0
        self._pattern = re.compile(re.escape(sought), flags) if sought else None
        self._begin_search(step=1, start=self._top, else_above=True)

    def search_on(self, step: int) -> None:
        """The next line with it, or the one before (step -1)."""
        self._begin_search(step=step, start=(self._top if self._hit is None else self._hit) + step)

    @property
    def is_searching(self) -> bool:
        return self._search is not None

    def search_step(self) -> None:
        """Look through some more lines."""
        if self._search is not None and next(self._search, True):
            self._search = None

    def _begin_search(self, *, step: int, start: int, else_above: bool = False) -> None:
        self.has_failed = False
        self._search = None if self._pattern is None else self._look(self._pattern, step, start, else_above)
        self.search_step()

    def _look(self, pattern: re.Pattern[str], step: int, start: int, else_above: bool) -> Iterator[bool]:
        number = start
        while self.lines.has(number):
            if pattern.search(plain(self.lines[number])):
                within = (at for at, row in enumerate(self._rows_of(number)) if pattern.search(_text(row)))
                self._top, self._skipped = number, next(within, 0)
                self._hit = number
                self._stay_inside()
                self._moved()
                yield True
                return
            number += step
            if (number - start) % _AT_ONCE == 0:
                yield False
        if else_above:
            yield from self._look(pattern, -1, start - 1, False)
        else:
            self.has_failed = True


def pieces(row: Row, width: int) -> list[Row]:
    """A row as the rows it takes when it is simply broken at the width."""
    made: list[Row] = []
    piece: list[Span] = []
    room = width
    for text, style in row:
        at = 0
        while at < len(text):
            taken = reach(text[at : at + 2 * room + 64], room)
            if not taken and not piece:
                taken = 1  # a character of two cells in a window of one
            if taken:
                piece.append(Span(text[at : at + taken], style))
                room -= cells(piece[-1].text)
                at += taken
            if at < len(text):
                made.append(tuple(piece))
                piece, room = [], width
    return [*made, tuple(piece)] if piece or not made else made


def marked(row: Row, pattern: re.Pattern[str]) -> Row:
    """A row in which what was found stands out."""
    found = [match.span() for match in pattern.finditer(_text(row)) if match.group()]
    if not found:
        return row
    made: list[Span] = []
    at = 0
    for text, style in row:
        edges = sorted({0, len(text), *(min(max(edge - at, 0), len(text)) for span in found for edge in span)})
        for start, end in pairwise(edges):
            is_found = any(first <= at + start < last for first, last in found)
            made.append(Span(text[start:end], f"{style} {_FOUND}".strip() if is_found else style))
        at += len(text)
    return tuple(made)


def _text(row: Row) -> str:
    return "".join(span.text for span in row)
