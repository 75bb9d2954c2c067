"""What the agent says, laid out in the width of the terminal: its tables, and lines that end between words. Pure.

A table that fits keeps its form, with aligned columns. In one that does not, cells go over several lines, and where
columns have no room at all, each row becomes a block. Code stays as it is, and nothing is lost.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from spindle.frontends.fit import cells, fold, hang, rows_of, wrap

MOST_LINES = 400
"""A longer table is given as it was written: nobody waits for the end of one that may have none."""
MOST_CHARACTERS = 4000
"""So is one with a longer line. Each row may repeat the head, and a model can write a head of any length."""
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_RULE = re.compile(r":?-+:?")
"""A cell of the line below the head."""
_SIGN = re.compile(r"`+|\\.|\|")
"""A bar, and what may hold one that does not separate cells: code, and an escape."""
_NARROWEST = 4
_NO_PROSE = re.compile(r"\||\t| {4}(?! *(?:[-+*]|\d{1,3}[.)]) )")
"""How a row of a table begins, and code; what is indented and has the sign of an entry is a list in a list."""


class FittedText:
    """Takes whole lines and gives them on; a table is held back until it has ended."""

    def __init__(self, width: Callable[[], int | None]) -> None:
        self._width = width
        self._held: list[str] = []
        self._blank: str | None = None
        """The empty lines before what comes next, if anything does; None before the first line."""
        self._fence = ""

    @property
    def held(self) -> str:
        """The lines of a table that is not whole yet."""
        return "".join(self._held)

    def add(self, lines: str) -> str:
        """What can be shown after these lines, each of which ends in a newline."""
        return "".join(self._take(f"{line}\n") for line in lines.split("\n")[:-1])

    def rows(self, unfinished: str, width: int) -> list[str]:
        """What is held and the line that is not whole yet, for drawing."""
        lines = [*self._held, *([*(self._blank or ""), *self._folded(unfinished, width)] if unfinished else [])]
        return [row for line in lines for row in rows_of(line.removesuffix("\n").expandtabs(8), width)]

    def end(self) -> str:
        """The text is over: what is still held. Empty lines at the end are left out, as those at the beginning are."""
        held, self._held = self._held, []
        return _shown(held, self._width())

    def _take(self, line: str) -> str:
        fence = _FENCE.match(line)
        if fence is not None and (not self._fence or fence[1].startswith(self._fence)):
            self._fence = "" if self._fence else fence[1]
        if fence is None and not self._fence and line.lstrip().startswith("|"):
            self._held.append(line)
            is_table = len(line) <= MOST_CHARACTERS and len(self._held) <= MOST_LINES
            if is_table and (len(self._held) != 2 or _is_head(self._held[0], self._held[1])):
                return self._space()
            held, self._held = self._held, []
            return self._space() + "".join(held)
        table = self.end()
        if not self._fence and not line.strip():
            self._blank = None if self._blank is None else f"{self._blank}\n"
            return table
        return table + self._space() + "\n".join(self._folded(line[:-1], self._width())) + "\n"

    def _space(self) -> str:
        """The empty lines that were held back, now that something follows them."""
        blank, self._blank = self._blank, ""
        return blank or ""

    def _folded(self, line: str, width: int | None) -> list[str]:
        """A line in rows, if it is prose; what breaks in code or in a table is left to the terminal."""
        if width is None or self._fence or _NO_PROSE.match(line) is not None:
            return [line]
        return fold(line, width)


def fit_text(text: str, width: int | None) -> str:
    """A whole text."""
    if width is None:
        return text
    fitted = FittedText(lambda: width)
    whole = fitted.add(text if text.endswith("\n") else text + "\n") + fitted.end()
    return whole if text.endswith("\n") else whole.removesuffix("\n")


def _is_head(head: str, rule: str) -> bool:
    below = _cells_of(rule)
    return bool(below) and all(map(_RULE.fullmatch, below)) and len(_cells_of(head)) == len(below)


def _shown(lines: list[str], width: int | None) -> str:
    written = "".join(lines)
    if width is None or len(lines) < 2 or not _is_head(lines[0], lines[1]):
        return written
    indent = lines[0][: len(lines[0]) - len(lines[0].lstrip())]
    head, rule, *body = map(_cells_of, lines)
    count = len(head)
    if any(len(row) > count for row in body):
        return written  # a bar that was meant as one: who knows where
    body = [[*row, *[""] * (count - len(row))] for row in body]
    sides = [(cell.startswith(":"), cell.endswith(":")) for cell in rule]
    room = width - cells(indent) - 3 * count - 1
    widths = _column_widths([head, *body], room)
    rows = _upright(head, body, width - cells(indent)) if widths is None else _in_columns(head, body, widths, sides)
    return "".join(f"{indent}{row}\n" for row in rows)


def _cells_of(line: str) -> list[str]:
    line = line.strip()
    bars = _bars_of(line)
    parts = [line[start:end] for start, end in zip([0, *(bar + 1 for bar in bars)], [*bars, len(line)], strict=True)]
    if parts and not parts[0]:
        del parts[0]
    if parts and not parts[-1]:
        del parts[-1]
    return [part.strip() for part in parts]


def _bars_of(line: str) -> list[int]:
    """Where the bars stand that separate cells. One pass: a model can write a line of any length and form."""
    end_of_code: dict[int, int] = {}
    ends: dict[int, int] = {}
    for ticks in reversed([*re.finditer("`+", line)]):
        end_of_code[ticks.start()] = ends.get(len(ticks[0]), ticks.end())
        ends[len(ticks[0])] = ticks.end()
    bars: list[int] = []
    place = 0
    while (found := _SIGN.search(line, place)) is not None:
        place = end_of_code.get(found.start(), found.end())
        if found[0] == "|":
            bars.append(found.start())
    return bars


def _column_widths(rows: list[list[str]], room: int) -> list[int] | None:
    """As wide as the columns want to be, or less for the widest; None where a word would have to be broken."""
    columns = [*zip(*rows, strict=True)]
    widths = [max(3, *map(cells, column)) for column in columns]
    least = [max(_NARROWEST, *(cells(word) for cell in column for word in cell.split(" "))) for column in columns]
    if sum(map(min, widths, least)) > room:
        return None
    widths = [min(width, max(low, room)) for width, low in zip(widths, least, strict=True)]
    while sum(widths) > room:
        spare = [place for place, width in enumerate(widths) if width > least[place]]
        widths[max(spare, key=widths.__getitem__)] -= 1
    return widths


def _in_columns(head: list[str], body: list[list[str]], widths: list[int], sides: list[tuple[bool, bool]]) -> list[str]:
    rule = "|".join(
        f" {':' if left else '-'}{'-' * (width - 2)}{':' if right else '-'} "
        for width, (left, right) in zip(widths, sides, strict=True)
    )
    lines = [*_row(head, widths, sides), f"|{rule}|"]
    is_tall = any(cells(cell) > width for row in body for cell, width in zip(row, widths, strict=True))
    for number, row in enumerate(body):
        # Rows of several lines are hard to tell apart without something between them.
        if number and is_tall:
            lines.append(f"|{'|'.join(' ' + '-' * width + ' ' for width in widths)}|")
        lines += _row(row, widths, sides)
    return lines


def _row(row: list[str], widths: list[int], sides: list[tuple[bool, bool]]) -> list[str]:
    columns = [wrap(cell, width) for cell, width in zip(row, widths, strict=True)]
    lines: list[str] = []
    for number in range(max(map(len, columns))):
        parts: list[str] = []
        for column, width, (left, right) in zip(columns, widths, sides, strict=True):
            text = column[number] if number < len(column) else ""
            free = max(0, width - cells(text))
            before = free if right and not left else free // 2 if right else 0
            parts.append(f" {' ' * before}{text}{' ' * (free - before)} ")
        lines.append(f"|{'|'.join(parts)}|")
    return lines


def _upright(head: list[str], body: list[list[str]], width: int) -> list[str]:
    """Each row as a block, a line for every cell, named by the head of its column."""
    lines: list[str] = []
    for number, row in enumerate(body or [[""] * len(head)]):
        lines += [""] if number else []
        for name, cell in zip(head, row, strict=True):
            if name or cell:
                lines += hang(f"{name}: " if name else "", cell, width).split("\n")
    return lines
