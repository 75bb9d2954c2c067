"""Chat Completions over real HTTP: how an answer ends, and what is left when it does not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from model.conftest import QUESTION, LocalServer, Peer
from spindle.errors import ModelError, StreamDropped
from spindle.model.client import Completed, ItemDone, ModelEvent, TextDelta
from spindle.model.remote import RemoteModel

Serve = Callable[..., Awaitable[LocalServer]]
Client = Callable[..., RemoteModel]
Ask = Callable[..., Awaitable[list[ModelEvent]]]


def chunk(text: str = "", finish: str | None = None) -> dict[str, Any]:
    return {"id": "r", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]}


def whole(finish: str = "stop") -> dict[str, Any]:
    message = {"role": "assistant", "content": "line one\n\ndata: line two"}
    usage = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
    return {"id": "r", "choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": usage}


def texts(events: list[ModelEvent]) -> list[str]:
    return [event.item["content"][0]["text"] for event in events if isinstance(event, ItemDone)]


async def test_an_answer_in_one_piece_of_json_is_an_answer(serve: Serve, client_for: Client, ask: Ask) -> None:
    async def answer(peer: Peer) -> None:
        await peer.reply(200, json.dumps(whole(), indent=2).encode(), {"content-type": "application/json"})

    events = await ask(client_for(await serve(answer), wire_api="chat"))
    assert texts(events) == ["line one\n\ndata: line two"]
    assert isinstance(events[-1], Completed) and events[-1].usage is not None and events[-1].usage.total_tokens == 9


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"error": {"message": "engine is down"}}, "engine is down"),
        ({"detail": "no such thing"}, "no such thing"),
    ],
)
async def test_any_other_json_is_a_failure_with_its_words(
    serve: Serve, client_for: Client, ask: Ask, body: dict[str, Any], said: str
) -> None:
    async def answer(peer: Peer) -> None:
        await peer.reply(200, body, {"content-type": "application/json"})

    with pytest.raises((ModelError, StreamDropped), match=said):
        await ask(client_for(await serve(answer), wire_api="chat"))


async def test_a_connection_that_breaks_after_the_end_takes_nothing_with_it(
    serve: Serve, client_for: Client, ask: Ask
) -> None:
    async def answer(peer: Peer) -> None:
        await peer.begin_sse()
        await peer.event(chunk("whole"))
        await peer.event(chunk(finish="stop"))
        peer.cut()

    events = await ask(client_for(await serve(answer), wire_api="chat"))
    assert texts(events) == ["whole"] and isinstance(events[-1], Completed)


async def test_a_connection_that_breaks_before_the_end_leaves_no_item(serve: Serve, client_for: Client) -> None:
    async def answer(peer: Peer) -> None:
        await peer.begin_sse()
        await peer.event(chunk("half"))
        peer.cut()

    client = client_for(await serve(answer), wire_api="chat")

    events: list[ModelEvent] = []
    with pytest.raises(StreamDropped):
        async for event in client.stream(QUESTION):
            events.append(event)
    assert texts(events) == [] and any(isinstance(event, TextDelta) for event in events)


async def test_a_text_that_was_cut_off_is_kept_and_the_reason_told(serve: Serve, client_for: Client) -> None:
    async def answer(peer: Peer) -> None:
        await peer.stream(chunk("half a sen"), chunk(finish="length"))

    client = client_for(await serve(answer), wire_api="chat")

    events: list[ModelEvent] = []
    with pytest.raises(ModelError, match="max_output_tokens"):
        async for event in client.stream(QUESTION):
            events.append(event)
    assert texts(events) == ["half a sen"]


async def test_a_server_that_never_hangs_up_after_the_end_is_not_waited_for_long(
    serve: Serve, client_for: Client, ask: Ask
) -> None:
    async def answer(peer: Peer) -> None:
        await peer.begin_sse()
        await peer.event(chunk("all of it", "stop"))
        await asyncio.Event().wait()

    client = client_for(await serve(answer), wire_api="chat", options={"end_patience_s": 0.05})
    events = await asyncio.wait_for(ask(client), 20)  # the server may be silent for five minutes otherwise
    assert texts(events) == ["all of it"]
    assert isinstance(events[-1], Completed)


async def test_a_server_that_goes_on_saying_nothing_after_the_end_is_not_waited_for_either(
    serve: Serve, client_for: Client, ask: Ask
) -> None:
    async def answer(peer: Peer) -> None:
        await peer.begin_sse()
        await peer.event(chunk("all of it", "stop"))
        while True:
            await peer.chunk(b': ping\n\ndata: {"choices":[]}\n\n')
            await asyncio.sleep(0.01)

    client = client_for(await serve(answer), wire_api="chat", options={"end_patience_s": 0.2})
    assert texts(await asyncio.wait_for(ask(client), 10)) == ["all of it"]


async def test_counts_that_come_a_little_after_the_end_still_count(serve: Serve, client_for: Client, ask: Ask) -> None:
    async def answer(peer: Peer) -> None:
        await peer.begin_sse()
        await peer.event(chunk("all of it", "stop"))
        await peer.event({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}})
        await asyncio.Event().wait()

    client = client_for(await serve(answer), wire_api="chat", options={"end_patience_s": 0.3})
    events = await asyncio.wait_for(ask(client), 20)
    assert isinstance(events[-1], Completed) and events[-1].usage is not None and events[-1].usage.total_tokens == 9
