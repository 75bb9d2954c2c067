"""A model client of the embedding program, as the engine wants one: borrowed, and made to keep the contract.

Whoever writes a client for a test yields pieces of a text and then the whole message. The engine wants to know before
the first piece which item it belongs to, and the same name for it to the end; here both are added.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncGenerator, Iterator
from itertools import count
from typing import Any

import msgspec

from spindle.errors import ModelError
from spindle.model.client import (
    ItemAdded,
    ItemDone,
    ModelClient,
    ModelEvent,
    RawReasoningDelta,
    SummaryDelta,
    SummaryPartAdded,
    TextDelta,
    TurnState,
)
from spindle.protocol.items import Item
from spindle.protocol.request import Request

log = logging.getLogger("spindle.model")

_Delta = TextDelta | SummaryDelta | SummaryPartAdded | RawReasoningDelta


class Borrowed:
    """Closing a thread does not close it."""

    def __init__(self, client: ModelClient) -> None:
        self._client = client
        self._numbers = count(1)

    async def stream(self, request: Request, turn_state: TurnState | None = None) -> AsyncGenerator[ModelEvent, None]:
        events: Any = self._client.stream(request, turn_state)
        if inspect.isawaitable(events):
            events = await events
        if not hasattr(events, "__aiter__"):
            raise ModelError(
                f"{type(self._client).__name__}.stream gives no events: write it with `async def` and `yield`"
            )
        announcer = _Announcer(self._numbers)
        try:
            async for event in events:
                self._check(event)
                for told in announcer.told(event):
                    yield told
        finally:
            if hasattr(events, "aclose"):
                await events.aclose()

    def _check(self, event: Any) -> None:
        """Raise ModelError for what is no event: a text that was yielded as it is would be lost without a word."""
        if not isinstance(event, ModelEvent):
            raise ModelError(
                f"{type(self._client).__name__}.stream gave {event!r:.80}; see spindle.models for its events"
            )
        if isinstance(event, ItemAdded | ItemDone) and not isinstance(event.item, dict):
            raise ModelError(
                f"{type(self._client).__name__}.stream gave an item that is not a dict: {event.item!r:.80}"
            )

    async def compact(self, request: Request) -> list[Item]:
        return await self._client.compact(request)

    async def warm(self) -> None:
        try:
            await self._client.warm()
        except Exception as error:  # whatever is wrong will be seen when it is asked
            log.debug("the model client could not be warmed", exc_info=error)

    async def aclose(self) -> None:
        """Whoever lent it closes it."""


class _Announcer:
    """Sees to it that every item of a response is announced before its pieces, and has one name."""

    def __init__(self, numbers: Iterator[int]) -> None:
        self._numbers = numbers
        self._open: dict[str, tuple[str, Any]] = {}
        """The items that were announced and are not done: how the client calls each, its name and its type."""

    def told(self, event: Any) -> Iterator[ModelEvent]:
        match event:
            case ItemAdded(item=item, item_id=given):
                yield ItemAdded(item, self._begin(given or _own_id(item), item))
            case ItemDone(item=item, item_id=given):
                yield ItemDone(item, self._end(given or _own_id(item), item))
            case TextDelta() | SummaryDelta() | SummaryPartAdded() | RawReasoningDelta():
                if event.item_id not in self._open:
                    item = _begun(event)
                    yield ItemAdded(item, self._begin(event.item_id, item))
                name, _ = self._open[event.item_id]
                yield event if name == event.item_id else msgspec.structs.replace(event, item_id=name)
            case _:
                yield event

    def _begin(self, given: str, item: Item) -> str:
        name = given or f"unnamed_{next(self._numbers)}"
        self._open[given] = name, item.get("type")
        return name

    def _end(self, given: str, item: Item) -> str:
        """The name of what is done. Not announced as such, it is the one of its type that streamed, if there is one."""
        if given not in self._open:
            alike = [other for other, (_, kind) in self._open.items() if kind == item.get("type")]
            given = alike[0] if len(alike) == 1 else given
        name, _ = self._open.pop(given, (given, None))
        return name


def _own_id(item: Item) -> str:
    found = item.get("id")
    return found if isinstance(found, str) else ""


def _begun(delta: _Delta) -> Item:
    if isinstance(delta, TextDelta):
        return {"type": "message", "role": "assistant", "content": []}
    return {"type": "reasoning", "summary": []}
