"""The contract of every model client, checked for the scripted model and for the real client over a socket."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from spindle.errors import ModelError, StreamDropped
from spindle.model.client import (
    Completed,
    Created,
    ItemAdded,
    ItemDone,
    ModelClient,
    ModelEvent,
    SummaryDelta,
    SummaryPartAdded,
    TextDelta,
)
from spindle.model.scripted import AnyStep, ScriptedModel, calls, drops, fails, patches, says, thinks, waits
from spindle.protocol.request import Request, TokenUsage


def to_wire(event: ModelEvent) -> dict[str, Any]:
    """The event as a Responses server would send it."""
    match event:
        case Created(response_id=response_id):
            return {"type": "response.created", "response": {"id": response_id}}
        case ItemAdded(item=item):
            return {"type": "response.output_item.added", "item": item}
        case TextDelta(item_id=item_id, delta=delta):
            return {"type": "response.output_text.delta", "item_id": item_id, "delta": delta}
        case SummaryPartAdded(item_id=item_id, summary_index=index):
            return {"type": "response.reasoning_summary_part.added", "item_id": item_id, "summary_index": index}
        case SummaryDelta(item_id=item_id, delta=delta, summary_index=index):
            kind = "response.reasoning_summary_text.delta"
            return {"type": kind, "item_id": item_id, "delta": delta, "summary_index": index}
        case ItemDone(item=item):
            return {"type": "response.output_item.done", "item": item}
        case Completed(response_id=response_id, usage=usage, end_turn=end_turn):
            counts = msgspec.to_builtins(usage)
            counts["input_tokens_details"] = {"cached_tokens": counts.pop("cached_input_tokens")}
            counts["output_tokens_details"] = {"reasoning_tokens": counts.pop("reasoning_output_tokens")}
            return {
                "type": "response.completed",
                "response": {"id": response_id, "usage": counts, "end_turn": end_turn},
            }
        case _:
            raise AssertionError(event)


@pytest.fixture(params=["scripted", "responses"])
async def model(request: pytest.FixtureRequest, serve, client_for) -> Callable[..., Any]:
    """A model that follows the given steps: in this process, or behind a server that follows them."""

    async def make(*steps: AnyStep) -> ModelClient:
        script = ScriptedModel(*steps)
        if request.param == "scripted":
            return script

        async def handler(peer) -> None:
            asked = msgspec.structs.replace(QUESTION)
            await peer.begin_sse()
            try:
                async for event in script.stream(asked):
                    await peer.event(to_wire(event))
            except StreamDropped:
                peer.cut()
                return
            except ModelError as error:
                failure = {"code": "invalid_prompt", "message": str(error)}
                await peer.event({"type": "response.failed", "response": {"error": failure}})
            await peer.end()

        return client_for(await serve(handler))

    return make


QUESTION = Request(model="m", instructions=b'""', items=[], tools=b"[]", prompt_cache_key="T")
USAGE = TokenUsage(input_tokens=9, cached_input_tokens=4, output_tokens=3, reasoning_output_tokens=1, total_tokens=12)


async def collect(client: ModelClient) -> tuple[list[ModelEvent], Exception | None]:
    seen: list[ModelEvent] = []
    try:
        async for event in client.stream(QUESTION):
            # Where an item comes from is known of servers only.
            seen.append(msgspec.structs.replace(event, origin=None) if isinstance(event, ItemDone) else event)
    except (ModelError, StreamDropped) as error:
        return seen, error
    return seen, None


def items(events: list[ModelEvent]) -> list[dict[str, Any]]:
    return [event.item for event in events if isinstance(event, ItemDone)]


async def test_a_response_is_told_from_its_beginning_to_its_end(model) -> None:
    client = await model([thinks("let me see"), says("It works", usage=USAGE, end_turn=True)])
    message = {
        "type": "message",
        "id": "msg_1_1",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "It works"}],
    }
    thought = {
        "type": "reasoning",
        "id": "rs_1_0",
        "summary": [{"type": "summary_text", "text": "let me see"}],
        "encrypted_content": "sealed:10",
    }
    assert await collect(client) == (
        [
            Created("resp-1"),
            ItemAdded({"type": "reasoning", "id": "rs_1_0", "summary": []}, "rs_1_0"),
            SummaryPartAdded("rs_1_0", 0),
            SummaryDelta("rs_1_0", "let", 0),
            SummaryDelta("rs_1_0", " me", 0),
            SummaryDelta("rs_1_0", " see", 0),
            ItemDone(thought, "rs_1_0"),
            ItemAdded({**message, "content": []}, "msg_1_1"),
            TextDelta("msg_1_1", "It"),
            TextDelta("msg_1_1", " works"),
            ItemDone(message, "msg_1_1"),
            Completed("resp-1", USAGE, True),
        ],
        None,
    )


async def test_each_finished_item_comes_once_and_in_order(model) -> None:
    client = await model(
        [says("first"), calls("exec_command", {"cmd": "ls"}, "c1"), calls("x", "{broken", "c2"), patches("p", "c3")]
    )
    events, error = await collect(client)
    assert error is None
    assert [(item["type"], item.get("call_id")) for item in items(events)] == [
        ("message", None),
        ("function_call", "c1"),
        ("function_call", "c2"),
        ("custom_tool_call", "c3"),
    ]
    assert items(events)[2]["arguments"] == "{broken"
    begun = [event.item_id for event in events if isinstance(event, ItemAdded)]
    assert begun == [event.item_id for event in events if isinstance(event, ItemDone)]


async def test_the_pieces_of_a_text_make_the_text(model) -> None:
    for text in ("word", "several words  and\nlines — ünï\u2028cödé", "x", ""):
        events, _ = await collect(await model(says(text)))
        deltas = [event.delta for event in events if isinstance(event, TextDelta)]
        assert "".join(deltas) == text
        assert len(deltas) >= min(len(text), 2)


async def test_a_drop_is_safe_to_ask_again_and_leaves_finished_items_finished(model) -> None:
    client = await model([says("kept"), drops("half of")], says("whole"))
    events, error = await collect(client)
    assert isinstance(error, StreamDropped)
    assert [item["content"][0]["text"] for item in items(events)] == ["kept"]
    assert [event.delta for event in events if isinstance(event, TextDelta)][-2:] == ["half", " of"]
    assert not any(isinstance(event, Completed) for event in events)
    again, error = await collect(client)
    assert error is None and [item["content"][0]["text"] for item in items(again)] == ["whole"]


async def test_a_refusal_is_final_and_the_client_stays_usable(model) -> None:
    client = await model(fails("it is forbidden"), says("fine"))
    events, error = await collect(client)
    assert (type(error), str(error), items(events)) == (ModelError, "it is forbidden", [])
    _, error = await collect(client)
    assert error is None


async def test_completed_is_the_last_event(model) -> None:
    client = await model(says("a"), calls("t", {}, "c"))
    for number in (1, 2):
        events, _ = await collect(client)
        assert [index for index, event in enumerate(events) if isinstance(event, Completed)] == [len(events) - 1]
        assert events[-1].response_id == f"resp-{number}"


async def test_waiting_can_be_cancelled_and_the_next_answer_is_unharmed(model) -> None:
    client = await model([says("a"), waits(60), says("never")], says("b"))
    seen = asyncio.Event()

    async def listen() -> None:
        async with contextlib.aclosing(client.stream(QUESTION)) as events:
            async for event in events:
                if isinstance(event, ItemDone):
                    seen.set()

    listening = asyncio.ensure_future(listen())
    await asyncio.wait_for(seen.wait(), 5)
    listening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listening
    events, error = await collect(client)
    assert error is None and [item["content"][0]["text"] for item in items(events)] == ["b"]


async def test_a_stream_may_be_left_early(model) -> None:
    client = await model([says("one two three"), says("more")], says("b"))
    async with contextlib.aclosing(client.stream(QUESTION)) as events:
        async for event in events:
            if isinstance(event, TextDelta):
                break
    events, error = await collect(client)
    assert error is None and len(items(events)) == 1


async def test_warming_and_closing_never_fail(model) -> None:
    client = await model(says("a"))
    await client.warm()
    assert (await collect(client))[1] is None
    await client.aclose()
    await client.aclose()
