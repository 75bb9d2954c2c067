"""The vendors' own packages take every body we send, and read every stream that the fake server sends."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fake_server import FakeServer, call, custom_call, message, reasoning, turn
from spindle.model.wires.chat.wire import ChatWire
from spindle.model.wires.messages.wire import MessagesWire
from spindle.protocol.items import assistant_message, developer_message, user_message
from spindle.protocol.request import ModelFacts, Request, VisibleItem
from typed_params import misfits
from wire_rules import chat_problems, messages_problems
from wires import ORIGIN, PNG, asks, body, output, terms
from wires import call as recorded_call

SCHEMA = {"type": "json_schema", "strict": True, "schema": {"type": "object", "properties": {}}, "name": "o"}
THINKING = VisibleItem.of(
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
    ORIGIN,
    {"thinking": {"type": "thinking", "thinking": "hm", "signature": "SIG"}},
)
REDACTED = VisibleItem.of(
    {"type": "reasoning", "summary": []}, ORIGIN, {"thinking": {"type": "redacted_thinking", "data": "R"}}
)
PARTS = [{"type": "input_text", "text": "look"}, {"type": "input_image", "image_url": PNG}]
LONG = [
    developer_message("rules"),
    {"type": "message", "role": "user", "content": PARTS},
    THINKING,
    REDACTED,
    assistant_message("I look."),
    recorded_call("c1"),
    recorded_call("c2", "broken"),
    {"type": "custom_tool_call", "name": "apply_patch", "input": "*** Begin Patch", "call_id": "c3"},
    output("c1", "out"),
    output("c2", PARTS),
    {"type": "custom_tool_call_output", "call_id": "c3", "output": ""},
    developer_message("changed"),
    assistant_message("Done."),
    user_message("more"),
]
REQUESTS: dict[str, Request] = {
    "the first": asks([developer_message("rules"), user_message("hi")]),
    "a long one": asks(LONG),
    "without tools": asks([user_message("hi")], tools=[]),
    "with a schema": asks([user_message("hi")], text={"format": SCHEMA}),
    "no calls allowed": asks(LONG, tool_choice="none", parallel_tool_calls=False),
    "a call demanded": asks(LONG, tool_choice="required", parallel_tool_calls=False),
    "a tool named": asks(LONG, tool_choice="exec_command"),
    "thinking": asks(LONG, facts=ModelFacts(thinking="adaptive", effort="xhigh")),
    "thinking on a budget": asks(LONG, facts=ModelFacts(thinking="enabled", effort="high", max_output_tokens=9000)),
}


@pytest.fixture(scope="module")
def messages_params() -> Any:
    from anthropic.types.message_create_params import MessageCreateParamsStreaming

    return MessageCreateParamsStreaming


@pytest.fixture(scope="module")
def chat_params() -> Any:
    from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

    return CompletionCreateParamsStreaming


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("base_url", ["http://127.0.0.1:1/v1", "https://api.anthropic.com/v1"])
def test_a_messages_body_has_the_vendors_types(name: str, base_url: str, messages_params: Any) -> None:
    sent = body(MessagesWire(), REQUESTS[name], terms("messages", base_url=base_url))
    assert misfits(sent, messages_params) == [] and messages_problems(sent) == []


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("base_url", ["http://127.0.0.1:1/v1", "https://api.openai.com/v1"])
def test_a_chat_body_has_the_vendors_types(name: str, base_url: str, chat_params: Any) -> None:
    sent = body(ChatWire(), REQUESTS[name], terms("chat", base_url=base_url))
    assert misfits(sent, chat_params) == []
    sent.pop("prompt_cache_key", None)
    assert chat_problems(sent) == []


@pytest.mark.parametrize(
    "change",
    [
        {"temperature": 1},
        {"max_tokens": "many"},
        {"messages": [{"role": "user", "content": [{"type": "text"}]}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "x", "extra": 1}]}]},
        {"tool_choice": {"type": "none", "disable_parallel_tool_use": True}},
        {"thinking": {"type": "enabled"}},
        {"output_config": {"effort": "ultra"}},
    ],
)
def test_what_the_vendor_would_refuse_is_noticed(change: dict[str, Any], messages_params: Any) -> None:
    sent = body(MessagesWire(), REQUESTS["a long one"])
    assert misfits({**sent, **change}, messages_params)


ANSWER = (reasoning("hm", encrypted="SIG"), message("Hellö", deltas=3), call("exec_command", {"cmd": "é"}, "c1"))
PATCH = custom_call("apply_patch", "*** Begin Patch", "p1")


def test_the_vendors_package_reads_a_messages_stream_of_the_fake_server() -> None:
    from anthropic import Anthropic

    with FakeServer() as server:
        server.script(turn(*ANSWER, PATCH, usage={"input": 9, "cached": 4, "output": 3}))
        client = Anthropic(api_key="k", base_url=server.base_url.removesuffix("/v1"), max_retries=0)
        sent = body(MessagesWire(), REQUESTS["the first"])
        del sent["stream"]
        with client, client.messages.stream(**sent) as stream:
            read = stream.get_final_message()
    assert [block.type for block in read.content] == ["thinking", "text", "tool_use", "tool_use"]
    assert read.content[1].text == "Hellö" and read.content[2].input == {"cmd": "é"}
    assert (read.usage.cache_read_input_tokens, read.usage.output_tokens, read.stop_reason) == (4, 3, "tool_use")


def test_the_vendors_package_reads_a_chat_stream_of_the_fake_server() -> None:
    from openai import OpenAI

    with FakeServer() as server:
        server.script(turn(*ANSWER, PATCH, usage={"input": 9, "cached": 4, "output": 3}))
        sent = body(ChatWire(), REQUESTS["the first"])
        with OpenAI(api_key="k", base_url=server.base_url, max_retries=0) as client:
            chunks = list(client.chat.completions.create(**sent))
    said = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    pieces = [piece for chunk in chunks if chunk.choices for piece in chunk.choices[0].delta.tool_calls or ()]
    arguments = "".join(piece.function.arguments or "" for piece in pieces if piece.index == 0)
    assert (said, json.loads(arguments)) == ("Hellö", {"cmd": "é"})
    assert chunks[-1].usage is not None and chunks[-1].usage.prompt_tokens_details.cached_tokens == 4
