"""The model client of a session that must ask a gate before each request, because many sessions share a limit.

Every sending counts, even one that the client repeats by itself. The client reports a refusal at once, not when it has
given up, so that others can spare the server. A session without a gate loads none of this.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Protocol

import msgspec

from spindle.core.heard import Heard, input_tokens
from spindle.errors import ModelError, StreamDropped, is_unreached, status_of
from spindle.model.client import Completed, ModelClient, ModelEvent, TurnState, cost_of_compaction
from spindle.protocol.items import Item
from spindle.protocol.request import Request, TokenUsage


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A request that is to be made."""

    provider: str
    model: str
    tier: str | None
    input_tokens: int
    """As estimated."""


class CameTo(msgspec.Struct, frozen=True, kw_only=True):
    """What a request came to."""

    usage: TokenUsage | None = None
    """None when nothing was answered."""
    has_reached: bool = True
    """The server got the request."""
    status: int | None = None
    """Of a refusal."""
    retry_after_s: float | None = None


class Passage(Protocol):
    """A request that was let through."""

    def over(self, came_to: CameTo) -> None:
        """Called once."""
        ...


class RequestGate(Protocol):
    """Stands before the requests of a session, its sub-agents and its reviews."""

    async def enter(self, wanted: Wanted) -> Passage:
        """Wait until the request may be made. Raises ModelError when it may not be made at all."""
        ...


class GatedClient:
    """Asks before each request, and tells what it came to."""

    def __init__(self, client: ModelClient, gate: RequestGate, provider_id: str) -> None:
        self.inner = client
        self._gate = gate
        self._provider_id = provider_id
        self._wanted: Request | None = None
        self._passage: Passage | None = None
        self._asks_itself = hasattr(client, "gate")
        """The client tells each time that it sends; others send once for each call."""
        if self._asks_itself:
            client.gate = self  # pyright: ignore[reportAttributeAccessIssue]

    async def stream(self, request: Request, turn_state: TurnState | None = None) -> AsyncGenerator[ModelEvent, None]:
        heard = Heard(input_tokens(request))
        self._wanted = request
        failed = CameTo()
        try:
            if not self._asks_itself:
                await self.before_send(self._provider_id)
            async with aclosing(self.inner.stream(request, turn_state)) as events:
                async for event in events:
                    heard.note(event)
                    if isinstance(event, Completed):
                        self._end(CameTo(usage=event.usage or heard.usage()))
                    yield event
        except StreamDropped as error:
            failed = CameTo(status=status_of(error.info), retry_after_s=error.delay_s)
            raise
        except ModelError as error:
            failed = CameTo(status=status_of(error.info))
            raise
        finally:
            self._end(msgspec.structs.replace(failed, usage=heard.usage()))

    async def compact(self, request: Request) -> list[Item]:
        self._wanted = request
        await self.before_send(self._provider_id)
        came_to = CameTo()
        try:
            items = await self.inner.compact(request)
            came_to = CameTo(usage=cost_of_compaction(items))
            return items
        except ModelError as error:
            came_to = CameTo(has_reached=not is_unreached(error.info), status=status_of(error.info))
            raise
        finally:
            self._end(came_to)

    async def warm(self) -> None:
        await self.inner.warm()

    async def aclose(self) -> None:
        await self.inner.aclose()

    # ---- each sending ----------------------------------------------------------------------------

    async def before_send(self, provider_id: str) -> None:
        request = self._wanted
        assert request is not None
        self._provider_id = provider_id
        self._passage = await self._gate.enter(
            Wanted(
                provider=provider_id,
                model=request.model,
                tier=request.service_tier,
                input_tokens=input_tokens(request),
            )
        )

    def in_vain(self, status: int | None, retry_after_s: float | None) -> None:
        self._end(CameTo(has_reached=status is not None, status=status, retry_after_s=retry_after_s))

    def _end(self, came_to: CameTo) -> None:
        passage, self._passage = self._passage, None
        if passage is not None:
            passage.over(came_to)
