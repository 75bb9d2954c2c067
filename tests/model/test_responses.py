"""What the client sends, and what it makes of each event of a Responses stream."""

from __future__ import annotations

import json
import os
import re
from typing import Any
from unittest.mock import ANY

import pytest

from spindle.errors import ModelError
from spindle.model.client import (
    Completed,
    Created,
    ItemAdded,
    ItemDone,
    RateLimits,
    RawReasoningDelta,
    SummaryDelta,
    SummaryPartAdded,
    TextDelta,
    TurnState,
    cost_of_compaction,
)
from spindle.model.credential import EnvCredential, StaticCredential, credential_for
from spindle.model.failures import ResponseFailed
from spindle.model.headers import Identity
from spindle.model.provider import Provider
from spindle.model.wires.responses.decoder import ResponsesDecoder
from spindle.protocol.request import TokenUsage

SYSTEM = os.uname()
AGENT = f"codex_exec/1.2.3 ({SYSTEM.sysname} {SYSTEM.release}; {SYSTEM.machine})"


# ---- the request -----------------------------------------------------------------------------------


async def sent(serve, client_for, ask, answer, **settings: Any):
    server = await serve(answer)
    await ask(client_for(server, **settings))
    return server.requests[0]


async def test_a_request_carries_exactly_these_headers(serve, client_for, ask, answer, question) -> None:
    request = await sent(serve, client_for, ask, answer, environ={"TERM": "xterm"})
    host = request.headers.pop("host")
    assert host.startswith("127.0.0.1:")
    assert (request.method, request.target, request.body) == ("POST", "/v1/responses", question.encode())
    assert request.headers == {
        "accept": "text/event-stream",
        "accept-encoding": "identity",
        "authorization": "Bearer sk-live-0123456789",
        "content-length": str(len(request.body)),
        "content-type": "application/json",
        "originator": "codex_exec",
        "user-agent": f"{AGENT} xterm",
        "session_id": "T",
        "session-id": "T",
        "thread-id": "T",
        "x-client-request-id": "T",
    }


async def test_only_the_built_in_provider_gets_openais_headers(serve, client_for, ask, answer) -> None:
    environ = {"OPENAI_ORGANIZATION": "org-1", "OPENAI_PROJECT": "proj-1"}
    names = ("version", "openai-organization", "openai-project")
    built_in = (await sent(serve, client_for, ask, answer, environ=environ, id="openai", name="OpenAI")).headers
    assert [built_in.get(name) for name in names] == ["1.2.3", "org-1", "proj-1"]
    other = (await sent(serve, client_for, ask, answer, environ=environ)).headers
    assert [other.get(name) for name in names] == [None] * 3
    blank = (await sent(serve, client_for, ask, answer, environ={"OPENAI_PROJECT": " "}, id="openai")).headers
    assert "openai-project" not in blank


async def test_the_front_end_and_its_client_are_named(serve, client_for, ask, answer) -> None:
    identity = Identity(thread_id="T", version="9", originator="my_ide", client="my_ide; 0.1.0", subagent="review")
    environ = {"TERM_PROGRAM": "iTerm.app", "TERM_PROGRAM_VERSION": "3.5"}
    headers = (await sent(serve, client_for, ask, answer, identity=identity, environ=environ)).headers
    assert headers["originator"] == "my_ide"
    assert headers["user-agent"].startswith("my_ide/9 (")
    assert headers["user-agent"].endswith(") iTerm.app/3.5 (my_ide; 0.1.0)")
    assert headers["x-openai-subagent"] == "review"


async def test_the_environment_can_replace_the_originator(serve, client_for, ask, answer) -> None:
    environ = {"CODEX_INTERNAL_ORIGINATOR_OVERRIDE": "wrapper"}
    headers = (await sent(serve, client_for, ask, answer, environ=environ)).headers
    assert headers["originator"] == "wrapper" and headers["user-agent"].startswith("wrapper/1.2.3 ")


async def test_a_providers_own_headers_and_query_are_sent(serve, client_for, ask, answer) -> None:
    request = await sent(
        serve,
        client_for,
        ask,
        answer,
        environ={"TRACE_ID": "t-1", "BLANK": " "},
        http_headers={"X-Team": "blue", "Originator": "custom"},
        env_http_headers={"X-Trace": "TRACE_ID", "X-Blank": "BLANK", "X-Unset": "UNSET"},
        query_params={"api-version": "2025-04-01-preview"},
    )
    assert request.target == "/v1/responses?api-version=2025-04-01-preview"
    extras = {name: request.headers.get(name) for name in ("x-team", "x-trace", "x-blank", "x-unset", "originator")}
    assert extras == {"x-team": "blue", "x-trace": "t-1", "x-blank": None, "x-unset": None, "originator": "custom"}


async def test_an_account_is_named_with_its_login(serve, client_for, ask, answer) -> None:
    headers = (await sent(serve, client_for, ask, answer, credential=StaticCredential("tok", "acct-1"))).headers
    assert (headers["authorization"], headers["chatgpt-account-id"]) == ("Bearer tok", "acct-1")


async def test_without_a_key_no_authorization_is_sent(serve, client_for, ask, answer) -> None:
    assert "authorization" not in (await sent(serve, client_for, ask, answer, credential=StaticCredential())).headers


def test_whose_key_is_sent_depends_on_the_provider() -> None:
    stored = StaticCredential("stored")
    environ = {"KEY": " from-env\n"}

    def header(**fields: Any) -> str | None:
        provider = Provider(**{"id": "lab", "name": "Lab", **fields})
        return credential_for(provider, stored, environ).authorization().get("authorization")

    assert header(env_key="KEY", bearer_token="literal") == "Bearer from-env"
    assert header(bearer_token="literal", requires_openai_auth=True) == "Bearer literal"
    assert header(id="openai") == "Bearer stored"
    assert header(requires_openai_auth=True) == "Bearer stored"
    assert header() is None


def test_secrets_are_the_values_in_use() -> None:
    assert EnvCredential("KEY", None, {"KEY": "k-1"}).secrets() == ["k-1"]
    assert EnvCredential("KEY", None, {}).secrets() == []
    assert StaticCredential("t").secrets() == ["t"]


@pytest.mark.parametrize(
    ("fields", "is_azure"),
    [
        ({"name": "Azure"}, True),
        ({"base_url": "https://x.OpenAI.azure.com/openai"}, True),
        ({"base_url": "https://x.azure-api.net/v1"}, True),
        ({"base_url": "https://api.openai.com/v1"}, False),
    ],
)
def test_azure_is_told_by_name_or_address(fields: dict[str, str], is_azure: bool) -> None:
    assert Provider(**{"id": "x", "name": "x", **fields}).is_azure is is_azure


# ---- the answer's headers --------------------------------------------------------------------------


async def test_the_turn_state_is_kept_for_the_turn_and_sent_back(serve, client_for, ask) -> None:
    async def handler(peer) -> None:
        await peer.stream({"type": "response.completed"}, headers={"x-codex-turn-state": f"s{len(server.requests)}"})

    server = await serve(handler)
    client = client_for(server)
    state = TurnState()
    for _ in range(3):
        await ask(client, state)
    await ask(client)
    assert state.value == "s1"
    assert [request.headers.get("x-codex-turn-state") for request in server.requests] == [None, "s1", "s1", None]


async def test_rate_limit_headers_become_a_snapshot(serve, client_for, ask) -> None:
    headers = {
        "x-codex-primary-used-percent": "12.5",
        "x-codex-primary-window-minutes": "300",
        "x-codex-primary-reset-at": "1800000000",
        "x-codex-secondary-used-percent": "3",
        "x-codex-credits-has-credits": "true",
        "x-codex-credits-unlimited": "false",
        "x-codex-credits-balance": "17",
    }

    async def handler(peer) -> None:
        await peer.stream({"type": "response.completed"}, headers=headers)

    events = await ask(client_for(await serve(handler)))
    assert events[0] == RateLimits(
        {
            "primary": {"used_percent": 12.5, "window_minutes": 300, "resets_at": 1_800_000_000},
            "secondary": {"used_percent": 3.0, "window_minutes": None, "resets_at": None},
            "credits": {"has_credits": True, "unlimited": False, "balance": "17"},
            "plan_type": None,
        }
    )


@pytest.mark.parametrize("headers", [{}, {"x-codex-primary-used-percent": "much"}, {"x-codex-primary-reset-at": "1"}])
async def test_without_usable_headers_there_is_no_snapshot(serve, client_for, ask, headers: dict[str, str]) -> None:
    async def handler(peer) -> None:
        await peer.stream({"type": "response.completed"}, headers=headers)

    assert await ask(client_for(await serve(handler))) == [Completed()]


async def test_the_server_may_say_that_it_counts_old_reasoning(serve, client_for, ask) -> None:
    async def handler(peer) -> None:
        await peer.stream({"type": "response.completed"}, headers={"X-Reasoning-Included": "true"})

    assert await ask(client_for(await serve(handler))) == [Completed(reasoning_included=True)]


# ---- the events ------------------------------------------------------------------------------------


def decode(*events: dict[str, Any] | bytes) -> list[Any]:
    """What the events mean; ids the server did not give are new-1, new-2, ..."""
    count = iter(range(1, 100))
    decoder = ResponsesDecoder(lambda: f"new-{next(count)}")
    frames = [event if isinstance(event, bytes) else json.dumps(event).encode() for event in events]
    return [made for frame in frames for made in decoder.feed(frame)]


def added(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "response.output_item.added", "output_index": 0, "item": item}


def done(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": 0, "item": item}


def text(delta: str, **fields: Any) -> dict[str, Any]:
    return {"type": "response.output_text.delta", "delta": delta, **fields}


def test_every_event_of_the_table_has_its_meaning() -> None:
    thought, message = {"type": "reasoning", "id": "rs_1"}, {"type": "message", "id": "msg_1", "novel": {"a": [1.5]}}
    assert decode(
        {"type": "response.created", "response": {"id": "resp_1"}},
        {"type": "response.in_progress", "response": {}},
        added(thought),
        {"type": "response.reasoning_summary_part.added", "item_id": "rs_1", "summary_index": 1},
        {"type": "response.reasoning_summary_text.delta", "item_id": "rs_1", "summary_index": 1, "delta": "hm"},
        {"type": "response.reasoning_text.delta", "item_id": "rs_1", "content_index": 2, "delta": "raw"},
        {"type": "response.reasoning_summary_text.done", "text": "hm"},
        done(thought),
        added(message),
        {"type": "response.content_part.added", "part": {}},
        text("Hel", item_id="msg_1"),
        text("lo", item_id="msg_1"),
        {"type": "response.output_text.done", "text": "Hello"},
        {"type": "response.brand_new.thing", "x": [1]},
        done(message),
        {"type": "response.completed", "response": {"id": "resp_1", "end_turn": False, "new_field": 1}},
    ) == [
        Created("resp_1"),
        ItemAdded(thought, "rs_1"),
        SummaryPartAdded("rs_1", 1),
        SummaryDelta("rs_1", "hm", 1),
        RawReasoningDelta("rs_1", "raw", 2),
        ItemDone(thought, "rs_1"),
        ItemAdded(message, "msg_1"),
        TextDelta("msg_1", "Hel"),
        TextDelta("msg_1", "lo"),
        ItemDone(message, "msg_1"),
        Completed("resp_1", end_turn=False),
    ]


def test_done_is_like_completed_and_needs_no_id() -> None:
    assert decode({"type": "response.done"}) == [Completed()]
    assert decode({"type": "response.done", "response": {"usage": None}}) == [Completed()]


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        (
            {
                "input_tokens": 100,
                "input_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 5},
                "output_tokens": 20,
                "output_tokens_details": {"reasoning_tokens": 7},
                "total_tokens": 121,
            },
            TokenUsage(
                input_tokens=100,
                cached_input_tokens=40,
                cache_write_input_tokens=5,
                output_tokens=20,
                reasoning_output_tokens=7,
                total_tokens=121,
            ),
        ),
        ({"input_tokens": 3, "output_tokens": 4}, TokenUsage(input_tokens=3, output_tokens=4, total_tokens=7)),
        (
            {"input_tokens": 3, "input_tokens_details": None, "output_tokens": None, "output_tokens_details": "x"},
            TokenUsage(input_tokens=3, total_tokens=3),
        ),
        (
            {"input_tokens": 3.0, "output_tokens": -1, "total_tokens": 10**30},
            TokenUsage(input_tokens=3),
        ),
        (None, None),
        ("odd", None),
    ],
)
def test_missing_counts_are_zero_and_a_missing_total_is_the_sum(usage: Any, counted: TokenUsage | None) -> None:
    (completed,) = decode({"type": "response.completed", "response": {"usage": usage}})
    assert isinstance(completed, Completed) and completed.usage == counted
    # Who says nothing of a cache has not said that nothing was in it.
    assert completed.counts_cached == (counted is None or counted.cached_input_tokens > 0)


@pytest.mark.parametrize(
    "frame",
    [
        b"[DONE]",
        b"not json",
        b"{",
        b"[]",
        b'"text"',
        b"{}",
        b'{"type":7}',
        b'{"type":"response.output_text.delta","delta":7}',
        b'{"type":"response.output_item.done","item":"x"}',
        b'{"type":"response.output_item.done"}',
        b'{"type":"response.completed","response":{"id":"r"}',
    ],
)
def test_garbage_is_skipped(frame: bytes) -> None:
    assert decode(frame, {"type": "response.completed"}) == [Completed()]


@pytest.mark.parametrize(
    "frame",
    [
        b'{"type":"response.created","response":{"id":"r"}}',
        b'{"type": "response.created", "response": {"id": "r"}}',
        b'{"response":{"id":"r","type":"x"},"sequence_number":1,"type":"response.created"}',
        b'\n { "type"\t:"response.created","response":{"id":"r"}}',
        b'{"ty\\u0070e":"response.cre\\u0061ted","response":{"id":"r"}}',
        b'{"type":"response.cre\\u0061ted","response":{"id":"r"}}',
    ],
)
def test_the_type_is_found_wherever_it_stands(frame: bytes) -> None:
    assert decode(frame) == [Created("r")]


def test_a_delta_without_a_beginning_opens_an_item() -> None:
    item = {"type": "message", "role": "assistant", "content": []}
    whole = {"type": "message", "content": [{"type": "output_text", "text": "ab"}]}
    assert decode(text("a"), text("b"), done(whole)) == [
        ItemAdded({**item, "id": "new-1"}, "new-1"),
        TextDelta("new-1", "a"),
        TextDelta("new-1", "b"),
        ItemDone(whole, "new-1"),
    ]
    assert decode(text("a", item_id="msg_7"), text("b", item_id="msg_7")) == [
        ItemAdded({**item, "id": "msg_7"}, "msg_7"),
        TextDelta("msg_7", "a"),
        TextDelta("msg_7", "b"),
    ]


def test_an_item_without_an_id_is_tied_to_its_deltas_and_left_as_it_is() -> None:
    item = {"type": "message", "content": []}
    assert decode(added(item), text("a", item_id="it-0"), text("b"), done(item), added(item)) == [
        ItemAdded(item, "new-1"),
        TextDelta("new-1", "a"),
        TextDelta("new-1", "b"),
        ItemDone(item, "new-1"),
        ItemAdded(item, "new-2"),
    ]


def test_a_delta_after_the_end_of_its_item_opens_another() -> None:
    item = {"type": "message", "id": "msg_1"}
    assert decode(added(item), done(item), text("late"))[2:] == [
        ItemAdded({"type": "message", "role": "assistant", "id": "new-1", "content": []}, "new-1"),
        TextDelta("new-1", "late"),
    ]


def test_items_that_overlap_keep_their_own_deltas() -> None:
    one, two = {"type": "message", "id": "msg_1"}, {"type": "message", "id": "msg_2"}
    events = decode(
        added(one), added(two), text("a", item_id="msg_1"), done(two), text("b", item_id="msg_1"), done(one)
    )
    assert events[2:] == [
        TextDelta("msg_1", "a"),
        ItemDone(two, "msg_2"),
        TextDelta("msg_1", "b"),
        ItemDone(one, "msg_1"),
    ]


def test_an_item_that_never_began_is_done_all_the_same() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "x", "arguments": "{not json"}
    assert decode(done(call), done({"type": "hologram", "id": "h1"})) == [
        ItemDone(call, "new-1"),
        ItemDone({"type": "hologram", "id": "h1"}, "h1"),
    ]


MALFORMED: list[dict[str, Any]] = [
    {},
    {"type": ["message"]},
    {"type": 5, "id": 7},
    {"type": "message", "role": 5, "content": []},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": None}]},
    {"type": "message", "role": "assistant", "content": ["text"]},
    {"type": "reasoning", "summary": "text"},
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": None}]},
    {"type": "reasoning", "summary": [], "content": ["text"]},
    {"type": "function_call", "call_id": "c", "name": None, "arguments": "{}"},
    {"type": "function_call", "call_id": ["c"], "name": "x", "arguments": "{}"},
    {"type": "custom_tool_call", "call_id": "c", "input": "text"},
    {"type": "local_shell_call", "call_id": "c", "action": "ls"},
    {"type": "web_search_call", "action": "search"},
    {"type": "web_search_call", "action": {"type": "search", "query": 5}},
    {"type": "compaction"},
]


@pytest.mark.parametrize("item", MALFORMED, ids=json.dumps)
def test_an_item_without_the_shape_of_its_type_is_skipped(item: dict[str, Any]) -> None:
    began = {"type": "response.output_item.added", "item": item}
    end: dict[str, Any] = {"type": "response.completed"}
    assert decode(began, done(item), end) == [Completed()]


def test_a_call_that_nothing_names_gets_a_name_for_its_output() -> None:
    calls = [{"type": "function_call", "name": "x", "arguments": "{}", **given} for given in ({}, {"id": "fc_1"})]
    unnamed, named = [event.item for event in decode(*map(done, calls)) if isinstance(event, ItemDone)]
    assert re.fullmatch("call_[0-9a-f]{24}", unnamed["call_id"]) and unnamed == {**calls[0], "call_id": ANY}
    assert named == calls[1]


async def test_nothing_is_yielded_after_completed(serve, client_for, ask) -> None:
    async def handler(peer) -> None:
        await peer.stream({"type": "response.completed"}, text("late"), {"type": "response.failed"})

    assert await ask(client_for(await serve(handler))) == [Completed()]


# ---- plain JSON ------------------------------------------------------------------------------------


SEALED = {"type": "compaction", "encrypted_content": "OPAQUE"}


@pytest.mark.parametrize(
    "output",
    [
        None,
        "text",
        [],
        ["text"],
        [{"foo": 1}, {"type": 5}],
        [{"type": "compaction"}],
        [{"type": "compaction", "encrypted_content": ""}],
        [{"type": "message", "role": "developer", "content": []}],
        [{"type": "function_call", "name": "x", "arguments": "{}", "call_id": "c"}],
    ],
    ids=json.dumps,
)
async def test_a_compaction_that_nothing_can_go_on_from_is_an_error(serve, client_for, question, output: Any) -> None:
    async def handler(peer) -> None:
        await peer.reply(200, {"output": output})

    with pytest.raises(ModelError, match="neither a compacted thread nor a message"):
        await client_for(await serve(handler)).compact(question)


async def test_of_a_compaction_only_what_is_no_item_is_left_out(serve, client_for, question) -> None:
    async def handler(peer) -> None:
        await peer.reply(200, {"output": [{"type": "message", "content": [{"text": None}]}, SEALED]})

    assert await client_for(await serve(handler)).compact(question) == [SEALED]


@pytest.mark.parametrize("usage", [None, "many", {"input_tokens": 70, "output_tokens": 7, "total_tokens": 77}])
async def test_what_a_compaction_cost_is_read_if_it_is_said(serve, client_for, question, usage: Any) -> None:
    async def handler(peer) -> None:
        await peer.reply(200, {"output": [SEALED], "usage": usage})

    cost = cost_of_compaction(await client_for(await serve(handler)).compact(question))
    assert (None if cost is None else cost.total_tokens) == (77 if isinstance(usage, dict) else None)
    assert cost_of_compaction([SEALED]) is None


async def test_json_is_read_with_the_providers_headers_but_no_session(serve, client_for) -> None:
    async def handler(peer) -> None:
        await peer.reply(200, {"models": []})

    server = await serve(handler)
    client = client_for(server, query_params={"v": "1"})
    assert await client.post_json("/responses/compact", b"{}") == {"models": []}
    (post,) = server.requests
    assert (post.method, post.target, post.headers["accept"]) == ("POST", "/v1/responses/compact?v=1", "*/*")
    assert (post.body, post.headers["content-type"]) == (b"{}", "application/json")
    assert post.headers["authorization"] and "session_id" not in post.headers


@pytest.mark.parametrize(
    ("status", "body", "text"),
    [(404, b"none", "unexpected status 404 Not Found: none"), (200, b"<html>", "did not answer with JSON")],
)
async def test_a_json_answer_that_is_none_is_an_error(serve, client_for, status: int, body: bytes, text: str) -> None:
    async def handler(peer) -> None:
        await peer.reply(status, body)

    with pytest.raises(ModelError, match=text):
        await client_for(await serve(handler)).post_json("/responses/compact", b"{}")


def test_items_that_only_the_end_of_a_response_names_are_its_items() -> None:
    call = {"type": "function_call", "name": "run", "arguments": "{}", "call_id": "c1"}
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]}
    end = {
        "type": "response.completed",
        "response": {"id": "r", "output": [said, call, {"type": "message", "role": "user"}, 7]},
    }
    decoder = ResponsesDecoder(lambda: "new")
    *done, completed = decoder.feed(json.dumps(end).encode())
    assert [event.item for event in done if isinstance(event, ItemDone)] == [said, call]
    assert isinstance(completed, Completed)


def test_items_that_were_finished_before_are_not_finished_again_by_the_end() -> None:
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]}
    decoder = ResponsesDecoder(lambda: "new")
    decoder.feed(json.dumps({"type": "response.output_item.done", "item": said}).encode())
    end = {"type": "response.completed", "response": {"id": "r", "output": [said]}}
    assert [type(event) for event in decoder.feed(json.dumps(end).encode())] == [Completed]


def test_an_error_without_a_type_is_the_servers_word() -> None:
    decoder = ResponsesDecoder(lambda: "new")
    assert decoder.feed(b'{"error":{"code":"context_length_exceeded","message":"too long"}}') == []
    with pytest.raises(ResponseFailed) as failed:
        decoder.finish()
    assert failed.value.error == {"code": "context_length_exceeded", "message": "too long"}
    assert ResponsesDecoder(lambda: "new").feed(b"{}") == []
