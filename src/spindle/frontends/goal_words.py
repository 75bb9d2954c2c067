"""What people read of a goal, in every front end. Loaded with the first goal."""

from __future__ import annotations

import msgspec

from spindle.frontends.plain_text import duration_words
from spindle.protocol.events import Msg
from spindle.protocol.goal import Goal, Status, ThreadGoalUpdated

STATUS_WORDS: dict[Status, str] = {
    "active": "working on it",
    "paused": "paused",
    "blocked": "blocked",
    "usageLimited": "stopped: the account has reached its usage limit",
    "budgetLimited": "stopped: the budget is used up",
    "complete": "complete",
}


def goal_of(msg: Msg) -> Goal | None:
    """The goal that an event tells of; one that cannot be read is none."""
    assert isinstance(msg, ThreadGoalUpdated)
    try:
        return None if msg.goal is None else Goal.from_wire(msg.goal)
    except (msgspec.ValidationError, UnicodeEncodeError):
        return None


def goal_text(goal: Goal | None) -> str:
    """A goal in one line: how it stands, what it used, and what it is."""
    if goal is None:
        return "cleared"
    used = used_text(goal)
    return f"{STATUS_WORDS[goal.status]}{f' ({used})' if used else ''}: {goal.objective}"


def used_text(goal: Goal) -> str:
    """What was used for it; empty when that is nothing."""
    if not goal.tokens_used and not goal.time_used_seconds:
        return "" if goal.token_budget is None else f"up to {goal.token_budget:,} tokens"
    of_budget = "" if goal.token_budget is None else f" of {goal.token_budget:,}"
    return f"{goal.tokens_used:,}{of_budget} tokens, {duration_words(goal.time_used_seconds)}"
