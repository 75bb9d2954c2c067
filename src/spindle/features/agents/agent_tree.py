"""What all sub-agents of a session share, however deep: how many there may be, and what they may spend together.

The budget is asked before every request of a sub-agent: a request that runs is let finish, the next one is refused. So
with several at work it can be passed by what was under way.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from spindle.errors import ModelError, SpindleError
from spindle.model.client import Completed, ModelClient, ModelEvent, TurnState, cost_of_compaction
from spindle.protocol.items import Item
from spindle.protocol.request import Request, TokenUsage

Charge = Callable[[TokenUsage], None]


class AgentTree:
    """One per session that a person opened; its sub-agents and theirs share it. A budget of 0 = no limit."""

    def __init__(self, *, max_threads: int, max_depth: int, max_tokens: int = 0, max_requests: int = 0) -> None:
        self.max_threads = max_threads
        self.max_depth = max_depth
        self.max_tokens = max_tokens
        self.max_requests = max_requests
        self.live = 0
        """How many are open."""
        self.tokens = 0
        self.requests = 0

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
        if (spent := self.spent()) is not None:
            raise SpindleError(spent)
        self.live += 1

    def release(self) -> None:
        self.live -= 1

    def spent(self) -> str | None:
        """Why no more requests are made, or None."""
        if self.max_tokens and self.tokens >= self.max_tokens:
            return f"the sub-agents have used {self.tokens:,} tokens of {self.max_tokens:,} (spindle.agents.max_tokens)"
        if self.max_requests and self.requests >= self.max_requests:
            return f"the sub-agents have made {self.requests} requests (spindle.agents.max_requests)"
        return None

    def begin_request(self) -> None:
        if (spent := self.spent()) is not None:
            raise ModelError(f"stopped: {spent}", "usage_limit_exceeded")
        self.requests += 1

    def end_request(self, usage: TokenUsage) -> None:
        self.tokens += usage.total_tokens


class MeteredClient:
    """A sub-agent's way to its model: every request is within the budget, and what it costs is booked."""

    def __init__(self, client: ModelClient, tree: AgentTree, charge: Charge, *, is_borrowed: bool) -> None:
        self.inner = client
        self._tree = tree
        self._charge = charge
        self._is_borrowed = is_borrowed
        """The client belongs to somebody else, who closes it."""

    async def stream(self, request: Request, turn_state: TurnState | None = None) -> AsyncGenerator[ModelEvent, None]:
        self._tree.begin_request()
        async with aclosing(self.inner.stream(request, turn_state)) as events:
            async for event in events:
                if isinstance(event, Completed) and event.usage is not None:
                    self._tree.end_request(event.usage)
                    self._charge(event.usage)
                yield event

    async def compact(self, request: Request) -> list[Item]:
        self._tree.begin_request()
        items = await self.inner.compact(request)
        if (usage := cost_of_compaction(items)) is not None:
            self._tree.end_request(usage)
            self._charge(usage)
        return items

    async def warm(self) -> None:
        await self.inner.warm()

    async def aclose(self) -> None:
        if not self._is_borrowed:
            await self.inner.aclose()
