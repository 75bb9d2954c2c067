"""Tables in the width there is: in columns where the words have room, else each row upright. No word is lost or cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from spindle.frontends.fit import cells
from spindle.frontends.tui.shown import Line, Span
from spindle.frontends.tui.text.layout import Row, longest_word, row_width, rows

Cell = list[list[Span]]
"""The lines of a cell."""
_BETWEEN = Span(" │ ", "dim")
_NARROWEST = 4


class Table(NamedTuple):
    head: list[Cell]
    body: list[list[Cell]]
    alignments: list[str]
    """`left`, `right` or `center` for each column."""


def table_lines(table: Table, width: int) -> list[Line]:
    """The table in at most this many cells, if its longest words allow it."""
    count = max(map(len, (table.head, *table.body)))
    widths = _column_widths(table, count, width - len(_BETWEEN.text) * (count - 1))
    if widths is None:
        return _upright(table)
    alignments = [*table.alignments, *["left"] * count][:count]
    lines = _row_lines(table.head, widths, alignments, "bold")
    rule = "─┼─".join("─" * column for column in widths)
    lines.append(Line((Span(rule, "dim"),), (), True))
    has_tall = False
    for number, row in enumerate(table.body):
        shown = _row_lines(row, widths, alignments, "")
        # Rows of several lines are hard to tell apart without something between them.
        if number and (has_tall or len(shown) > 1):
            lines.append(Line((Span(rule, "dim"),), (), True))
        has_tall = len(shown) > 1
        lines += shown
    return lines


def _column_widths(table: Table, count: int, room: int) -> list[int] | None:
    """As wide as the columns want to be, or less for the widest; None where some word would have no room."""
    wanted, least = [0] * count, [0] * count
    for row in (table.head, *table.body):
        for place, cell in enumerate(row):
            for line in cell:
                text = "".join(span.text for span in line)
                size = cells(text)
                wanted[place] = max(wanted[place], size)
                if size > least[place]:
                    least[place] = max(least[place], longest_word(text))
    widths = [max(1, size) for size in wanted]
    least = [min(size, max(need, _NARROWEST)) for size, need in zip(widths, least, strict=True)]
    if sum(least) > room:
        return None
    # What is missing is taken from the widest columns, down to what their longest words need.
    missing = sum(widths) - room
    while missing > 0:
        spare = [place for place in range(count) if widths[place] > least[place]]
        widest = max(spare, key=widths.__getitem__)
        second = max((widths[place] for place in spare if widths[place] < widths[widest]), default=0)
        alike = [place for place in spare if widths[place] == widths[widest]]
        floor = max(second, max(least[place] for place in alike))
        step = max(1, min(widths[widest] - floor, -(-missing // len(alike))))
        for place in alike:
            taken = min(step, missing)
            widths[place] -= taken
            missing -= taken
    return widths


def _row_lines(row: Sequence[Cell], widths: list[int], alignments: list[str], style: str) -> list[Line]:
    """One row of the table: as many lines as its highest cell has."""
    columns: list[list[Row]] = []
    for place, width in enumerate(widths):
        cell = row[place] if place < len(row) else []
        columns.append([shown for line in cell for shown in rows(Line(tuple(line)), width)] or [()])
    lines: list[Line] = []
    for number in range(max(map(len, columns))):
        spans: list[Span] = []
        for place, (column, width, alignment) in enumerate(zip(columns, widths, alignments, strict=True)):
            spans += [_BETWEEN] if place else []
            shown = column[number] if number < len(column) else ()
            is_last = place == len(widths) - 1
            spans += _aligned([_with_style(span, style) for span in shown], width, alignment, is_last=is_last)
        lines.append(Line(tuple(spans), (), True))
    return lines


def _aligned(spans: list[Span], width: int, alignment: str, *, is_last: bool) -> list[Span]:
    free = max(0, width - row_width(tuple(spans)))
    left = free if alignment == "right" else free // 2 if alignment == "center" else 0
    right = 0 if is_last else free - left
    return [*([Span(" " * left)] if left else []), *spans, *([Span(" " * right)] if right else [])]


def _with_style(span: Span, style: str) -> Span:
    return Span(span.text, f"{style} {span.style}".strip()) if style else span


def _upright(table: Table) -> list[Line]:
    """Each row as a block, a line for every cell, named by the head of its column."""
    lines: list[Line] = []
    if not table.body:
        return [Line(tuple(_with_style(span, "bold") for line in cell for span in line)) for cell in table.head]
    for number, row in enumerate(table.body):
        if number:
            lines.append(Line())
        for place in range(max(len(row), len(table.head))):
            name = table.head[place] if place < len(table.head) else []
            named = [_with_style(span, "bold") for line in name for span in line]
            cell = row[place] if place < len(row) else []
            first, *others = cell or [[]]
            start = (*named, Span(": " if first else ":")) if named else ()
            if start or first:
                lines.append(Line((*start, *first), (Span("  "),)))
            lines += [Line((Span("  "), *other), (Span("  "),)) for other in others]
    return lines
