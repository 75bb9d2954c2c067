"""Text of the live area that a smaller window has pushed into the scrollback, where nothing can be erased.

Most of it is the beginning of an answer that is still being written. When it is finished it must not be printed again
from its start: a word would stand there twice. So we remember how much of the text has gone, and leave that out, of the
live area and of the finished lines. Where the text has changed since, it is printed whole: rather twice than lost.
"""

from __future__ import annotations

from collections.abc import Sequence

from spindle.frontends.fit import rows_of
from spindle.frontends.tui.shown import Line, Span, plain
from spindle.frontends.tui.text.layout import rows


class Stranded:
    def __init__(self) -> None:
        self._text = ""
        """What has gone, without blanks: lines may be broken elsewhere now."""

    def strand(self, pending: Sequence[Line], gone: int, width: int, broken_at: int) -> None:
        """So many rows of the terminal have left, of lines that will be finished later; they were laid out for
        `width`, and broken again by the terminal."""
        text = ""
        for line in pending:
            for number, row in enumerate(rows(line, width)):
                shown = "".join(span.text for span in row)
                marks = _letters("".join(span.text for span in line.hang)) if number else ""
                for piece in rows_of(shown, broken_at) if broken_at < width else [shown]:
                    if gone <= 0:
                        self._text += text
                        return
                    gone -= 1
                    letters = _letters(piece)
                    text += letters.removeprefix(marks)
                    marks = ""
        self._text += text

    def leave_out(
        self, finished: Sequence[Line], live: Sequence[Line], pending: int
    ) -> tuple[Sequence[Line], Sequence[Line], int]:
        """The lines without what has gone already."""
        if not self._text:
            return finished, live, pending
        for start in range(len(finished) + 1):  # lines before it may be about something else
            printed = _without(finished[start:], self._text)
            shown = None if printed is None else _without(live[:pending], printed[1])
            if printed is not None and shown is not None and not shown[1]:
                self._text = printed[1]
                return [*finished[:start], *printed[0]], [*shown[0], *live[pending:]], len(shown[0])
        if finished:
            self._text = ""  # it has become something else
        # Otherwise only the end of the text is shown: its beginning is to come when it is finished.
        return finished, live, 0


def _without(lines: Sequence[Line], gone: str) -> tuple[list[Line], str] | None:
    """The lines, and what of `gone` comes after them; None if they are other lines."""
    kept: list[Line] = []
    for number, line in enumerate(lines):
        if not gone:
            return [*kept, *lines[number:]], ""
        letters = _letters(plain(line))
        if gone.startswith(letters):
            gone = gone[len(letters) :]
        elif letters.startswith(gone):
            kept.append(_behind(line, len(gone)))
            gone = ""
        else:
            return None
    return kept, gone


def _behind(line: Line, letters: int) -> Line:
    """The line without so many of its first letters; but a word of which only the beginning has gone is there whole."""
    text = plain(line)
    at = 0
    while letters:
        letters -= text[at] != " "
        at += 1
    if at < len(text) and text[at] != " ":
        at = text.rfind(" ", 0, at) + 1
    while at < len(text) and text[at] == " ":
        at += 1
    spans: list[Span] = []
    for piece, style in line.spans:
        spans.append(Span(piece[at:], style))
        at = max(0, at - len(piece))
    return Line((*line.hang, *(span for span in spans if span.text)), line.hang, line.is_verbatim)


def _letters(text: str) -> str:
    return "".join(text.split())
