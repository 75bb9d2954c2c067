"""The Responses API over a WebSocket: what is sent, what the server is told only once, and when HTTP takes over."""

from __future__ import annotations

import asyncio
import json
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import nullcontext
from hashlib import sha1
from typing import Any

import msgspec
import pytest
import trustme

from spindle.errors import ModelError, SpindleError, StreamDropped
from spindle.model.client import Completed, Created, ItemDone, Notice, RateLimits, TextDelta
from spindle.model.sse import EventTooLarge
from spindle.model.websocket.frames import BadFrame, FrameReader, frame
from spindle.protocol.request import Request, VisibleItem
from websocket_server import Step, WebSocketServer, answers, refuses

CALL = {"type": "function_call", "id": "fc_1", "name": "exec_command", "arguments": "{}", "call_id": "c1"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "ok"}
SAID = {"type": "message", "role": "assistant", "id": "msg_1", "content": [{"type": "output_text", "text": "done"}]}
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed"}
SHOWN_THOUGHT = {"type": "reasoning", "summary": [], "content": None, "encrypted_content": "sealed", "id": "rs_1"}
HELLO = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]}
MORE = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "more"}]}


def request_of(*items: dict[str, Any], **fields: Any) -> Request:
    shown = [VisibleItem.of(item) for item in items]
    settings = {"model": "gpt-5.2-codex", "instructions": b'"base"', "tools": b"[]", "prompt_cache_key": "T", **fields}
    return Request(items=shown, **settings)


Start = Callable[..., Awaitable[WebSocketServer]]


@pytest.fixture
async def talk() -> AsyncIterator[Start]:
    """Start a server of WebSockets with a script."""
    servers: list[WebSocketServer] = []

    async def start(*steps: Step, tls: ssl.SSLContext | None = None, **options: Any) -> WebSocketServer:
        server = WebSocketServer(steps or (answers(SAID),))
        await server.start(**({} if tls is None else {"ssl": tls}), **options)
        servers.append(server)
        return server

    yield start
    for server in servers:
        await server.stop()


@pytest.fixture
def client(client_for):
    def make(server: Any, **fields: Any):
        return client_for(server, supports_websockets=True, **fields)

    return make


async def put(client: Any, request: Request) -> list[Any]:
    return [event async for event in client.stream(request)]


# ---- what is sent --------------------------------------------------------------------------------------


async def test_the_handshake_carries_who_asks_and_for_which_thread(talk, client) -> None:
    server = await talk()
    events = await put(client(server, http_headers={"X-Team": "blue"}), request_of(HELLO))
    assert [type(event) for event in events] == [Created, ItemDone, Completed]
    headers = server.handshakes[0]
    wanted = {
        "authorization": "Bearer sk-live-0123456789",
        "openai-beta": "responses_websockets=2026-02-06",
        "x-team": "blue",
        "session_id": "T",
        "thread-id": "T",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
    }
    assert {name: headers[name] for name in wanted} == wanted
    assert "sec-websocket-extensions" not in headers


async def test_a_question_is_the_body_of_a_request_with_a_type(talk, client) -> None:
    server = await talk()
    question = request_of(HELLO)
    await put(client(server), question)
    assert server.raw == [b'{"type":"response.create",' + question.encode()[1:]]


async def test_a_question_that_goes_on_holds_only_what_is_new(talk, client) -> None:
    server = await talk(answers(THOUGHT, CALL, response_id="a"), answers(SAID, response_id="b"))
    asking = client(server)
    first = request_of(HELLO)
    second = request_of(HELLO, SHOWN_THOUGHT, CALL, OUTPUT)
    await put(asking, first)
    await put(asking, second)
    await put(asking, third := request_of(HELLO, SHOWN_THOUGHT, CALL, OUTPUT, SAID, MORE))
    assert [(sent.get("previous_response_id"), sent["input"]) for sent in server.sent] == [
        (None, [HELLO]),
        ("a", [OUTPUT]),
        ("b", [MORE]),
    ]
    # The server, which remembers the rest as it made it, sees what a whole request would have said.
    assert [len(asked["input"]) for asked in server.asked] == [len(r.items) for r in (first, second, third)]
    assert server.connections == 1


CHANGED: dict[str, Callable[[Request], Request]] = {
    "another item in front": lambda asked: msgspec.structs.replace(
        asked, items=[VisibleItem.of(MORE), *asked.items[1:]]
    ),
    "a shorter thread": lambda asked: msgspec.structs.replace(asked, items=asked.items[:1]),
    "its answer left out": lambda asked: msgspec.structs.replace(asked, items=[asked.items[0], asked.items[2]]),
    "its answer changed": lambda asked: msgspec.structs.replace(
        asked, items=[asked.items[0], VisibleItem.of({**CALL, "arguments": '{"a":1}'}), asked.items[2]]
    ),
    "another call id": lambda asked: msgspec.structs.replace(
        asked, items=[asked.items[0], VisibleItem.of({**CALL, "call_id": "c2"}), asked.items[2]]
    ),
    "other tools": lambda asked: msgspec.structs.replace(asked, tools=b'[{"type":"function"}]'),
    "other instructions": lambda asked: msgspec.structs.replace(asked, instructions=b'"other"'),
    "another model": lambda asked: msgspec.structs.replace(asked, model="gpt-5.2"),
    "another effort": lambda asked: msgspec.structs.replace(asked, reasoning={"effort": "high"}),
    "nothing new": lambda asked: msgspec.structs.replace(asked, items=asked.items[:2]),
}


@pytest.mark.parametrize("change", CHANGED.values(), ids=CHANGED)
async def test_everything_is_told_anew_unless_the_server_remembers_exactly_that(talk, client, change) -> None:
    server = await talk(answers(CALL, response_id="a"), answers(SAID, response_id="b"))
    asking = client(server)
    await put(asking, request_of(HELLO))
    question = change(request_of(HELLO, CALL, OUTPUT))
    await put(asking, question)
    assert server.raw[1] == b'{"type":"response.create",' + question.encode()[1:]
    assert server.connections == 1


@pytest.mark.parametrize(
    ("made", "shown"),
    [
        ({**SAID, "status": "completed", "content": [{**SAID["content"][0], "annotations": []}]}, SAID),
        (
            {**THOUGHT, "encrypted_content": None, "content": [{"type": "reasoning_text", "text": "hm"}]},
            {**SHOWN_THOUGHT, "encrypted_content": None, "content": [{"type": "reasoning_text", "text": "hm"}]},
        ),
        ({**CALL, "id": "odd", "status": "completed"}, {name: CALL[name] for name in CALL if name != "id"}),
    ],
)
async def test_an_answer_is_recognised_in_the_form_in_which_it_goes_back(talk, client, made, shown) -> None:
    server = await talk(answers(made, response_id="a"))
    asking = client(server)
    await put(asking, request_of(HELLO))
    await put(asking, request_of(HELLO, shown, MORE))
    assert server.sent[1]["previous_response_id"] == "a"


async def test_an_item_of_the_server_that_the_thread_does_not_have_makes_it_tell_everything(talk, client) -> None:
    novel = {"type": "novel_kind", "id": "n_1"}
    server = await talk(answers(novel, SAID, response_id="a"))
    asking = client(server)
    await put(asking, request_of(HELLO))
    await put(asking, request_of(HELLO, SAID, MORE))
    assert "previous_response_id" not in server.sent[1]


async def test_items_that_only_the_end_of_an_answer_names_are_not_sent_as_new_ones(talk, client) -> None:
    server = await talk([{"type": "response.completed", "response": {"id": "a", "output": [SAID]}}])
    asking = client(server)
    await put(asking, request_of(HELLO))
    await put(asking, request_of(HELLO, SAID, MORE))
    assert "previous_response_id" not in server.sent[1]


async def test_an_answer_without_an_id_cannot_be_gone_on_from(talk, client) -> None:
    server = await talk([{"type": "response.output_item.done", "item": SAID}, {"type": "response.done"}])
    asking = client(server)
    await put(asking, request_of(HELLO))
    await put(asking, request_of(HELLO, SAID, MORE))
    assert "previous_response_id" not in server.sent[1]


async def test_a_failed_answer_is_not_gone_on_from(talk, client) -> None:
    failed = {"type": "response.failed", "response": {"id": "b", "error": {"code": "server_error", "message": "x"}}}
    server = await talk(answers(SAID, response_id="a"), [failed], answers(SAID, response_id="c"))
    asking = client(server)
    await put(asking, request_of(HELLO))
    with pytest.raises(StreamDropped, match="x"):
        await put(asking, request_of(HELLO, SAID, MORE))
    await put(asking, request_of(HELLO, SAID, MORE, MORE))
    assert [sent.get("previous_response_id") for sent in server.sent] == [None, "a", None]


# ---- what comes back -----------------------------------------------------------------------------------


async def test_events_are_those_of_a_stream_over_http(talk, client) -> None:
    delta = {"type": "response.output_text.delta", "item_id": "msg_1", "delta": "grün"}
    limits = {
        "type": "codex.rate_limits",
        "rate_limits": {"primary": {"used_percent": 42.5, "window_minutes": 300, "reset_at": 1700000000}},
        "credits": {"has_credits": True, "unlimited": False, "balance": "9.9"},
    }
    begun = {"type": "response.output_item.added", "item": {**SAID, "content": []}}
    server = await talk([limits, begun, delta, *answers(SAID, usage={"input_tokens": 3, "output_tokens": 4})[1:]])
    events = await put(client(server), request_of(HELLO))
    assert events[0] == RateLimits(
        {
            "primary": {"used_percent": 42.5, "window_minutes": 300, "resets_at": 1700000000},
            "secondary": None,
            "credits": {"has_credits": True, "unlimited": False, "balance": "9.9"},
            "plan_type": None,
        }
    )
    assert TextDelta("msg_1", "grün") in events
    assert isinstance(events[-1], Completed)
    assert events[-1].usage.total_tokens == 7
    assert events[-2].origin.base_url == server.base_url


async def test_parts_of_messages_pings_and_odd_whitespace_are_read(talk, client) -> None:
    async def step(connection: Any) -> None:
        whole = json.dumps(answers(SAID)[1], indent=1)
        await connection.send([whole[:7], whole[7:9], whole[9:]])
        alive = await connection.ping()
        await asyncio.wait_for(alive, 5)
        await connection.send("no JSON at all")
        await connection.send(json.dumps(answers(SAID)[-1]))

    server = await talk(step)
    assert [type(event) for event in await put(client(server), request_of(HELLO))] == [ItemDone, Completed]


async def test_a_large_question_and_a_large_answer_arrive_whole(talk, client) -> None:
    text = "wörter " * 200_000
    large = {**SAID, "content": [{"type": "output_text", "text": text}]}
    server = await talk(answers(large))
    asked = {**HELLO, "content": [{"type": "input_text", "text": text}]}
    events = await put(client(server), request_of(asked))
    assert server.sent[0]["input"] == [asked]
    assert events[1].item == large


async def test_it_works_through_tls(talk, client) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    server = await talk(answers(SAID), tls=context)
    with authority.cert_pem.tempfile() as path:
        assert isinstance((await put(client(server, ca_file=path), request_of(HELLO)))[-1], Completed)


async def test_connecting_ahead_saves_the_first_question_the_handshake(talk, client) -> None:
    server = await talk()
    asking = client(server)
    await asking.warm()
    assert (len(server.handshakes), server.sent) == (1, [])
    await put(asking, request_of(HELLO))
    assert len(server.handshakes) == 1


async def test_a_connection_that_was_closed_before_the_first_question_is_opened_anew(talk, client) -> None:
    server = await talk()
    server.closes_next = True
    asking = client(server)
    await asking.warm()
    await asyncio.wait_for(server.closed.wait(), 5)
    events = await put(asking, request_of(HELLO))
    assert [type(event) for event in events] == [Created, ItemDone, Completed]
    assert len(server.handshakes) == 2


async def test_what_the_handshake_says_of_the_account_holds_once_and_how_reasoning_is_counted_for_all(
    talk, client
) -> None:
    server = await talk(answers(SAID, response_id="a"))
    server.headers = {"x-reasoning-included": "true", "x-codex-primary-used-percent": "7"}
    asking = client(server)
    first = await put(asking, request_of(HELLO))
    second = await put(asking, request_of(HELLO, SAID, MORE))
    assert [len([event for event in told if isinstance(event, RateLimits)]) for told in (first, second)] == [1, 0]
    assert [told[-1].reasoning_included for told in (first, second)] == [True, True]


async def test_two_questions_at_once_do_not_share_a_connection(talk, client) -> None:
    async def never_ends(connection: Any) -> None:
        await connection.send(json.dumps(answers(SAID)[0]))
        await connection.wait_closed()

    server = await talk(never_ends)
    asking = client(server)
    stream = asking.stream(request_of(HELLO))
    await anext(stream)
    with pytest.raises(SpindleError):  # over HTTP, which this server does not speak
        await put(asking, request_of(MORE))
    assert (len(server.handshakes), len(server.sent)) == (1, 1)
    await stream.aclose()


async def test_a_reader_who_leaves_hangs_up_and_the_next_question_tells_everything(talk, client) -> None:
    async def never_ends(connection: Any) -> None:
        await connection.send(json.dumps(answers(SAID)[0]))
        await connection.wait_closed()

    server = await talk(answers(SAID, response_id="a"), never_ends, answers(SAID, response_id="b"))
    asking = client(server)
    await put(asking, request_of(HELLO))
    stream = asking.stream(request_of(HELLO, SAID, MORE))
    await anext(stream)
    await stream.aclose()
    await asyncio.wait_for(server.closed.wait(), 5)
    await put(asking, request_of(HELLO, SAID, MORE))
    assert (server.connections, "previous_response_id" in server.sent[-1]) == (2, False)


async def test_a_client_that_has_all_its_answers_says_goodbye(talk, client) -> None:
    server = await talk()
    asking = client(server)
    await put(asking, request_of(HELLO))
    await asking.aclose()
    await asyncio.wait_for(server.closed.wait(), 5)
    assert server.goodbyes == [1000]


async def test_another_key_opens_another_connection(talk, client) -> None:
    server = await talk(answers(SAID, response_id="a"))
    environ = {"NAME": "one"}
    asking = client(server, environ=environ, env_http_headers={"X-Name": "NAME"})
    await put(asking, request_of(HELLO))
    environ["NAME"] = "two"
    await put(asking, request_of(HELLO, SAID, MORE))
    assert [headers["x-name"] for headers in server.handshakes] == ["one", "two"]
    assert "previous_response_id" not in server.sent[1]


# ---- errors --------------------------------------------------------------------------------------------


async def test_an_error_in_the_place_of_an_answer_is_what_its_status_means(talk, client) -> None:
    server = await talk(refuses(400, message="bad thing", code="invalid_request_error"))
    with pytest.raises(ModelError, match="bad thing"):
        await put(client(server), request_of(HELLO))


async def test_a_busy_server_says_when_to_ask_again(talk, client) -> None:
    busy = {"type": "error", "status": 429, "error": {"message": "slow down"}, "headers": {"Retry-After": "7"}}
    server = await talk([busy])
    with pytest.raises(StreamDropped, match="429") as dropped:
        await put(client(server), request_of(HELLO))
    assert dropped.value.delay_s == 7


async def test_a_server_error_is_asked_again_within_the_budget_of_one_request(talk, client) -> None:
    server = await talk(refuses(503, message="later"), answers(SAID))
    await put(client(server, request_max_retries=1), request_of(HELLO))
    assert len(server.sent) == 2


async def test_a_refusal_teaches_as_over_http(talk, client) -> None:
    refusal = refuses(400, message="Unknown parameter: 'parallel_tool_calls'", param="parallel_tool_calls")
    server = await talk(refusal, answers(SAID))
    events = await put(client(server), request_of(HELLO))
    assert ["parallel_tool_calls" in sent for sent in server.sent] == [True, False]
    assert any(isinstance(event, Notice) and "parallel_tool_calls" in event.message for event in events)


async def test_an_error_in_the_middle_ends_the_answer(talk, client) -> None:
    error = {"type": "error", "error": {"code": "rate_limit_exceeded", "message": "try again in 2s"}}
    server = await talk([answers(SAID)[0], error])
    with pytest.raises(StreamDropped) as dropped:
        await asyncio.wait_for(put(client(server), request_of(HELLO)), 10)
    assert dropped.value.delay_s == 2


async def test_what_the_server_has_forgotten_is_told_again_at_once(talk, client) -> None:
    server = await talk(
        answers(SAID, response_id="a"),
        refuses(400, code="previous_response_not_found", message="not found"),
        answers(SAID, response_id="b"),
    )
    asking = client(server)
    asked: list[str] = []
    asking.before_retry = lambda: asked.append("may I")
    await put(asking, request_of(HELLO))
    events = await put(asking, request_of(HELLO, SAID, MORE))
    assert isinstance(events[-1], Completed)
    assert [sent.get("previous_response_id") for sent in server.sent] == [None, "a", None]
    assert asked == ["may I"]  # a budget counts it


async def test_a_connection_that_may_not_live_longer_is_replaced_at_once(talk, client) -> None:
    limit = refuses(400, code="websocket_connection_limit_reached", message="60 minutes")
    server = await talk(answers(SAID, response_id="a"), limit, answers(SAID, response_id="b"))
    asking = client(server)
    await put(asking, request_of(HELLO))
    assert isinstance((await put(asking, request_of(HELLO, SAID, MORE)))[-1], Completed)
    assert (server.connections, "previous_response_id" in server.sent[-1]) == (2, False)


@pytest.mark.parametrize("code", ["previous_response_not_found", "websocket_connection_limit_reached"])
async def test_a_server_that_forgets_for_ever_is_not_asked_for_ever(talk, client, code) -> None:
    server = await talk(refuses(400, code=code, message="never heard of it"))
    with pytest.raises(ModelError, match="never heard of it"):
        await put(client(server), request_of(HELLO))
    assert len(server.sent) == 1


async def test_a_kept_connection_that_the_server_closed_is_opened_anew_without_a_word(talk, client) -> None:
    async def and_closes(connection: Any) -> None:
        for event in answers(SAID, response_id="a"):
            await connection.send(json.dumps(event))
        await connection.close()

    server = await talk(and_closes, answers(SAID))
    asking = client(server)
    await put(asking, request_of(HELLO))
    await asyncio.wait_for(server.closed.wait(), 5)
    events = await put(asking, request_of(HELLO, SAID, MORE))
    assert [type(event) for event in events] == [Created, ItemDone, Completed]
    assert (server.connections, "previous_response_id" in server.sent[-1]) == (2, False)


async def test_a_kept_connection_that_closes_on_the_question_is_opened_anew(talk, client) -> None:
    async def closes(connection: Any) -> None:
        await connection.close()

    server = await talk(answers(SAID, response_id="a"), closes, answers(SAID))
    asking = client(server)
    await put(asking, request_of(HELLO))
    await put(asking, request_of(HELLO, SAID, MORE))
    assert [sent.get("previous_response_id") for sent in server.sent] == [None, "a", None]


async def test_an_answer_that_breaks_off_may_be_asked_for_again(talk, client) -> None:
    async def breaks(connection: Any) -> None:
        await connection.send(json.dumps(answers(SAID)[0]))
        await connection.close(1011, "oh\x1b[31mno")

    server = await talk(breaks, answers(SAID))
    asking = client(server)
    with pytest.raises(StreamDropped, match=r"code 1011: ohno"):
        await put(asking, request_of(HELLO))
    assert isinstance((await put(asking, request_of(HELLO)))[-1], Completed)


async def test_silence_is_an_idle_timeout(talk, client) -> None:
    async def says_nothing(connection: Any) -> None:
        await connection.wait_closed()

    async def stops(connection: Any) -> None:
        await connection.send(json.dumps(answers(SAID)[0]))
        await connection.wait_closed()

    for step in (says_nothing, stops):
        server = await talk(step)
        with pytest.raises(StreamDropped, match="idle timeout waiting for websocket"):
            await put(client(server, stream_idle_timeout_ms=50), request_of(HELLO))
        await asyncio.wait_for(server.closed.wait(), 5)


async def test_a_message_without_end_is_refused(talk, client) -> None:
    server = await talk([{"type": "response.output_text.delta", "delta": "x" * 10_000}])
    with pytest.raises(ModelError, match="larger than 1000 bytes"):
        await put(client(server, options={"sse_event_max_bytes": 1000}), request_of(HELLO))


async def test_binary_messages_are_no_answer(talk, client, serve) -> None:
    async def binary(connection: Any) -> None:
        await connection.send(json.dumps(answers(SAID)[0]))
        await connection.send(b"\x00")

    server = await talk(binary)
    with pytest.raises(StreamDropped, match="not text"):
        await put(client(server), request_of(HELLO))


# ---- HTTP instead --------------------------------------------------------------------------------------


def accepted(peer: Any) -> dict[str, str]:
    key = peer.request.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    accept = b64encode(sha1(key.encode()).digest()).decode()
    return {"upgrade": "websocket", "connection": "Upgrade", "sec-websocket-accept": accept}


async def agree(peer: Any, headers: dict[str, str] | None = None, status: int = 101) -> None:
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in (headers or accepted(peer)).items())]
    await peer.send("\r\n".join([*lines, "", ""]).encode())


async def hangs_up(peer: Any) -> None:
    peer.cut()


async def closes_at_once(peer: Any) -> None:
    await agree(peer)
    await peer.send(b"\x88\x02\x03\xf0")


async def lies(peer: Any) -> None:
    await agree(peer, {**accepted(peer), "sec-websocket-accept": "AAAA"})


async def compresses(peer: Any) -> None:
    await agree(peer)
    await peer.send(b"\xc1\x00")


def refusal(status: int) -> Callable[[Any], Awaitable[None]]:
    async def refuse(peer: Any) -> None:
        await peer.reply(status, {"error": {"message": "no"}})

    return refuse


NO_SOCKETS = {
    "426": (refusal(426), None),
    "404": (refusal(404), "HTTP status 404"),
    "405": (refusal(405), "HTTP status 405"),
    "500": (refusal(500), "HTTP status 500"),
    "200": (refusal(200), "HTTP status 200"),
    "hangs up": (hangs_up, "closed the connection"),
    "closes at once": (closes_at_once, "code 1008"),
    "a wrong answer": (lies, "its answer to the upgrade is wrong"),
    "an extension that was not offered": (compresses, "extension"),
}


@pytest.mark.parametrize(("no_socket", "why"), NO_SOCKETS.values(), ids=NO_SOCKETS)
async def test_a_server_without_websockets_is_asked_over_http_at_once_and_for_good(
    serve, client, answer, no_socket, why
) -> None:
    server = await serve(no_socket, answer)
    asking = client(server)
    events = await put(asking, request_of(HELLO))
    notices = [event.message for event in events if isinstance(event, Notice)]
    assert isinstance(events[-1], Completed)
    assert (len(notices), why is None or why in notices[0]) == (0 if why is None else 1, True)
    assert not [event for event in await put(asking, request_of(HELLO, MORE)) if isinstance(event, Notice)]
    assert [request.method for request in server.requests] == ["GET", "POST", "POST"]
    assert server.requests[2].body == request_of(HELLO, MORE).encode()


async def test_a_key_that_is_refused_is_refused_over_http_too_and_websockets_are_tried_again(
    serve, client, answer
) -> None:
    server = await serve(refusal(401), answer, refusal(426), answer)
    asking = client(server)
    await put(asking, request_of(HELLO))
    await put(asking, request_of(HELLO))
    assert [request.method for request in server.requests] == ["GET", "POST", "GET", "POST"]


async def test_a_connection_that_breaks_twice_in_a_row_is_given_up(talk, client) -> None:
    async def breaks(connection: Any) -> None:
        await connection.send(json.dumps(answers(SAID)[0]))
        await connection.close()

    server = await talk(breaks, answers(SAID), breaks, breaks)
    asking = client(server)
    for is_whole in (False, True, False, False):
        with nullcontext() if is_whole else pytest.raises(StreamDropped):
            await put(asking, request_of(HELLO))
    told: list[Any] = []
    with pytest.raises(SpindleError):  # over HTTP, which this server does not speak
        async for event in asking.stream(request_of(HELLO)):
            told.append(event)
    assert len(server.handshakes) == 3
    assert "broke twice" in told[0].message


async def test_what_comes_unasked_is_no_part_of_the_next_answer(talk, client) -> None:
    has_arrived = asyncio.Event()

    async def and_more(connection: Any) -> None:
        for event in (*answers(SAID, response_id="a"), *answers({**SAID, "id": "msg_2"}, response_id="b")):
            await connection.send(json.dumps(event))
        await asyncio.wait_for(await connection.ping(), 5)
        has_arrived.set()

    server = await talk(and_more, answers({**SAID, "id": "msg_3"}, response_id="c"))
    asking = client(server)
    await put(asking, request_of(HELLO))
    await asyncio.wait_for(has_arrived.wait(), 5)
    events = await put(asking, request_of(HELLO, SAID, MORE))
    assert [event.item["id"] for event in events if isinstance(event, ItemDone)] == ["msg_3"]


async def test_without_the_word_of_the_user_no_websocket_is_tried(serve, client_for, answer) -> None:
    server = await serve(answer)
    asking = client_for(server)
    await asking.warm()
    await put(asking, request_of(HELLO))
    assert [request.method for request in server.requests] == ["POST"]


async def test_other_dialects_know_no_websockets(serve, client) -> None:
    async def chat(peer: Any) -> None:
        await peer.begin_sse()
        await peer.chunk(b'data: {"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n')
        await peer.end()

    server = await serve(chat)
    await put(client(server, wire_api="chat"), request_of(HELLO))
    assert [request.method for request in server.requests] == ["POST"]


async def test_a_proxy_that_passes_on_requests_is_not_asked_for_a_connection(serve, client, answer) -> None:
    proxy = await serve(answer)
    environ = {"http_proxy": proxy.base_url.removesuffix("/v1")}
    asking = client("http://far.example/v1", environ=environ)
    await asking.warm()
    await put(asking, request_of(HELLO))
    assert [(request.method, request.target) for request in proxy.requests] == [
        ("POST", "http://far.example/v1/responses")
    ]


async def test_a_server_that_cannot_be_reached_is_told_of_as_ever(client) -> None:
    with pytest.raises(StreamDropped, match="Connection failed"):
        await put(client("http://127.0.0.1:1/v1"), request_of(HELLO))


async def test_a_handshake_that_fails_while_nobody_asks_yet_is_no_trouble(serve, client, answer) -> None:
    server = await serve(refusal(404), answer)
    asking = client(server)
    await asking.warm()
    events = await put(asking, request_of(HELLO))
    assert [request.method for request in server.requests] == ["GET", "POST"]
    assert isinstance(events[0], Notice)


# ---- frames --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536])
def test_frames_are_masked_and_say_their_length(size: int) -> None:
    data = bytes(range(256)) * (size // 256 + 1)
    data = data[:size]
    sent = frame(2, data, b"\x01\x02\x03\x04")
    head = {True: 2, False: 4}[size < 126] if size < 65536 else 10
    assert sent[head : head + 4] == b"\x01\x02\x03\x04"
    assert bytes(byte ^ (at % 4 + 1) for at, byte in enumerate(sent[head + 4 :])) == data
    # Taken for a server's, without the mask, it is read as it was written, however it is cut.
    unmasked = bytes((sent[0], sent[1] & 0x7F)) + sent[2:head] + data
    reader = FrameReader(1 << 20)
    pieces = [message for byte in unmasked for message in reader.feed(bytes((byte,)))]
    assert pieces == [(2, data)]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (b"\x81\x80\x00\x00\x00\x00", "masked"),
        (b"\xc1\x00", "extension"),
        (b"\x83\x00", "unknown kind"),
        (b"\x80\x00", "mixed up"),
        (b"\x01\x01a\x81\x01b", "mixed up"),
        (b"\x09\x00", "in parts"),
        (b"\x89\x7e\x00\x80", "too long"),
        (b"\x81\x01\xff", "UTF-8"),
        (b"\x01\x01\xc3\x80\x01\x28", "UTF-8"),
    ],
)
def test_what_breaks_the_rules_is_not_read(wrong: bytes, why: str) -> None:
    with pytest.raises(BadFrame, match=why):
        FrameReader(1000).feed(wrong)


def test_a_message_in_parts_is_limited_as_a_whole() -> None:
    reader = FrameReader(10)
    reader.feed(b"\x01\x06abcdef")
    with pytest.raises(EventTooLarge):
        reader.feed(b"\x80\x06ghijkl")
