"""Lines as rows: broken at blanks, never inside a word. Measured in cells (`frontends/fit.py`).

A word that is wider than the window stands in one row, which the terminal breaks: so a copied address is whole.
Between two ideographs a line may be broken too; such text has no blanks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache

from spindle.frontends.fit import ELLIPSIS, cells, reach
from spindle.frontends.tui.shown import Line, Span

Row = tuple[Span, ...]

TAB = 8
_LEAST_ROOM = 8
"""A hang that leaves less than this is cut."""


def rows(line: Line, width: int) -> list[Row]:
    """The rows a line takes; at least one."""
    width = max(1, width)
    spans = expanded(line.spans) if any("\t" in span.text for span in line.spans) else line.spans
    if line.is_verbatim or _fits(spans, width):
        return [spans]
    hang = _fitting_hang(line.hang, width)
    if all(span.text.isascii() for span in spans):
        return _broken_ascii(spans, hang, width)
    return _broken(spans, hang, width)


def fit_rows(lines: Iterable[Line], width: int) -> list[Row]:
    return [row for line in lines for row in rows(line, width)]


def row_width(row: Row) -> int:
    return sum(cells(span.text) for span in row)


def longest_word(text: str) -> int:
    """The cells of the longest piece that is never broken."""
    return max((cells(piece) for piece in _pieces(text) if piece[0] != " "), default=0)


def height(row: Row, width: int) -> int:
    """How many rows of the terminal a row takes, if it is wider than the window and the terminal breaks it."""
    width = max(1, width)
    wide = row_width(row)
    if wide <= width:
        return 1
    text = "".join(span.text for span in row)
    if text.isascii():
        return -(-wide // width)
    count = place = 0
    # A character of two cells never begins in the last column, so it is counted row by row.
    while place < len(text):
        place += max(1, reach(text[place : place + 2 * width + 64], width))
        count += 1
    return count


def cut(spans: Iterable[Span], width: int, *, mark: str = ELLIPSIS) -> Row:
    """The beginning of a row, with a mark at its end when there was more."""
    spans = tuple(spans)
    if any("\t" in span.text for span in spans):
        spans = expanded(spans)
    if _fits(spans, width):
        return spans
    room = width - cells(mark)
    if room < 0:
        return ()
    kept: list[Span] = []
    for span in spans:
        text = span.text[: 4 * room + 64]
        end = reach(text, room)
        kept.append(Span(text[:end], span.style))
        room -= cells(text[:end])
        if end < len(span.text):
            break
    last = kept.pop() if kept else Span("")
    return (*kept, Span(last.text.rstrip(" ") + mark if mark else last.text, last.style))


def expanded(spans: Iterable[Span], tab: int = TAB) -> Row:
    """The spans with blanks for tabs, as many as lead to the next stop."""
    column = 0
    shown: list[Span] = []
    for span in spans:
        if "\t" in span.text:
            parts: list[str] = []
            for number, piece in enumerate(span.text.split("\t")):
                if number:
                    blanks = tab - column % tab
                    parts.append(" " * blanks)
                    column += blanks
                parts.append(piece)
                column += cells(piece)
            shown.append(Span("".join(parts), span.style))
        else:
            shown.append(span)
            column += cells(span.text)
    return tuple(shown)


def _fits(spans: Row, width: int) -> bool:
    total = 0
    for span in spans:
        total += cells(span.text) if len(span.text) <= 4 * width + 64 else width + 1
        if total > width:
            return False
    return True


def _fitting_hang(hang: Row, width: int) -> Row:
    """The hang, or as much of its beginning as leaves room for words."""
    most = max(0, width - _LEAST_ROOM, width // 2)
    if _fits(hang, most):
        return hang
    return cut(hang, most, mark="")


def _broken(spans: Row, hang: Row, width: int) -> list[Row]:
    """Greedy: a word goes to the next row when it does not fit; the blanks at the break are left out."""
    done: list[Row] = []
    hang_width = row_width(hang)
    row: list[Span] = []
    taken = 0
    has_word = False
    for word, blanks in _words(spans):
        size = sum(cells(piece.text) for piece in word)
        # A bullet is never left alone: what stands before the hang ends is no text yet.
        if has_word and taken > hang_width and taken + size > width:
            done.append(_trimmed(row))
            row, taken = list(hang), hang_width
        row += word
        taken += size
        has_word = has_word or bool(word)
        if blanks:
            row += blanks
            taken += sum(len(blank.text) for blank in blanks)
    done.append(_trimmed(row))
    return done


def _broken_ascii(spans: Row, hang: Row, width: int) -> list[Row]:
    """The same for text in which every character is a cell: most text, so it is done without a look at each word."""
    text = "".join(span.text for span in spans).rstrip(" ")
    hang_width = row_width(hang)
    # Not before the first word, nor before what the hang is as wide as.
    earliest = max(hang_width, len(text) - len(text.lstrip(" ")) + 1)
    start, room = 0, width
    pieces: list[tuple[int, int]] = []
    while len(text) - start > room:
        end = text.rfind(" ", earliest, start + room + 1)
        if end < 0:
            end = text.find(" ", max(earliest, start + room + 1))
            if end < 0:
                break
        pieces.append((start, start + len(text[start:end].rstrip(" "))))
        start = end
        while text[start] == " ":
            start += 1
        earliest, room = start + 1, width - hang_width
    pieces.append((start, len(text)))
    if len(spans) == 1:
        style = spans[0].style
        return [_joined([*(hang if number else ()), Span(text[a:b], style)]) for number, (a, b) in enumerate(pieces)]
    return [_joined([*(hang if number else ()), *part]) for number, part in enumerate(_slices(spans, pieces))]


def _slices(spans: Row, pieces: list[tuple[int, int]]) -> Iterator[list[Span]]:
    """The spans of each piece of a text; pieces are from left to right."""
    offset = number = 0
    for start, end in pieces:
        part: list[Span] = []
        while number < len(spans) and offset < end:
            text, style = spans[number]
            if offset + len(text) > start:
                part.append(Span(text[max(0, start - offset) : end - offset], style))
            if offset + len(text) > end:
                break
            offset += len(text)
            number += 1
        yield part


def _words(spans: Row) -> Iterator[tuple[list[Span], list[Span]]]:
    """Words, which may be of several spans, each with the blanks behind it. The blanks a line begins with are a word
    of no letters."""
    word: list[Span] = []
    blanks: list[Span] = []
    for text, style in spans:
        for piece in _pieces(text):
            if piece[0] == " ":
                blanks.append(Span(piece, style))
                continue
            if blanks or (word and _may_break(word[-1].text[-1], piece[0])):
                yield word, blanks
                word, blanks = [], []
            word.append(Span(piece, style))
    yield word, blanks


def _pieces(text: str) -> list[str]:
    """Runs of blanks and the words between them, ideographs one by one."""
    found = _BLANKS.findall(text)
    if text.isascii():
        return found
    pieces: list[str] = []
    for piece in found:
        if piece.isascii() or "://" in piece or not ideographs().search(piece):
            pieces.append(piece)
            continue
        start = 0
        for place in range(1, len(piece)):
            if _may_break(piece[place - 1], piece[place]):
                pieces.append(piece[start:place])
                start = place
        pieces.append(piece[start:])
    return pieces


_BLANKS = re.compile(" +|[^ ]+")
_CLOSING = frozenset(
    "、。，．：；！？）］｝」』】〕〉》〗〙”’…‥ー々ゝゞヽヾ!?),.:;]}%％ぁぃぅぇぉっゃゅょゎァィゥェォッャュョヮヵヶ"
)
_OPENING = frozenset("（［｛「『【〔〈《〖〘“‘([{$＄￥")


def _may_break(before: str, after: str) -> bool:
    """Whether a line may end between two characters that no blank separates."""
    if before in _OPENING or after in _CLOSING:
        return False
    ideograph = ideographs()
    if after in "\u200d\ufe0f\ufe0e" or before == "\u200d":
        return False
    if not (ideograph.match(before) or ideograph.match(after)):
        return False
    return cells(after) > 0


@cache
def ideographs() -> re.Pattern[str]:
    """Letters and signs of the scripts that are written without blanks."""
    return re.compile(
        "[\u2e80-\u303f\u3041-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff01-\uff60\U00020000-\U0003fffd]"
    )


def _trimmed(row: list[Span]) -> Row:
    """A row without the blanks at its end."""
    while row and not row[-1].text.rstrip(" "):
        row.pop()
    if row and row[-1].text.endswith(" "):
        row[-1] = Span(row[-1].text.rstrip(" "), row[-1].style)
    return _joined(row)


def _joined(row: list[Span]) -> Row:
    """Neighbours of one style as one span."""
    joined: list[Span] = []
    texts: list[str] = []
    style: str | None = None
    for span in row:
        if span.style != style and texts:
            joined.append(Span("".join(texts), style or ""))
            texts = []
        style = span.style
        texts.append(span.text)
    if texts:
        joined.append(Span("".join(texts), style or ""))
    return tuple(joined)
