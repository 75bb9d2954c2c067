"""What every cell is: something that happened, kept as data, and made into lines when somebody wants to see it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from spindle.frontends.fit import counted
from spindle.frontends.fit import cut as cut_text
from spindle.frontends.plain_text import duration_words
from spindle.frontends.tui.shown import Line, Span, line, prefixed
from spindle.frontends.tui.text.clean import safe

INDENT = "  "
FOLDED_LINES = 5
"""How many lines are shown of what a command or a tool printed."""
LONGEST_LINE = 500
"""Cells that one line of output may take in the scrollback; an address is whole, a minified file is not."""
UNFOLDED_LINE = 20_000
"""The same in the transcript, which shows everything that a person can read."""
KEPT_OUTPUT = 200_000
"""Characters of one output that are kept for the transcript: the beginning and the end of more."""


class Look(NamedTuple):
    """How cells are to be shown."""

    width: int
    words: bool = False
    """Plain mode: words in place of signs ("You:", "Command (exit 3):")."""
    is_whole: bool = False
    """Nothing is folded: the transcript."""
    cwd: str = ""
    """The folder of the thread; paths below it are shown without it."""

    @property
    def room(self) -> int:
        """The width behind the sign or the indent that a cell begins with."""
        return max(8, self.width - len(INDENT))

    def place(self, path: str) -> str:
        """A path as it is called in the working folder, fit to be shown in a line."""
        inside = self.cwd and path.startswith(f"{self.cwd}/")
        return one_line(path[len(self.cwd) + 1 :] if inside else path)

    def head(self, sign: Span, word: str, *parts: str | Span) -> Line:
        """The first line of a cell: a sign, or in plain mode a word, and what it is about."""
        begin = Span(f"{word}: ") if self.words else Span(f"{sign.text} ", sign.style)
        spans = tuple(part if isinstance(part, Span) else Span(part) for part in parts if part)
        return Line((begin, *spans), (Span(INDENT),))

    def title(self, sign: Span, word: str, note: str = "") -> Line:
        """The first line of a cell whose title says it all: `• Explored`, or `Explored:`."""
        behind = Span(f" {note}" if note else "", "dim")
        if self.words:
            return line(f"{word}{behind.text}:")
        return line(Span(f"{sign.text} ", sign.style), Span(word, "bold"), behind, hang=INDENT)

    def block(self, sign: Span, word: str, lines: Sequence[Line]) -> list[Line]:
        """Lines of text behind a sign, or in plain mode behind a word."""
        begin = Span(f"{word}: ") if self.words else Span(f"{sign.text} ", sign.style)
        shown = prefixed(begin, Span(INDENT), lines)
        # An empty line stays empty: nobody wants blanks in what they copy.
        return [
            new if number == 0 or old.spans else old for number, (new, old) in enumerate(zip(shown, lines, strict=True))
        ]


class Cell:
    """One thing that happened. A cell that is done never changes any more."""

    __slots__ = ()

    kind = ""
    """Short cells of one kind stand together, without an empty line between them; "" = always apart."""
    is_shown = True
    """False: it is in the transcript only."""

    def lines(self, look: Look) -> list[Line]:
        """What is to be seen of it."""
        raise NotImplementedError


class Running(Cell):
    """Something that was begun and shows in the live area until it is over. Then it moves to the scrollback."""

    __slots__ = ()

    def live(self, look: Look, now_s: float) -> list[Line]:
        """What is to be seen of it meanwhile: a few rows."""
        raise NotImplementedError


class Streaming(Cell):
    """Text that arrives in pieces. What later text cannot change is given away for the scrollback at once.

    As long as it streams, everything that is done behind it waits: nothing may stand in the middle of an answer.
    """

    __slots__ = ()

    @property
    def is_open(self) -> bool:
        raise NotImplementedError

    def take_finished(self, look: Look) -> list[Line]:
        """Lines that were not given before; once it is no longer open, all the rest."""
        raise NotImplementedError

    def tail(self, look: Look) -> list[Line]:
        """The unfinished rest."""
        raise NotImplementedError


def one_line(text: str) -> str:
    """A name, a title, a command that has to fit into a line of ours."""
    return " ".join(safe(text).split())


def short(text: str, most: int = 200) -> str:
    """The same, cut."""
    return cut_text(one_line(text[: 8 * most]), most)


def kept(text: str, most: int = KEPT_OUTPUT) -> str:
    """The text, or its beginning and its end, with a line between them that says what is missing."""
    if len(text) <= most:
        return text
    head, tail = text[: most // 2].rpartition("\n"), text[-most // 2 :].partition("\n")
    before, after = head[0] or head[2], tail[2] or tail[0]
    return f"{before}\n… {len(text) - len(before) - len(after):,} characters not kept …\n{after}"


def clipped(shown: Line, most: int) -> Line:
    """The line, or its beginning with a mark when it is very long."""
    length = 0
    for number, span in enumerate(shown.spans):
        length += len(span.text)
        if length > most:
            kept = span.text[: len(span.text) - (length - most)]
            return Line((*shown.spans[:number], Span(f"{kept}…", span.style)), shown.hang, shown.is_verbatim)
    return shown


def folded(lines: Sequence[Line], most: int = FOLDED_LINES) -> list[Line]:
    """The first and the last lines, and between them how many are missing: at most `most` in all."""
    if len(lines) <= most:
        return list(lines)
    head = (most - 1) // 2
    tail = most - 1 - head
    return [*lines[:head], more_lines(len(lines) - head - tail), *lines[-tail:]]


def more_lines(number: int, *, or_more: bool = False) -> Line:
    return Line((Span(f"… +{counted(number, 'line')}{' or more' if or_more else ''}", "dim"),))


def below(lines: Sequence[Line], look: Look) -> list[Line]:
    """What came of something, under the line that says what it was."""
    first = Span("  └ ", "dim") if not look.words else Span("    ")
    return prefixed(first, Span("    "), lines)


def seconds_words(seconds: float) -> str:
    """`340ms`, `2.4s`, `2m 05s`."""
    return f"{seconds:.1f}s" if 1 <= seconds < 60 else duration_words(seconds, precise=seconds < 1)


def elapsed(seconds: float) -> str:
    """Whole seconds for what still runs; nothing in its first second, so that it need not be painted again."""
    return f" ({duration_words(seconds)})" if seconds >= 1 else ""
