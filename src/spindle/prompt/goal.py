"""The words that keep a model at work on the goal of its thread, and those that tell it to come to an end."""

from __future__ import annotations

from spindle.prompt.bundled import text
from spindle.protocol.goal import Goal
from spindle.protocol.items import Item, user_message
from spindle.protocol.origin import defused_parts

TAG = "codex_internal_context"
"""Also the reference program's: there, too, such a message is taken for no person's."""


def goal_message(goal: Goal) -> Item:
    """Begins each turn that a goal starts by itself, and joins another one when the goal is new or was changed."""
    return _message(text("goal_continue"), goal)


def budget_message(goal: Goal) -> Item:
    """The goal has used up its tokens in the middle of a turn."""
    return _message(text("goal_budget_spent"), goal)


def _message(words: str, goal: Goal) -> Item:
    # Whoever wrote the objective, a person or a model, can neither end it early nor speak in our name.
    objective = defused_parts(goal.objective, "objective")
    left = goal.remaining_tokens
    budget = "no limit" if left is None else f"{goal.token_budget} in all, {left} left"
    facts = f"Tokens used for it so far: {goal.tokens_used} ({budget}). Time: {goal.time_used_seconds} seconds."
    told = f"{words}\n\n<objective>\n{objective}\n</objective>\n\n{facts}"
    return user_message(f'<{TAG} source="goal">\n{told}\n</{TAG}>')
