"""What every part of the interface hands to the screen: lines made of spans, each with the name of a style.

Whoever makes a span vouches for its text: it has passed `text/clean.py`, or it is our own literal. A line holds no line
end and no control character; the screen writes it as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

STYLES = (
    # how letters look
    *("bold", "dim", "italic", "underline", "strike", "reverse"),
    # what a text is
    *("user", "heading", "code", "link", "quote", "accent", "hidden"),  # hidden: a character made visible
    *("ok", "error", "warning", "running"),
    *("added", "removed", "hunk", "line-number"),
    # what a word of a program is
    *("keyword", "string", "number", "comment", "name", "type", "operator"),
    # the sixteen colours of the terminal, for what a command coloured itself
    *(f"fg{number}" for number in range(16)),
    *(f"bg{number}" for number in range(16)),
)
"""The names a style may be made of, joined by blanks ("bold error"). A theme says what each looks like."""


class Span(NamedTuple):
    """A piece of a line that looks alike all over."""

    text: str
    style: str = ""


class Line(NamedTuple):
    """One line of text before it is broken into rows."""

    spans: tuple[Span, ...] = ()
    hang: tuple[Span, ...] = ()
    """What each further row begins with when the line is broken at blanks."""
    is_verbatim: bool = False
    """Code and the output of commands: never broken at blanks. The terminal breaks it: a copy of it is whole."""


BLANK = Line()


def line(*parts: str | Span, hang: str = "", verbatim: bool = False) -> Line:
    """A line of plain strings and spans."""
    spans = tuple(part if isinstance(part, Span) else Span(part) for part in parts if part)
    return Line(spans, (Span(hang),) if hang else (), verbatim)


def plain(shown: Line) -> str:
    """The text of a line without its looks."""
    return "".join(span.text for span in shown.spans)


def prefixed(first: Span, others: Span, lines: Sequence[Line]) -> list[Line]:
    """The lines behind a prefix: one for the first, another for the rest and for every further row."""
    return [
        Line((first if number == 0 else others, *each.spans), (others, *each.hang), each.is_verbatim)
        for number, each in enumerate(lines)
    ]


def texts(lines: Iterable[Line]) -> list[str]:
    return [plain(each) for each in lines]
