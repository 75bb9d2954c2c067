"""The HTTP client against real sockets: kept connections, limits, cancellation, framing."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import socket
import zlib
from typing import Any

import pytest

from spindle.errors import ModelError, StreamDropped
from spindle.model.client import Completed, Created
from spindle.model.connection import HEAD_MAX_BYTES, BadResponse, PeerClosed
from spindle.model.http import HttpClient
from spindle.model.url import parse_url

CREATED = {"type": "response.created", "response": {"id": "r"}}
DONE = {"type": "response.completed", "response": {"id": "r"}}
ANSWER = [Created("r"), Completed("r")]


def sse(*events: dict[str, Any]) -> bytes:
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


@pytest.fixture
async def http():
    client = HttpClient(environ={})
    yield client
    await client.aclose()


async def fetch(http: HttpClient, server, timeout_s: float = 5) -> tuple[int, bytes]:
    response = await http.request("GET", parse_url(server.base_url), {}, timeout_s=timeout_s)
    try:
        return response.status, await response.read(1_000_000, timeout_s)
    finally:
        response.close()


# ---- the kept connection ---------------------------------------------------------------------------


async def test_many_requests_share_one_connection(serve, client_for, ask, answer) -> None:
    server = await serve(answer)
    client = client_for(server)
    for _ in range(5):
        assert await ask(client) == ANSWER
    assert (server.connections, len(server.requests)) == (1, 5)


async def test_the_connection_is_kept_when_the_end_of_the_stream_comes_late(serve, client_for, ask) -> None:
    async def late(peer) -> None:
        await peer.begin_sse()
        await peer.event(DONE)
        await asyncio.sleep(0.05)
        await peer.event({"type": "response.epilogue"})
        await peer.end()

    server = await serve(late)
    client = client_for(server)
    for _ in range(3):
        assert await ask(client) == [Completed("r")]
    assert server.connections == 1


async def test_a_server_that_never_ends_its_stream_costs_a_connection_but_no_answer(serve, client_for, ask) -> None:
    async def endless(peer) -> None:
        await peer.begin_sse()
        await peer.event(DONE)
        await asyncio.sleep(60)

    server = await serve(endless)
    client = client_for(server)
    async with asyncio.timeout(3):
        for _ in range(2):
            assert await ask(client) == [Completed("r")]
    assert server.connections == 2


async def test_a_connection_the_server_closed_while_idle_is_replaced(serve, client_for, ask, answer) -> None:
    async def closing(peer) -> None:
        await answer(peer)
        peer.writer.close()

    server = await serve(closing)
    client = client_for(server)
    for _ in range(3):
        assert await ask(client) == ANSWER
        await asyncio.sleep(0.02)
    assert server.connections == 3


async def test_a_request_lost_on_a_stale_connection_is_sent_again_without_counting(
    serve, client_for, ask, answer
) -> None:
    async def gone(peer) -> None:
        peer.cut()

    server = await serve(answer, gone, answer)
    client = client_for(server, request_max_retries=0)
    assert await ask(client) == ANSWER
    assert await ask(client) == ANSWER
    assert (server.connections, len(server.requests)) == (2, 3)


async def test_a_kept_connection_that_breaks_within_an_answer_is_no_stale_one(serve, client_for, ask, answer) -> None:
    async def begins(peer) -> None:
        await peer.send(b"HTTP/1.1 200")
        await asyncio.sleep(0.05)
        peer.cut()

    server = await serve(answer, begins, answer)
    client = client_for(server, request_max_retries=0)
    assert await ask(client) == ANSWER
    with pytest.raises(StreamDropped, match=r"^Connection failed: "):
        await ask(client)
    assert len(server.requests) == 2


async def test_a_request_lost_on_a_fresh_connection_is_an_error(serve, client_for, ask) -> None:
    async def gone(peer) -> None:
        peer.cut()

    server = await serve(gone)
    with pytest.raises(StreamDropped, match=r"^Connection failed: "):
        await ask(client_for(server, request_max_retries=0))
    assert len(server.requests) == 1


async def test_an_answer_that_says_close_is_not_followed_on_the_same_connection(serve, client_for, ask) -> None:
    async def closing(peer) -> None:
        await peer.stream(DONE, headers={"connection": "close"})

    server = await serve(closing)
    client = client_for(server)
    await ask(client)
    await ask(client)
    assert server.connections == 2


@pytest.mark.parametrize("pause_s", [0, 0.03])
async def test_bytes_nobody_asked_for_end_the_connection(serve, client_for, ask, pause_s: float) -> None:
    async def chatty(peer) -> None:
        await peer.stream(DONE)
        await asyncio.sleep(pause_s)
        await peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nsmugg")

    server = await serve(chatty)
    client = client_for(server)
    for _ in range(2):
        assert await ask(client) == [Completed("r")]
        await asyncio.wait_for(server.closed_by_client.wait(), 20)
        server.closed_by_client.clear()
    assert server.connections == 2


async def test_concurrent_requests_do_not_wait_for_each_other(serve, client_for, ask) -> None:
    both = asyncio.Barrier(2)

    async def together(peer) -> None:
        await both.wait()
        await peer.stream(DONE)

    server = await serve(together)
    client = client_for(server)
    assert await asyncio.gather(ask(client), ask(client)) == [[Completed("r")]] * 2
    assert server.connections == 2


async def test_a_warm_connection_is_used_by_the_first_request(serve, client_for, ask, answer) -> None:
    server = await serve(answer)
    client = client_for(server)
    await client.warm()
    assert await ask(client) == ANSWER
    assert server.connections == 1


async def test_a_request_during_the_warm_up_shares_its_connection(serve, client_for, ask, answer) -> None:
    server = await serve(answer)
    client = client_for(server)
    warming = asyncio.ensure_future(client.warm())
    await asyncio.sleep(0)
    assert await ask(client) == ANSWER
    await warming
    assert server.connections == 1


async def test_a_cancelled_warm_up_leaves_nothing_behind(serve, client_for, ask, answer) -> None:
    server = await serve(answer)
    client = client_for(server)
    warming = asyncio.ensure_future(client.warm())
    await asyncio.sleep(0)
    warming.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await warming
    assert await ask(client) == ANSWER
    assert server.connections == 1


async def test_a_failed_warm_up_is_silent_and_the_request_tells(client_for, ask) -> None:
    client = client_for(f"http://127.0.0.1:{free_port()}/v1")
    await client.warm()
    with pytest.raises(StreamDropped, match=r"^Connection failed: cannot connect to .*: Connection refused$"):
        await ask(client)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


# ---- leaving early ---------------------------------------------------------------------------------


async def test_leaving_in_mid_stream_closes_the_socket(serve, client_for, question) -> None:
    async def slow(peer) -> None:
        await peer.begin_sse()
        await peer.event(CREATED)
        await asyncio.sleep(60)

    server = await serve(slow)
    client = client_for(server)
    async with contextlib.aclosing(client.stream(question)) as events:
        assert await anext(events) == Created("r")
    await asyncio.wait_for(server.closed_by_client.wait(), 5)


@pytest.mark.parametrize("when", ["before the head", "in mid-stream"])
async def test_cancelling_closes_the_socket_and_the_next_request_gets_a_new_one(
    serve, client_for, ask, answer, when: str
) -> None:
    reached = asyncio.Event()

    async def silent(peer) -> None:
        if when == "in mid-stream":
            await peer.begin_sse()
            await peer.event(CREATED)
        reached.set()
        await asyncio.sleep(60)

    server = await serve(silent, answer)
    client = client_for(server)
    asking = asyncio.ensure_future(ask(client))
    await reached.wait()
    await asyncio.sleep(0.02)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await asyncio.wait_for(server.closed_by_client.wait(), 5)
    assert await ask(client) == ANSWER
    assert server.connections == 2


# ---- limits ----------------------------------------------------------------------------------------


async def test_a_server_that_never_answers_is_left_after_the_idle_time(serve, client_for, ask) -> None:
    async def silent(peer) -> None:
        await asyncio.sleep(60)

    server = await serve(silent)
    with pytest.raises(StreamDropped, match=r"idle timeout waiting for the server's answer"):
        await ask(client_for(server, stream_idle_timeout_ms=500, request_max_retries=3))
    assert len(server.requests) == 1
    await asyncio.wait_for(server.closed_by_client.wait(), 5)


async def test_a_head_that_trickles_in_does_not_hold_off_the_limit(serve, client_for, ask) -> None:
    async def loris(peer) -> None:
        await peer.send(b"HTTP/1.1 200 OK\r\n")
        while True:
            await peer.send(b"x: y\r\n")
            await asyncio.sleep(0.02)

    server = await serve(loris)
    with pytest.raises(StreamDropped, match="idle timeout waiting for the server's answer"):
        await ask(client_for(server, stream_idle_timeout_ms=200))


async def test_interim_answers_without_end_are_refused(serve, client_for, ask) -> None:
    async def hesitant(peer) -> None:
        while True:
            await peer.send(b"HTTP/1.1 102 Processing\r\n\r\n" * 1000)

    with pytest.raises(StreamDropped, match="the headers of the server's answer exceed"):
        await ask(client_for(await serve(hesitant)))


async def test_a_slow_upload_is_not_taken_for_a_silent_server(client_for) -> None:
    async def sip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        left = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        while left:
            left -= len(await reader.read(min(left, 150_000)))
            await asyncio.sleep(0.05)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        await writer.drain()
        writer.close()

    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    listener.bind(("127.0.0.1", 0))
    server = await asyncio.start_server(sip, sock=listener, limit=65536)
    try:
        client = client_for(f"http://127.0.0.1:{listener.getsockname()[1]}/v1", stream_idle_timeout_ms=2000)
        assert await client.post_json("/x", b"y" * 12_000_000) == {}
    finally:
        server.close()


async def test_keep_alive_comments_do_not_hold_off_the_idle_limit(serve, client_for, ask) -> None:
    async def loris(peer) -> None:
        await peer.begin_sse()
        await peer.event(CREATED)
        while True:
            await peer.chunk(b": still here\n\n")
            await asyncio.sleep(0.02)

    server = await serve(loris)
    with pytest.raises(StreamDropped, match=r"^stream disconnected before completion: idle timeout waiting for SSE$"):
        await ask(client_for(server, stream_idle_timeout_ms=200))


async def test_pieces_of_one_large_event_hold_off_the_idle_limit(serve, client_for, ask) -> None:
    async def trickle(peer) -> None:
        await peer.begin_sse()
        await peer.chunk(b'data: {"type":"response.completed","filler":"')
        for _ in range(12):
            await asyncio.sleep(0.2)
            await peer.chunk(b"x" * 100)
        await peer.chunk(b'","response":{"id":"r"}}\n\n')
        await peer.end()

    server = await serve(trickle)
    assert await ask(client_for(server, stream_idle_timeout_ms=1500)) == [Completed("r")]


async def test_a_slow_reader_is_not_taken_for_a_silent_server(serve, client_for, question) -> None:
    async def steady(peer) -> None:
        await peer.begin_sse()
        await peer.event(CREATED)
        await asyncio.sleep(1.2)
        await peer.event(DONE)
        await peer.end()

    server = await serve(steady)
    seen = []
    async for event in client_for(server, stream_idle_timeout_ms=1000).stream(question):
        seen.append(event)
        await asyncio.sleep(1.4)
    assert seen == ANSWER


async def test_connecting_has_a_limit_of_its_own(client_for, ask) -> None:
    with socket.socket() as full:
        # A queue of one that nobody empties: once it is full, further connections hang in the handshake.
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        fillers = []
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
            fillers.append(filler)
        try:
            client = client_for(f"http://127.0.0.1:{port}/v1", options={"connect_timeout_s": 0.2})
            with pytest.raises(StreamDropped, match=r"Connection failed: no connection to .* within 0.2 s"):
                await ask(client)
        finally:
            for filler in fillers:
                filler.close()


async def test_headers_without_end_are_refused(serve, client_for, ask) -> None:
    async def boundless(peer) -> None:
        await peer.send(b"HTTP/1.1 200 OK\r\n")
        for number in range(HEAD_MAX_BYTES // 1000 + 10):
            await peer.send(b"x-%d: " % number + b"y" * 1000 + b"\r\n")

    server = await serve(boundless)
    with pytest.raises(StreamDropped, match=r"stream disconnected before completion: .*(headers|not valid HTTP)"):
        await ask(client_for(server))


async def test_an_event_above_the_limit_is_fatal_and_says_so(serve, client_for, ask) -> None:
    async def huge(peer) -> None:
        await peer.begin_sse()
        for _ in range(20):
            await peer.chunk(b"data: " + b"x" * 1000 + b"\n")

    server = await serve(huge)
    with pytest.raises(ModelError, match=r"^the server sent an event larger than 5000 bytes$"):
        await ask(client_for(server, options={"sse_event_max_bytes": 5000}))


# ---- bodies ----------------------------------------------------------------------------------------


async def test_an_answer_split_at_every_byte_is_read(serve, client_for, ask) -> None:
    body = b"".join(b"1\r\n%c\r\n" % byte for byte in sse(CREATED, DONE)) + b"0\r\n\r\n"
    raw = b"HTTP/1.1 200 OK\r\nX-Codex-Primary-Used-Percent: 5\r\nTransfer-Encoding: chunked\r\n\r\n" + body

    async def bytewise(peer) -> None:
        peer.writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in raw:
            await peer.send(bytes([byte]))
            await asyncio.sleep(0)

    server = await serve(bytewise)
    client = client_for(server)
    assert (await ask(client))[1:] == ANSWER
    assert (await ask(client))[1:] == ANSWER
    assert server.connections == 1


async def test_a_body_that_ends_with_the_connection_is_read(serve, http) -> None:
    async def until_eof(peer) -> None:
        await peer.send(b"HTTP/1.1 200 OK\r\n\r\nall of it")
        peer.writer.close()

    assert await fetch(http, await serve(until_eof)) == (200, b"all of it")


async def test_interim_answers_are_skipped(serve, client_for, ask) -> None:
    async def hesitant(peer) -> None:
        await peer.send(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n")
        await peer.stream(DONE)

    assert await ask(client_for(await serve(hesitant))) == [Completed("r")]


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "raw deflate"])
async def test_compressed_answers_are_tolerated(serve, client_for, ask, encoding: str) -> None:
    plain = sse(CREATED, DONE)
    body = gzip.compress(plain) if encoding == "gzip" else zlib.compress(plain)
    if encoding == "raw deflate":
        body = body[2:-4]

    async def compressed(peer) -> None:
        await peer.begin_sse({"content-encoding": encoding.removeprefix("raw ")})
        for byte in body:
            await peer.chunk(bytes([byte]))
        await peer.end()

    server = await serve(compressed)
    assert await ask(client_for(server)) == ANSWER
    assert server.requests[0].headers["accept-encoding"] == "identity"


async def test_an_encoding_we_do_not_know_is_named(serve, http) -> None:
    async def brotli(peer) -> None:
        await peer.reply(200, b"xx", {"content-encoding": "br"})

    with pytest.raises(BadResponse, match=r"encoded as br"):
        await fetch(http, await serve(brotli))


async def test_a_body_cut_short_is_an_error_after_what_arrived(serve, http) -> None:
    async def short(peer) -> None:
        await peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc")
        await asyncio.sleep(0.02)
        peer.writer.close()

    with pytest.raises(PeerClosed, match=r"in the middle of its answer"):
        await fetch(http, await serve(short))


async def test_what_is_not_http_is_an_error(serve, http) -> None:
    async def other(peer) -> None:
        await peer.send(b"SSH-2.0-OpenSSH_9.9\r\n")

    with pytest.raises(BadResponse, match=r"not valid HTTP"):
        await fetch(http, await serve(other))


async def test_a_large_body_goes_out_whole(serve, client_for) -> None:
    body = b'{"x":"' + b"y" * 3_000_000 + b'"}'

    async def plain(peer) -> None:
        await peer.reply(200, {"bytes": len(peer.request.body)})

    client = client_for(await serve(plain))
    assert await client.post_json("/responses/compact", body) == {"bytes": len(body)}


async def test_more_than_the_buffer_holds_is_read_without_loss(serve, http) -> None:
    block = bytes(range(256)) * 256

    async def much(peer) -> None:
        await peer.begin_sse()
        for _ in range(64):
            await peer.chunk(block)
        await peer.end()

    server = await serve(much)
    response = await http.request("GET", parse_url(server.base_url), {}, timeout_s=5)
    await asyncio.sleep(0.1)
    assert await response.read(10_000_000, 5) == block * 64


@pytest.mark.parametrize("value", ["a\r\nx-evil: 1", "a\nb", "nul\0"])
async def test_a_header_cannot_carry_a_second_one(client_for, ask, value: str) -> None:
    with pytest.raises(ModelError, match=r"header X-Team holds a line break"):
        await ask(client_for("http://127.0.0.1:9/v1", http_headers={"X-Team": value}))
