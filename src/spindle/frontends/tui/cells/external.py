"""What a program brought from outside of the conversation. Loaded with the first one."""

from __future__ import annotations

from typing import Any

from spindle.context.external import shown_text
from spindle.frontends.fit import counted
from spindle.frontends.tui.cells.cell import INDENT, Cell, Look, one_line
from spindle.frontends.tui.shown import Line, Span, line
from spindle.frontends.tui.text.clean import safe
from spindle.protocol.items import name_of_external

_SIGN = Span("•", "user")
_MOST_LINES = 10
"""How many of them stand in the conversation; the transcript has all."""


class External(Cell):
    """Its sender, then its text; of something long the beginning."""

    __slots__ = ("item",)

    def __init__(self, item: dict[str, Any]) -> None:
        self.item = item

    def lines(self, look: Look) -> list[Line]:
        rows = safe(shown_text(self.item)).rstrip("\n").split("\n")
        left = 0 if look.is_whole else len(rows) - _MOST_LINES
        said = [line(Span(row)) for row in (rows[:_MOST_LINES] if left > 0 else rows)]
        if left > 0:
            said.append(line(Span(f"… {counted(left, 'line')} more", "dim")))
        title = look.title(_SIGN, f"Message from {one_line(name_of_external(self.item))}")
        indent = Span(INDENT)
        return [title, *(Line((indent, *each.spans), (indent,)) if each.spans else each for each in said)]
