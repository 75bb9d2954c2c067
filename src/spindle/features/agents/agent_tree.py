"""What all sub-agents of a session share, however deep: how many there may be. What they cost is booked all the way up.

What they may use together is a budget like any other (`core/budget.py`).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from spindle.core.child_session import Charge
from spindle.errors import SpindleError
from spindle.model.client import Completed, ModelClient, ModelEvent, TurnState, cost_of_compaction
from spindle.protocol.items import Item
from spindle.protocol.request import Request


class AgentTree:
    """One per session that a person opened; its sub-agents and theirs share it."""

    def __init__(self, *, max_threads: int, max_depth: int) -> None:
        self.max_threads = max_threads
        self.max_depth = max_depth
        self.live = 0
        """How many are open."""

    def admit(self, depth: int) -> None:
        """Take a place for a sub-agent at `depth`, 1 for those of the session itself. Raises SpindleError."""
        if depth > self.max_depth:
            raise SpindleError(
                f"sub-agents may not be nested deeper than {self.max_depth} (agents.max_depth); do the work yourself"
            )
        if self.live >= self.max_threads:
            raise SpindleError(
                f"{self.live} sub-agents are open, and more are not allowed (agents.max_threads); "
                "close one whose result you have"
            )
        self.live += 1

    def release(self) -> None:
        self.live -= 1


class MeteredClient:
    """A sub-agent's way to its model: what it costs is booked at its parent too."""

    def __init__(self, client: ModelClient, charge: Charge, *, is_borrowed: bool) -> None:
        self.inner = client
        self._charge = charge
        self._is_borrowed = is_borrowed
        """The client belongs to somebody else, who closes it."""

    async def stream(self, request: Request, turn_state: TurnState | None = None) -> AsyncGenerator[ModelEvent, None]:
        async with aclosing(self.inner.stream(request, turn_state)) as events:
            async for event in events:
                if isinstance(event, Completed) and event.usage is not None:
                    self._charge(event.usage)
                yield event

    async def compact(self, request: Request) -> list[Item]:
        items = await self.inner.compact(request)
        if (usage := cost_of_compaction(items)) is not None:
            self._charge(usage)
        return items

    async def warm(self) -> None:
        await self.inner.warm()

    async def aclose(self) -> None:
        if not self._is_borrowed:
            await self.inner.aclose()
