"""Lines broken into rows of a given width, so that a view knows how many rows it takes and can scroll by rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from spindle.frontends.fit import cells
from spindle.frontends.tui.shown import Line, Span, line

CONTINUED = Span("↪ ", "dim")
"""Before each further row of a text that must not be read as several lines."""


def prose(spans: Sequence[Span], width: int, hang: int = 0) -> list[Line]:
    """Broken at blanks, and inside a word that is longer than a row; further rows are indented by `hang`."""
    width = max(2, width)  # a wide character must fit
    hang = min(hang, width - 2)
    done: list[list[Span]] = []
    row: list[Span] = []
    room = width
    for word, style, blanks in _words(spans):
        needed = cells(word)
        if row and blanks + needed > room:
            done.append(row)
            row, room, blanks = [Span(" " * hang)] if hang else [], width - hang, 0
        if blanks:
            row.append(Span(" " * min(blanks, room), style))
            room -= min(blanks, room)
        while needed > room:
            head = _reach(word, room)
            row.append(Span(word[:head], style))
            done.append(row)
            row, room = [Span(" " * hang)] if hang else [], width - hang
            needed -= cells(word[:head])  # never measured anew: a word may be a megabyte
            word = word[head:]
        row.append(Span(word, style))
        room -= needed
    done.append(row)
    return [Line(joined(each)) for each in done]


def exact(spans: Sequence[Span], width: int, indent: str = "") -> list[Line]:
    """Every blank kept and nothing moved: broken where the row is full, with a mark before each further row."""
    first = cells(indent)
    if len(spans) < 2 and (not spans or (spans[0].text.isascii() and len(spans[0].text) <= width - first)):
        return [Line((Span(indent), *spans) if indent else tuple(spans))]
    further = (Span(indent), CONTINUED) if width - first > 8 else (Span(indent),)
    room = full = max(2, width - first)
    after = max(2, width - sum(cells(span.text) for span in further))
    done: list[list[Span]] = []
    row: list[Span] = [Span(indent)]
    for text, style in spans:
        while text:
            head = _reach(text, room)
            if not head and room < full:
                done.append(row)
                row, room, full = list(further), after, after
                continue
            head = max(1, head)
            row.append(Span(text[:head], style))
            room -= cells(text[:head])
            text = text[head:]
    done.append(row)
    return [Line(joined(each)) for each in done]


def joined(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Neighbours of the same style as one span, empty ones left out."""
    made: list[Span] = []
    for span in spans:
        if not span.text:
            continue
        if made and made[-1].style == span.style:
            made[-1] = Span(made[-1].text + span.text, span.style)
        else:
            made.append(span)
    return tuple(made)


def words(text: str, width: int, style: str = "", *, indent: int = 0, hang: int = 0) -> list[Line]:
    """A text of one or many lines as rows of prose, all of them indented."""
    made: list[Line] = []
    for each in text.split("\n"):
        rows = prose([Span(each.expandtabs(4), style)], max(1, width - indent), hang)
        made += [line(" " * indent, *row.spans) for row in rows]
    return made


def _words(spans: Iterable[Span]) -> Iterable[tuple[str, str, int]]:
    """The words with their style and the number of blanks before each. Words of neighbouring spans may touch."""
    blanks = 0
    for text, style in spans:
        for place, word in enumerate(text.split(" ")):
            blanks += 1 if place else 0
            if word:
                yield word, style, blanks
                blanks = 0


def _reach(text: str, room: int) -> int:
    """How many characters fit into the room, with the marks that sit on the last of them."""
    if text.isascii():
        return min(len(text), max(0, room))
    taken = 0
    for place, char in enumerate(text):
        taken += cells(char)
        if taken > room:
            return place
    return len(text)
