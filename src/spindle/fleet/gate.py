"""What a worker asks before each model request, and tells after it. Who decides is elsewhere."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from spindle.errors import BudgetReached
from spindle.fleet.exchange import Asking, Spent


class Leave(msgspec.Struct, frozen=True, kw_only=True):
    """A request that may be made. Whoever has it settles it, once."""

    asking: Asking
    held: Any = None
    """What the gate wants to know again when the request is over."""


class RunBudgetReached(BudgetReached):
    """What the whole run may use is used up: no attempt may ask anything more."""

    def __init__(self, message: str = "the budget of the run is used up") -> None:
        super().__init__(message, {"scope": "run"})


class Gate(Protocol):
    """Stands before every model request of a worker: first ones, retries, compactions, sub-agents' and reviews'."""

    async def admit(self, asking: Asking) -> Leave:
        """Wait until the request may be made. Raises RunBudgetReached when none may be made any more."""
        ...

    def settle(self, leave: Leave, spent: Spent) -> None:
        """The request is over. Called exactly once for each leave, at once also when the server refused."""
        ...


class OpenGate:
    """Lets everything through and keeps what was told: for a worker without a governor, and for tests."""

    def __init__(self) -> None:
        self.spent: list[Spent] = []

    async def admit(self, asking: Asking) -> Leave:
        return Leave(asking=asking)

    def settle(self, leave: Leave, spent: Spent) -> None:
        self.spent.append(spent)
