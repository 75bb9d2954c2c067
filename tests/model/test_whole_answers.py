"""Servers that answer in one piece of JSON, although they were asked for a stream."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from model.conftest import LocalServer, Peer
from spindle.errors import ModelError, StreamDropped
from spindle.model.client import Completed, ItemDone, ModelEvent
from spindle.model.remote import RemoteModel

Serve = Callable[..., Awaitable[LocalServer]]
Client = Callable[..., RemoteModel]
Ask = Callable[..., Awaitable[list[ModelEvent]]]

SAID = {
    "type": "message",
    "role": "assistant",
    "id": "msg_1",
    "content": [{"type": "output_text", "text": "hi\n\nyou"}],
}
CALL = {"type": "function_call", "id": "fc_1", "name": "run", "arguments": '{"a":1}', "call_id": "c1"}
RESPONSE = {
    "object": "response",
    "id": "resp_1",
    "status": "completed",
    "output": [SAID, CALL],
    "usage": {"input_tokens": 7, "output_tokens": 2},
}
MESSAGE = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "content": [
        {"type": "thinking", "thinking": "hm", "signature": "sealed"},
        {"type": "text", "text": "hi\n\nyou"},
        {"type": "tool_use", "id": "c1", "name": "run", "input": {"a": 1}},
    ],
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 7, "output_tokens": 2},
}


async def answered(
    serve: Serve, client_for: Client, ask: Ask, body: Any, wire: str, kind: str = "application/json"
) -> list[ModelEvent]:
    async def answer(peer: Peer) -> None:
        await peer.reply(200, json.dumps(body, indent=1).encode(), {"content-type": kind})

    return await ask(client_for(await serve(answer), wire_api=wire))


async def test_a_response_in_one_piece_is_an_answer(serve: Serve, client_for: Client, ask: Ask) -> None:
    events = await answered(serve, client_for, ask, RESPONSE, "responses")
    assert [event.item for event in events if isinstance(event, ItemDone)] == [SAID, CALL]
    assert isinstance(events[-1], Completed) and events[-1].usage is not None and events[-1].usage.total_tokens == 9


async def test_a_response_in_one_piece_that_calls_itself_a_stream_is_an_answer(
    serve: Serve, client_for: Client, ask: Ask
) -> None:
    events = await answered(serve, client_for, ask, RESPONSE, "responses", "text/event-stream")
    assert [event.item for event in events if isinstance(event, ItemDone)] == [SAID, CALL]


async def test_an_error_that_calls_itself_a_stream_is_told(serve: Serve, client_for: Client, ask: Ask) -> None:
    with pytest.raises(StreamDropped, match="fell over"):
        await answered(serve, client_for, ask, {"error": {"message": "fell over"}}, "chat", "text/event-stream")


async def test_a_message_in_one_piece_is_an_answer(serve: Serve, client_for: Client, ask: Ask) -> None:
    events = await answered(serve, client_for, ask, MESSAGE, "messages")
    thought, said, call = (event for event in events if isinstance(event, ItemDone))
    assert thought.opaque == {"thinking": MESSAGE["content"][0]}
    assert said.item["content"][0]["text"] == "hi\n\nyou"
    assert (call.item["name"], call.item["call_id"], json.loads(call.item["arguments"])) == ("run", "c1", {"a": 1})
    assert isinstance(events[-1], Completed) and events[-1].usage is not None and events[-1].usage.total_tokens == 9


@pytest.mark.parametrize(
    ("body", "wire", "error", "said"),
    [
        (
            {**RESPONSE, "status": "failed", "error": {"code": "x", "message": "fell over"}},
            "responses",
            StreamDropped,
            "f",
        ),
        (
            {**RESPONSE, "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
            "responses",
            ModelError,
            "reason: max_output_tokens",
        ),
        ({**MESSAGE, "stop_reason": "max_tokens"}, "messages", ModelError, "reason: max_output_tokens"),
        ({**MESSAGE, "stop_reason": "refusal"}, "messages", ModelError, "refused"),
        (
            {"type": "error", "error": {"type": "api_error", "message": "fell over"}},
            "messages",
            StreamDropped,
            "fell over",
        ),
        ({"output": "nothing like it"}, "responses", StreamDropped, "instead of an event stream"),
        ({"type": "message", "content": "nothing like it"}, "messages", StreamDropped, "instead of an event stream"),
    ],
)
async def test_an_answer_in_one_piece_that_is_none_fails_as_a_stream_would(
    serve: Serve, client_for: Client, ask: Ask, body: Any, wire: str, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        await answered(serve, client_for, ask, body, wire)
