"""What stands in the live area, from top to bottom: running cells, the status row, waiting messages, the composer or a
view, the status line. Pure; `screen/` paints it.

When the window is too low for all of it, hints and empty rows go first, then the status line; the composer and the text
stay to the last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from spindle.frontends.fit import counted, cut
from spindle.frontends.plain_text import duration_words
from spindle.frontends.tui.shown import BLANK, Line, Span, line
from spindle.frontends.tui.text.layout import rows as rows_of

SPINNER = "⠋⠙⠸⠴⠦⠇"
FRAMES_A_SECOND = 4
ROOMY = 12
"""From this height on there are empty rows between the parts."""
LOW = 6
"""Below this height there is neither a status line nor a list of waiting messages."""
MOST_WAITING = 4


class Pane(NamedTuple):
    """The composer or a view: its rows, and the cursor within them."""

    lines: list[Line]
    cursor: tuple[int, int] | None


class Picture(NamedTuple):
    lines: list[Line]
    cursor: tuple[int, int] | None
    """The number of a line, and a column in it."""
    pending: int
    """So many of the first lines are cells, which will be printed for good later."""


def compose(
    width: int,
    height: int,
    *,
    pane: Pane,
    cells: Callable[[int], list[Line]],
    activity: Line | None,
    waiting: Sequence[Line] = (),
    status: Line = BLANK,
) -> Picture:
    """Lay the parts out in a window. `cells` gives the running cells in at most so many rows."""
    gap = [BLANK] if height >= ROOMY else []
    below = [*gap, status] if height >= LOW and status.spans else []
    shown_waiting = list(waiting) if height >= LOW else []
    head: list[Line] = []
    if activity is not None:
        head += [*gap, activity]
    head += shown_waiting
    pane_rows = pane.lines[-height:] if len(pane.lines) > height else pane.lines
    used = count_rows([*head, *gap, *pane_rows, *below], width)
    running = cells(max(0, height - used))
    # What stands at the top of the live area is set apart from what was printed before.
    above = [*running, *head]
    lines = [*above, *(gap if not above or above[-1] is not BLANK else []), *pane_rows]
    cursor = None
    if pane.cursor is not None:
        hidden = len(pane.lines) - len(pane_rows)
        cursor = (len(lines) - len(pane_rows) + max(0, pane.cursor[0] - hidden), pane.cursor[1])
    return Picture([*lines, *below], cursor, len(running))


def count_rows(lines: Sequence[Line], width: int) -> int:
    """How many rows lines take in the live area, where the terminal breaks none."""
    return sum(len(rows_of(each, width)) for each in lines)


def activity_row(
    width: int, words: str, *, elapsed_s: float | None, hint: str, frame: int | None, note: str = ""
) -> Line:
    """`⠋ Working (3s · esc to interrupt) · note`. Without a frame nothing moves."""
    sign = SPINNER[frame % len(SPINNER)] if frame is not None else "•"
    inside = " · ".join(part for part in (duration_words(elapsed_s) if elapsed_s is not None else "", hint) if part)
    tail = f" ({inside})" if inside else ""
    room = max(8, width - 2 - len(tail))
    spans = [Span(f"{sign} ", "running"), Span(cut(words, room), "bold"), Span(tail, "dim")]
    if note and (left := width - 5 - len(cut(words, room)) - len(tail)) > 12:
        spans.append(Span(f" · {cut(note, left)}", "dim"))
    return Line(tuple(spans), is_verbatim=True)


def waiting_lines(sent: Sequence[str], queued: Sequence[str], width: int) -> list[Line]:
    """Messages that are on their way, and those that wait for the end of the turn."""
    shown: list[Line] = []
    for text in sent[-MOST_WAITING:]:
        shown.append(line(Span("› ", "dim"), Span(_first(text, width - 2), "dim")))
    for number, text in enumerate(queued[:MOST_WAITING]):
        is_last = number == len(queued) - 1
        hint = "  (alt-up edits it)" if is_last and width >= 60 else ""
        shown.append(
            line(Span("↳ ", "dim"), Span(_first(text, width - 2 - len(hint)), "dim italic"), Span(hint, "dim"))
        )
    if len(queued) > MOST_WAITING:
        shown.append(line(Span(f"  … {counted(len(queued) - MOST_WAITING, 'more message')} queued", "dim")))
    return shown


def _first(text: str, width: int) -> str:
    return cut(" ".join(text.split()), max(4, width))
