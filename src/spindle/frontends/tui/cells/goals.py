"""The cell that tells of a goal: that there is one, and every time it stands differently."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spindle.frontends.goal_words import goal_of, goal_text
from spindle.frontends.tui.cells.cell import one_line
from spindle.frontends.tui.cells.notes import Note
from spindle.protocol.events import Msg

if TYPE_CHECKING:
    from spindle.frontends.tui.cells.reducer import Reducer

_STYLES = {"active": "accent", "complete": "ok"}


def take_goal_event(reducer: Reducer, msg: Msg) -> None:
    """What it has used is told with its next change, not with each request."""
    goal = goal_of(msg)
    status = "" if goal is None else goal.status
    before, reducer.goal_status = reducer.goal_status, status
    if status != before and not (before == "" and status == "complete"):  # one that was reached long ago is no news
        style = "dim" if goal is None else _STYLES.get(status, "warning")
        reducer.show(Note(f"Goal {one_line(goal_text(goal))}", word="Goal", sign="◎", style=style))
