"""Lines that many commands print: a heading, named fields, a cleaned line of somebody else's words."""

from __future__ import annotations

from collections.abc import Iterable

from spindle.frontends.fit import cells
from spindle.frontends.tui.shown import BLANK, Line, Span, line
from spindle.frontends.tui.text.clean import safe
from spindle.protocol.quote import without_terminal_codes

INDENT = "  "


def clean(text: str) -> str:
    """Somebody else's words on one line."""
    return " ".join(safe(without_terminal_codes(text)).split())


def heading(text: str) -> Line:
    return line(Span(text, "bold"))


def note(text: str) -> Line:
    """A line of ours, below what it is about."""
    return Line((Span(INDENT), Span(text, "dim")), (Span(INDENT),))


def fields(pairs: Iterable[tuple[str, str]]) -> list[Line]:
    """`name: value` in two columns; empty values are left out, and a name only once when it has several values."""
    kept = [(name, value) for name, value in pairs if value]
    width = max((cells(name) for name, _ in kept), default=0) + 3
    made: list[Line] = []
    before = ""
    for name, value in kept:
        label = f"{name}:" if name != before else ""
        start = Span(INDENT + label + " " * (width - cells(label)), "dim")
        made.append(Line((start, Span(clean(value))), (Span(" " * (width + len(INDENT))),)))
        before = name
    return made


def block(title: str, lines: Iterable[Line]) -> list[Line]:
    """A heading with lines below it, and an empty line before it."""
    return [BLANK, heading(title), *lines]
