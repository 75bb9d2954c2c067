"""Text that fits a terminal: measured in cells, cut or wrapped to a width, long listings by their head and tail. Pure.

A cell is the place of one plain letter; ideographs and most emoji take two, marks that sit on a letter none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

ELLIPSIS = "…"
EMOJI_STYLE = "\ufe0f"
_NARROWEST_COLUMN = 6
_RULE_SIGNS = "=-_*#~─━═"
_BEGINNING = re.compile(r" *(?:(?:[-+*>•→✓✗]|\d{1,3}[.)]|\[[x> ]\]) +)?")
"""What the later rows of a line stand below: its indent, and the sign of an entry in a list."""
_SIGNS_AROUND_NUMBERS = "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
_NEWLY_WIDE = (
    *(("\u2630", "\u2637"), ("\u268a", "\u268f"), ("\u4dc0", "\u4dff")),
    *(("\U0001d300", "\U0001d356"), ("\U0001d360", "\U0001d376")),
)
"""Narrow before Unicode 16, wide since; what a terminal does depends on its age."""


def cells(text: str) -> int:
    """How many cells a line takes. Where terminals disagree (composed emoji, vowel signs), the larger number."""
    if text.isascii():
        return len(text)
    return sum(map(_CELLS.__getitem__, text)) + (_styled_as_emoji(text) if EMOJI_STYLE in text else 0)


class _Cells(dict[str, int]):
    """The cells of a single character, found out once."""

    def __missing__(self, char: str) -> int:
        count = self[char] = 1 if char < "\u0300" else _cells_of(char)
        return count


_CELLS = _Cells()


def _cells_of(char: str) -> int:
    import unicodedata  # only where there is more than plain letters

    kind = unicodedata.category(char)
    if kind in ("Mn", "Me", "Zl", "Zp") or "\u1160" <= char <= "\u11ff" or "\ud7b0" <= char <= "\ud7ff":
        return 0  # the second and third letters of a Korean syllable are drawn into the first
    if kind == "Cf":
        return 1 if char in _SIGNS_AROUND_NUMBERS else 0
    if kind == "Cn":  # maybe younger than this Python, which knows no width for it: an emoji or an ideograph is wide
        return 2 if "\U0001f300" <= char <= "\U0001faff" or "\U00020000" <= char <= "\U0003fffd" else 1
    is_wide = unicodedata.east_asian_width(char) in ("W", "F")
    return 2 if is_wide or any(first <= char <= last for first, last in _NEWLY_WIDE) else 1


def _styled_as_emoji(text: str) -> int:
    """The cells that signs take in addition because they are asked to be shown as emoji, which take two."""
    return sum(style == EMOJI_STYLE and _CELLS[sign] == 1 and sign > "\u2000" for sign, style in pairwise(text))


def reach(text: str, width: int) -> int:
    """How many characters of `text` fit into this many cells, with the marks that belong to the last of them."""
    if text.isascii():
        return min(len(text), max(0, width))
    taken = 0
    before = ""
    for place, char in enumerate(text):
        taken += _CELLS[char]
        if char == EMOJI_STYLE and before > "\u2000" and _CELLS[before] == 1:
            taken += 1
            if taken > width:
                return place - 1
        if taken > width:
            return place
        before = char
    return len(text)


def cut(text: str, width: int, *, mark: str = ELLIPSIS) -> str:
    """The beginning of a line, with a mark at its end when there was more."""
    # No character takes less than a cell but marks, so a very long line is not measured to its end.
    head = text[: 4 * max(0, width) + 64]
    if len(head) == len(text) and cells(text) <= width:
        return text
    room = width - cells(mark)
    return head[: reach(head, room)].rstrip(" ") + mark if room > 0 else head[: reach(head, width)]


def cut_middle(text: str, width: int, *, mark: str = f" {ELLIPSIS} ") -> str:
    """Beginning and end of a line: of two long commands that begin alike, the end tells which is which."""
    if len(text) <= 4 * max(0, width) and cells(text) <= width:
        return text
    room = width - cells(mark)
    if room < 16:
        return cut(text, width, mark=mark.strip() or mark)
    end = room // 3
    tail = text[-end:]
    while cells(tail) > end:
        tail = tail[1:]
    head = text[: 4 * room]
    return head[: reach(head, room - end)].rstrip(" ") + mark + tail.lstrip(" ")


def rows_of(text: str, width: int) -> list[str]:
    """A line as the rows it takes when it is simply broken at the width."""
    rows: list[str] = []
    start = 0
    while start < len(text):
        end = start + max(1, reach(text[start : start + 4 * width + 64], width))
        rows.append(text[start:end])
        start = end
    return rows or [""]


def counted(number: int, one: str, many: str = "") -> str:
    """`1 line`, `1,200 lines`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def head_and_tail(lines: Sequence[str], most: int | None, *, mark: str = ELLIPSIS) -> list[str]:
    """The lines, or the first and last of them with a line between that says how many are missing.

    More of the end than of the beginning: that is where a test run says how it went.
    """
    # A line that says "1 line omitted" takes the place of the line itself.
    if most is None or len(lines) <= most + 1:
        return list(lines)
    head = max(1, most * 2 // 5)
    tail = max(1, most - head)
    missing = counted(len(lines) - head - tail, "line")
    return [*lines[:head], f"{mark} {missing} omitted {mark}", *lines[-tail:]]


def wrap(text: str, width: int) -> list[str]:
    """Text in lines of at most this many cells, broken at spaces, and inside a word that is longer. Loses nothing."""
    lines: list[str] = []
    for paragraph in text.split("\n"):
        first, *words = paragraph.split(" ")
        *full, line = rows_of(first, width)
        lines += full
        for word in words:
            if cells(line) + 1 + cells(word) <= width:
                line += f" {word}"
                continue
            lines.append(line)
            *full, line = rows_of(word, width)
            lines += full
        lines.append(line)
    return lines


def fold(text: str, width: int, *, taken: int = 0) -> list[str]:
    """A line in rows that end between words; `taken` cells of the first are in use.

    A word that is wider than a row is left to the terminal to break, so that an address which is copied is whole.
    """
    if "\t" in text or taken + cells(text) <= width:
        return [text]
    beginning = _BEGINNING.match(text)
    start = 0 if beginning is None else beginning.end()
    indent = start if 2 * start <= width else 0
    rows, row, used = list[str](), text[:start], taken + start
    gap = ""
    for word in text[start:].split(" "):
        size = cells(word)
        if gap and used + 1 + size > width >= indent + size:
            rows.append(row.rstrip(" "))
            row, used, gap = " " * indent, indent, ""
        if not word and not gap and rows:
            continue  # of several blanks, none begins a row
        row += gap + word
        used += len(gap) + size
        used = (used - 1) % width + 1 if used > width else used
        gap = " "
    return [*rows, row.rstrip(" ")]


def fit_rule(text: str, width: int) -> str:
    """A heading between two rules, as test programs print them, with rules that are shorter."""
    sign = text[-1:]
    if len(text) > 1000 or not sign or sign not in _RULE_SIGNS or (over := cells(text) - width) <= 0:
        return text
    start, end = len(text) - len(text.lstrip(sign)), len(text) - len(text.rstrip(sign))
    if start == len(text):
        return text[:-over]
    spare_start, spare_end = max(0, start - 3), max(0, end - 3)
    if spare_start + spare_end < over:
        return text
    from_end = min(spare_end, max(over - over // 2, over - spare_start))
    return text[over - from_end : len(text) - from_end]


def hang(start: str, text: str, width: int | None) -> str:
    """`start`, and the text in a column beside it, or indented below it where a column would be too narrow."""
    if width is None or cells(start) + cells(text) <= width:
        return start + text
    indent = cells(start)
    if width - indent >= 24:
        return start + ("\n" + " " * indent).join(wrap(text, width - indent))
    indent = min(4, max(0, width - 8))
    body = [" " * indent + line for line in wrap(text, max(1, width - indent))]
    return "\n".join([*wrap(start.rstrip(), width), *body])


def table(rows: Sequence[Sequence[str]], width: int | None) -> str:
    """Rows in aligned columns. What does not fit is taken from the widest columns; the first column stays whole."""
    widths = [max(cells(row[column]) for row in rows) for column in range(len(rows[0]))]
    if width is not None:
        while sum(widths) + 2 * (len(widths) - 1) > width:
            widest = max(range(1, len(widths)), key=widths.__getitem__, default=0)
            if widths[widest] <= _NARROWEST_COLUMN:
                return "\n\n".join(_upright(rows, width))
            widths[widest] -= 1
    return "\n".join(_line(row, widths) for row in rows)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    shown = [cut(cell, room) for cell, room in zip(row, widths, strict=True)]
    return "  ".join(cell + " " * (room - cells(cell)) for cell, room in zip(shown, widths, strict=True)).rstrip()


def _upright(rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Where columns have no room: each row as a block, a line for every cell, named by the head of its column."""
    names, *entries = rows
    for first, *others in entries:
        lines = [hang(f"  {name}: ", cell, width) for name, cell in zip(names[1:], others, strict=True)]
        yield "\n".join([*wrap(first, width), *lines])
