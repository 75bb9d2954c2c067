"""Lines on their way into the scrollback: a portion with each frame, and no line without an end.

Between two portions keys are read and the live area is painted, however much there is to print and however slowly the
terminal takes it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from spindle.frontends.tui.shown import Line, Span

PORTION = 60_000
"""Characters that are printed with one frame."""
LONGEST = 50_000
"""Characters of one line that are printed: it may have no line end at all. The transcript shows all of it."""
_END = 5_000
"""How many of them are from the end of the line."""


class Printing:
    def __init__(self) -> None:
        self._lines: deque[Line] = deque()

    @property
    def is_done(self) -> bool:
        return not self._lines

    def add(self, lines: Iterable[Line]) -> None:
        self._lines.extend(map(bounded, lines))

    def portion(self) -> list[Line]:
        """The next lines to print."""
        taken: list[Line] = []
        room = PORTION
        while self._lines and (room > 0 or not taken):
            taken.append(self._lines.popleft())
            room -= _length(taken[-1]) + 1
        return taken

    def rest(self) -> list[Line]:
        rest = [*self._lines]
        self._lines.clear()
        return rest


def bounded(line: Line) -> Line:
    """A line of which the middle is left out when it is endless."""
    size = _length(line)
    if size <= LONGEST:
        return line
    left_out = f"{size - LONGEST:,} characters are left out here; Ctrl-T shows all"
    start = _part(line.spans, 0, LONGEST - _END)
    return line._replace(spans=(*start, Span(f" … {left_out} … ", "warning"), *_part(line.spans, size - _END, size)))


def _length(line: Line) -> int:
    return sum(len(span.text) for span in line.spans)


def _part(spans: tuple[Span, ...], begin: int, end: int) -> list[Span]:
    part: list[Span] = []
    offset = 0
    for text, style in spans:
        if piece := text[max(0, begin - offset) : max(0, end - offset)]:
            part.append(Span(piece, style))
        offset += len(text)
    return part
