"""A thread's goal: what it is, what may be said of it, and the event that tells of it. Loaded with the first goal."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from spindle.errors import SpindleError
from spindle.protocol.events import Msg
from spindle.protocol.items import without_surrogates
from spindle.protocol.outside import Outside
from spindle.protocol.request import TokenUsage

Status = Literal["active", "paused", "blocked", "usageLimited", "budgetLimited", "complete"]
"""Only an active goal is worked on; only a complete one is over, the others wait for a person."""

MAX_OBJECTIVE = 4_000
"""How many characters an objective may have."""


class Goal(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a thread works towards over many turns, and what that has cost. One form for clients, events and record."""

    thread_id: str
    objective: str
    status: Status = "active"
    token_budget: int | None = None
    """How many tokens it may use; None = as many as it takes."""
    tokens_used: int = 0
    """Input that was in no cache, and output."""
    time_used_seconds: int = 0
    created_at: int = 0
    """Seconds since the epoch, like `updated_at`."""
    updated_at: int = 0

    @property
    def is_spent(self) -> bool:
        return self.token_budget is not None and self.tokens_used >= self.token_budget

    @property
    def remaining_tokens(self) -> int | None:
        return None if self.token_budget is None else max(0, self.token_budget - self.tokens_used)

    @classmethod
    def from_wire(cls, wire: dict[str, Any]) -> Goal:
        return msgspec.convert(wire, cls)

    def to_wire(self) -> dict[str, Any]:
        return msgspec.to_builtins(self)

    def to_record(self) -> dict[str, Any]:
        """The same without a budget that there is not, as the reference program writes it."""
        return {name: value for name, value in self.to_wire().items() if value is not None}


class ThreadGoalUpdated(Msg, frozen=True, kw_only=True, tag="thread_goal_updated"):
    """The thread has a goal, another one or none (null), or something about it has changed; also told when a thread
    with a goal is opened. Answers `goal_set` and `goal_clear`."""

    outside = Outside(person=("goal",))
    thread_id: str
    turn_id: str | None = None
    """The turn that changed it; null where an op did."""
    goal: dict[str, Any] | None
    """threadId, objective, status, tokenBudget, tokensUsed, timeUsedSeconds, createdAt, updatedAt."""


def check_objective(text: str) -> str:
    """The objective without blanks around it, as text that can be recorded. Raises SpindleError."""
    text = without_surrogates(text.strip())
    if not text:
        raise SpindleError("the objective of a goal must not be empty")
    if len(text) > MAX_OBJECTIVE:
        raise SpindleError(
            f"the objective of a goal has at most {MAX_OBJECTIVE:,} characters, this one has {len(text):,}; "
            "put the details into a file and name the file"
        )
    return text


def check_budget(tokens: int | None) -> int | None:
    """Raises SpindleError unless it is a number of tokens that can be used."""
    if tokens is not None and tokens < 1:
        raise SpindleError(f"the token budget of a goal must be positive, not {tokens}")
    return tokens


def charged_tokens(usage: TokenUsage) -> int:
    """What counts against a budget: input that was in no cache, and output."""
    return max(0, usage.input_tokens - usage.cached_input_tokens) + usage.output_tokens
