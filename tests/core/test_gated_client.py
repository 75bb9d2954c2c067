"""Whoever stands before the requests of a session hears of each one, once, and what it really came to."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from spindle.core.gated_client import CameTo, GatedClient, Wanted
from spindle.errors import ModelError, StreamDropped
from spindle.model.client import Compacted, Completed, ModelEvent, TextDelta
from spindle.protocol.items import Item
from spindle.protocol.request import Request, TokenUsage

REQUEST = Request(
    model="m", instructions=b'"' + b"x" * 400 + b'"', items=[], tools=b"[]", service_tier="flex", prompt_cache_key="k"
)
USAGE = TokenUsage(input_tokens=7, output_tokens=3, total_tokens=10)
UNREACHED = {"http_connection_failed": {}}
REFUSED = {"response_stream_connection_failed": {"http_status_code": 429}}


class Gate:
    def __init__(self) -> None:
        self.wanted: list[Wanted] = []
        self.came_to: list[CameTo] = []

    async def enter(self, wanted: Wanted) -> Gate:
        self.wanted.append(wanted)
        return self

    def over(self, came_to: CameTo) -> None:
        self.came_to.append(came_to)


class Client:
    """Gives these events, or raises."""

    def __init__(self, *events: Any, items: list[Item] | None = None) -> None:
        self._events = events
        self._items = items

    async def stream(self, request: Request, turn_state: object = None) -> AsyncGenerator[ModelEvent, None]:
        for event in self._events:
            if isinstance(event, Exception):
                raise event
            yield event

    async def compact(self, request: Request) -> list[Item]:
        for event in self._events:
            raise event
        assert self._items is not None
        return self._items


async def asked(client: Client, *, compacts: bool = False) -> Gate:
    gate = Gate()
    gated = GatedClient(client, gate, "p")  # pyright: ignore[reportArgumentType]
    try:
        if compacts:
            await gated.compact(REQUEST)
        else:
            assert [event async for event in gated.stream(REQUEST)]
    except (ModelError, StreamDropped):
        pass
    return gate


async def test_an_answer_is_counted_as_the_server_counts_it_and_else_by_what_was_heard() -> None:
    gate = await asked(Client(TextDelta("i", "a" * 40), Completed(usage=USAGE)))
    assert gate.came_to == [CameTo(usage=USAGE)]
    [wanted] = gate.wanted
    assert (wanted.provider, wanted.model, wanted.tier) == ("p", "m", "flex") and wanted.input_tokens >= 100
    [told] = (await asked(Client(TextDelta("i", "a" * 40), Completed()))).came_to
    assert told.usage is not None
    assert (told.usage.input_tokens, told.usage.output_tokens) == (wanted.input_tokens, 10)


@pytest.mark.parametrize("error", [StreamDropped("cut", info=REFUSED, delay_s=3.0), ModelError("no", info=REFUSED)])
async def test_a_request_that_failed_is_counted_for_what_had_come_and_says_why(error: Exception) -> None:
    [told] = (await asked(Client(TextDelta("i", "a" * 40), error))).came_to
    assert told.status == 429 and told.usage is not None and told.usage.output_tokens == 10
    assert told.retry_after_s == (3.0 if isinstance(error, StreamDropped) else None)


async def test_a_compaction_is_counted_as_the_server_counts_it() -> None:
    made = Compacted([{"type": "compaction"}])
    made.usage = USAGE
    gate = await asked(Client(items=made), compacts=True)
    assert len(gate.wanted) == 1 and gate.came_to == [CameTo(usage=USAGE)]
    assert (await asked(Client(items=[]), compacts=True)).came_to == [CameTo()]


@pytest.mark.parametrize(("info", "reached", "status"), [(UNREACHED, False, None), (REFUSED, True, 429)])
async def test_a_compaction_that_reached_nobody_is_told_from_one_that_was_refused(
    info: Any, reached: bool, status: int | None
) -> None:
    gate = await asked(Client(ModelError("no", info=info)), compacts=True)
    assert gate.came_to == [CameTo(has_reached=reached, status=status)]
