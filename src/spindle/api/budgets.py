"""What a turn or a thread may use, as a program says it."""

from __future__ import annotations

from typing import Any

import msgspec

from spindle.protocol.settings import BudgetLimits


class Budget(msgspec.Struct, frozen=True):
    """What a turn, or a thread as long as it is open, may use. None = no limit; sub-agents count.

    It is looked at before each request: what runs is finished and recorded, and the next request is not made.
    """

    tokens: int | None = None
    """Input and output together, cached input included."""
    requests: int | None = None
    """Requests to the model server, retries included."""
    seconds: float | None = None
    """Wall time."""
    usd: float | None = None
    """US dollars; only for models whose price is known."""


def budget_limits(budget: Any) -> BudgetLimits | None:
    """What the engine is told. Raises ValueError for a value that cannot be."""
    if budget is None:
        return None
    if not isinstance(budget, Budget):
        raise ValueError(f"budget must be a Budget, not {budget!r}")
    for name, whole in (("tokens", True), ("requests", True), ("seconds", False), ("usd", False)):
        value = getattr(budget, name)
        is_number = type(value) is int or (not whole and type(value) is float)
        if value is not None and not (is_number and 0 <= value < 1e18):
            kind = "an integer" if whole else "a number"
            raise ValueError(f"budget.{name} is {value!r}, but must be {kind} of 0 or more")
    return BudgetLimits(
        max_tokens=budget.tokens, max_requests=budget.requests, max_seconds=budget.seconds, max_cost=budget.usd
    )
