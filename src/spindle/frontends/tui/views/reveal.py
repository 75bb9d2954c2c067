"""Text that a person decides on, as spans: hidden characters as `text/clean.py` shows them, and tabs too."""

from __future__ import annotations

from collections.abc import Iterator

from spindle.frontends.tui.shown import Span
from spindle.frontends.tui.text.clean import revealed as revealed_lines

TAB_MARK = Span("\\t", "hidden")


def revealed(text: str) -> list[tuple[Span, ...]]:
    r"""The lines of a text; every character that does not show as itself is a mark, a tab is `\t`."""
    return [tuple(_with_tabs(each.spans)) for each in revealed_lines(text)]


def _with_tabs(spans: tuple[Span, ...]) -> Iterator[Span]:
    for text, style in spans:
        for place, piece in enumerate(text.split("\t")):
            if place:
                yield TAB_MARK
            if piece:
                yield Span(piece, style)
