"""A recorded thread, shown again: its turns as cells that are made when they are looked at.

A long thread is printed from its end backwards until there is enough; what comes before is in the transcript.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from spindle.frontends.fit import counted
from spindle.frontends.tui.cells.cell import Cell, Look
from spindle.frontends.tui.shown import BLANK, Line, Span, line
from spindle.frontends.tui.text.layout import height, rows
from spindle.protocol.clock import FixedClock
from spindle.thread.view import moments

if TYPE_CHECKING:
    from spindle.frontends.tui.cells.conversation import Conversation
    from spindle.thread.entry import Record

MOST_ROWS = 5000
"""How many rows of a thread are printed when it is taken up again."""

Moment = tuple[list[dict[str, Any]], dict[str, Any] | None, str]


class RecordedTurn(Cell):
    """A turn of a record. Its cells are made anew each time they are wanted: a long thread has thousands."""

    __slots__ = ("_begin", "_moments", "mode_before", "usage_before")

    def __init__(self, moments: list[Moment], begin: Callable[[FixedClock], Conversation]) -> None:
        self._moments = moments
        self._begin = begin
        self.usage_before: dict[str, Any] | None = None
        """The `info` of the last token count before it."""
        self.mode_before = "default"

    def conversation(self) -> Conversation:
        """The turn as a conversation of its own, told from its beginning to its end."""
        from spindle.frontends.tui.cells.recorded import heard  # only threads that are taken up again

        clock = FixedClock(_seconds(self._moments[0][2]) or 0.0)
        told = self._begin(clock)
        told.spending.count(self.usage_before, None)
        told.spending.begin_turn(None)
        told.mode = self.mode_before
        for events, item, timestamp in self._moments:
            clock.time = max(clock.time, _seconds(timestamp) or 0.0)
            for each in heard(events, item, told.cwd):
                if isinstance(each, Cell):
                    told.show(each)
                else:
                    told.take_msg(each)
        told.settle()
        return told

    def lines(self, look: Look) -> list[Line]:
        told = self.conversation()
        if not look.is_whole:
            return told.stage.take_finished(look)[1:]  # the empty line before it is not ours to give
        return [each for cell in told.stage.cells for each in (BLANK, *cell.lines(look))][1:]

    @property
    def last_info(self) -> dict[str, Any] | None:
        """What the last token count of the turn said; that before it when there was none."""
        for events, _, _ in reversed(self._moments):
            if events[0].get("type") == "token_count" and isinstance(info := events[0].get("info"), dict):
                return info
        return self.usage_before

    @property
    def mode(self) -> str:
        """The mode it ran in."""
        begun = next((events[0] for events, _, _ in self._moments if events[0].get("type") == "task_started"), None)
        return self.mode_before if begun is None else str(begun.get("collaboration_mode_kind") or "default")

    @property
    def last_answer(self) -> str:
        for events, _, _ in reversed(self._moments):
            if events[0].get("type") == "agent_message" and (text := events[0].get("message")):
                return str(text)
        return ""


def turns_of(records: Iterable[Record], begin: Callable[[FixedClock], Conversation]) -> list[RecordedTurn]:
    """The record cut into turns."""
    groups: list[list[Moment]] = []
    is_open = False
    for moment in moments(records):
        kind = moment[0][0].get("type")
        # A file without turn events: every message of the person begins a turn.
        if kind == "task_started" or not groups or (kind == "user_message" and not is_open):
            groups.append([])
        is_open = kind == "task_started" or (is_open and kind not in ("task_complete", "turn_aborted"))
        if kind == "agent_message" and _is_plan(groups[-1]):
            groups[-1].insert(-1, moment)  # the plan was a part of this message, and is shown after it
        else:
            groups[-1].append(moment)
    turns = [RecordedTurn(group, begin) for group in groups]
    for before, turn in pairwise(turns):
        turn.usage_before, turn.mode_before = before.last_info, before.mode
    return turns


def _is_plan(group: list[Moment]) -> bool:
    item = group[-1][1] if group else None
    return item is not None and item.get("type") == "Plan"


class Reprinted(Cell):
    """The end of a record, as lines for the scrollback."""

    __slots__ = ("_is_cut", "_lines", "_rows", "_turns")

    def __init__(self, turns: list[RecordedTurn]) -> None:
        self._turns = list(turns)
        """Those that are not made into lines yet."""
        self._lines: list[list[Line]] = []
        """Of each turn, the last one first."""
        self._rows = 3  # the line that says what is missing, and the empty ones around it
        self._is_cut = False

    def prepare(self, look: Look) -> Iterator[None]:
        """Make the lines, a turn with each step, the last turn first."""
        while self._turns and self._rows < MOST_ROWS:
            lines = self._turns.pop().lines(look)
            if lines:
                self._lines.append(self._fitting(lines, look.width))
            yield

    def _fitting(self, lines: list[Line], width: int) -> list[Line]:
        """As many of the last lines as there is room for."""
        for number in range(len(lines) - 1, -1, -1):
            self._rows += sum(height(row, width) for row in rows(lines[number], width))
            if self._rows > MOST_ROWS:
                self._is_cut = True
                kept = lines[number + 1 :]
                return kept[1:] if kept[:1] == [BLANK] else kept
        self._rows += 1
        return lines

    def lines(self, look: Look) -> list[Line]:
        for _ in self.prepare(look):
            pass
        shown: list[Line] = []
        if missing := len(self._turns) + self._is_cut:
            note = f"… {counted(missing, 'earlier turn')} left out here; Ctrl-T shows the whole thread"
            shown = [line(Span(note, "dim"))]
        for lines in reversed(self._lines):
            shown += [*([BLANK] if shown else []), *lines]
        return shown


def _seconds(timestamp: str) -> float | None:
    try:
        return datetime.fromisoformat(timestamp).timestamp()
    except ValueError:
        return None
