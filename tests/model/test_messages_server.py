"""The Messages wire against a server that keeps its rules: headers, refusals, and what is learned of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fake_server import FakeServer, Received, Turn, call, message, reasoning, refuses, turn
from spindle.errors import ModelError, StreamDropped, WindowFull
from spindle.model.capabilities import Capabilities, CapabilityMemory
from spindle.model.capability_file import NUMBERS
from spindle.model.client import Completed, ItemDone, ModelEvent, Notice
from spindle.model.provider import FLAGS
from spindle.model.remote import RemoteModel
from spindle.protocol.items import user_message
from spindle.protocol.request import ModelFacts, Request, VisibleItem
from wires import asks, output
from wires import call as called

QUESTION = asks([user_message("hi")])


def refusal(text: str, kind: str = "invalid_request_error", status: int = 400) -> Turn:
    return refuses(status, {"type": "error", "error": {"type": kind, "message": text}})


def refuses_when(says: Callable[[dict[str, Any]], bool], text: str) -> Callable[[Received], Turn]:
    """Answers "fine", but refuses bodies of which `says` is true."""
    return lambda received: refusal(text) if says(received.json) else turn(message("fine"))


async def events_of(client: RemoteModel, request: Request = QUESTION) -> list[ModelEvent]:
    return [event async for event in client.stream(request)]


async def failure_of(client: RemoteModel, request: Request = QUESTION) -> ModelError | StreamDropped:
    with pytest.raises((ModelError, StreamDropped)) as caught:
        await events_of(client, request)
    return caught.value


@pytest.fixture
def client(server: FakeServer, client_for: Callable[..., RemoteModel]) -> RemoteModel:
    return client_for(server.base_url, wire_api="messages")


async def test_an_answer_has_its_origin_and_its_count(server: FakeServer, client: RemoteModel) -> None:
    server.script(turn(reasoning("hm", encrypted="SIG"), call("exec_command", {}, "c1"), usage={"cached": 40}))
    events = await events_of(client)
    assert server.problems == [] and [request.path for request in server.requests] == ["/v1/messages"]
    done = [event for event in events if isinstance(event, ItemDone)]
    assert [event.item["type"] for event in done] == ["reasoning", "function_call"]
    assert {event.origin.wire for event in done if event.origin is not None} == {"messages"}
    completed = events[-1]
    assert isinstance(completed, Completed) and completed.usage is not None
    assert (completed.usage.input_tokens, completed.usage.cached_input_tokens) == (100, 40)


@pytest.mark.parametrize(
    ("provider", "headers"),
    [
        ({}, {"x-api-key": "sk-live-0123456789", "anthropic-version": "2023-06-01"}),
        ({"auth_header": "bearer"}, {"authorization": "Bearer sk-live-0123456789"}),
        ({"http_headers": {"Anthropic-Version": "2026-10-21"}}, {"anthropic-version": "2026-10-21"}),
    ],
)
async def test_the_key_and_the_version_have_headers_of_their_own(
    server: FakeServer, client_for: Any, provider: dict[str, Any], headers: dict[str, str]
) -> None:
    await events_of(client_for(server.base_url, wire_api="messages", **provider))
    sent = server.requests[0].headers
    assert headers.items() <= sent.items()
    assert len({"x-api-key", "authorization"} & set(sent)) == 1


async def test_an_answer_at_its_limit_keeps_its_text_and_fails(server: FakeServer, client: RemoteModel) -> None:
    server.script(turn(message("half a sen"), call("exec_command", {}, "c1"), stop="max_tokens"))
    kept: list[ModelEvent] = []
    with pytest.raises(ModelError, match="Incomplete response returned, reason: max_output_tokens"):
        async for event in client.stream(QUESTION):
            kept.append(event)
    assert [event.item["type"] for event in kept if isinstance(event, ItemDone)] == ["message"]


async def test_a_refusal_and_a_full_window_are_errors_of_their_own(server: FakeServer, client: RemoteModel) -> None:
    server.script(turn(message("I"), stop="refusal"), turn(message("x"), stop="model_context_window_exceeded"))
    assert "refused to answer" in str(await failure_of(client))
    assert isinstance(await failure_of(client), WindowFull)


@pytest.mark.parametrize("end", range(1, 8))
async def test_a_stream_that_breaks_off_leaves_no_item(server: FakeServer, client: RemoteModel, end: int) -> None:
    server.script(turn(message("half"), call("exec_command", {}, "c1"), drop_after=end))
    seen: list[ModelEvent] = []
    with pytest.raises(StreamDropped):
        async for event in client.stream(QUESTION):
            seen.append(event)
    assert not any(isinstance(event, ItemDone) for event in seen)


async def test_a_server_that_cuts_its_stream_anywhere_is_understood(server: FakeServer, client: RemoteModel) -> None:
    server.script(turn(reasoning("grübeln"), message("fertig – 🎉", deltas=3), fragment=1))
    items = [event.item for event in await events_of(client) if isinstance(event, ItemDone)]
    assert items[1]["content"][0]["text"] == "fertig – 🎉"


# ---- what refusals teach -------------------------------------------------------------------------------


async def test_a_limit_of_the_output_is_kept_to_and_remembered(
    server: FakeServer, client_for: Any, tmp_path: Path
) -> None:
    words = "max_tokens: 32000 > 8192, which is the maximum allowed number of output tokens for m"
    server.otherwise(refuses_when(lambda body: body["max_tokens"] > 8192, words))
    path = str(tmp_path / "capabilities.json")
    events = await events_of(
        client_for(server.base_url, wire_api="messages", options={"memory": CapabilityMemory(path)})
    )
    (notice,) = (event for event in events if isinstance(event, Notice))
    assert "8192 tokens at most" in notice.message
    again = client_for(server.base_url, wire_api="messages", options={"memory": CapabilityMemory(path)})
    assert not any(isinstance(event, Notice) for event in await events_of(again))
    assert [request.json["max_tokens"] for request in server.requests] == [32_000, 8192, 8192]


async def test_a_number_that_the_user_gave_is_not_changed(server: FakeServer, client: RemoteModel) -> None:
    server.otherwise(refusal("max_tokens: 64000 > 8192, which is the maximum allowed number of output tokens for m"))
    request = asks([user_message("hi")], facts=ModelFacts(max_output_tokens=64_000))
    assert "maximum allowed" in str(await failure_of(client, request)) and len(server.requests) == 1


@pytest.mark.parametrize(
    ("facts", "key", "words"),
    [
        (ModelFacts(effort="high"), "output_config", "This model does not support the effort parameter."),
        (ModelFacts(effort="high"), "output_config", "output_config: Extra inputs are not permitted"),
        (ModelFacts(thinking="adaptive"), "thinking", "adaptive thinking is not supported on this model"),
        (ModelFacts(thinking="enabled"), "thinking", '"thinking.type.enabled" is not supported for this model.'),
    ],
)
async def test_what_a_model_does_not_know_is_left_out(
    server: FakeServer, client: RemoteModel, facts: ModelFacts, key: str, words: str
) -> None:
    server.otherwise(refuses_when(lambda body: key in body, words))
    for _ in range(2):
        await events_of(client, asks([user_message("hi")], facts=facts))
    assert [key in request.json for request in server.requests] == [True, False, False]
    first, second = ({**json.loads(request.body), key: None} for request in server.requests[:2])
    assert first == second


def _ends_in_result(body: dict[str, Any]) -> bool:
    return body["messages"][-1]["content"][-1]["type"] == "tool_result"


async def test_calls_whose_thinking_is_lost_are_answered_without_thinking(
    server: FakeServer, client: RemoteModel
) -> None:
    words = (
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` "
        "is enabled, a final `assistant` message must start with a thinking block"
    )
    server.otherwise(refuses_when(lambda body: "thinking" in body and _ends_in_result(body), words))
    hi, facts = VisibleItem.of(user_message("hi")), ModelFacts(thinking="enabled")
    loop = [hi, VisibleItem.of(called("c1")), VisibleItem.of(output("c1"))]
    later = [*loop, VisibleItem.of(called("c2")), VisibleItem.of(output("c2"))]
    for items in (loop, later, [*later, VisibleItem.of(user_message("more"))]):
        await events_of(client, asks(items, facts=facts))
    assert ["thinking" in request.json for request in server.requests] == [True, False, False, True]


async def test_a_schema_that_is_refused_is_not_taken_for_the_effort(server: FakeServer, client: RemoteModel) -> None:
    form = {"type": "json_schema", "strict": True, "schema": {"type": "object"}, "name": "o"}
    server.otherwise(
        refuses_when(
            lambda body: "format" in body.get("output_config", {}),
            "output_config.format: Extra inputs are not permitted",
        )
    )
    await events_of(client, asks([user_message("hi")], facts=ModelFacts(effort="high"), text={"format": form}))
    assert [request.json["output_config"] for request in server.requests][1] == {"effort": "high"}


def test_every_capability_can_be_remembered() -> None:
    assert {*FLAGS, *NUMBERS} == set(Capabilities.__struct_fields__)
