"""A model server for tests: speaks enough of the three wires over real HTTP, and does what a script says.

    with FakeServer() as server:
        server.script(turn(call("exec_command", {"cmd": "true"}, "c1")), turn(message("done")))
        ...run something against server.base_url...
        server.requests[0].json["input"]

The n-th `POST …/responses` gets the n-th turn, later ones a plain message "done". The server runs in a thread of
its own, so a test may block. Requests to other paths are recorded and answered 404, or as `pages` says.
`POST …/chat/completions` and `POST …/messages` get the same turns in their own dialect (`fake_wires`), unless the body
breaks a rule of that dialect (`wire_rules`): then 400, and `problems` says what is wrong.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import fake_wires
import wire_rules

if TYPE_CHECKING:
    import ssl

Event = dict[str, Any]
Item = dict[str, Any]
_ASKING = ("/responses", "/chat/completions", "/messages")
LATER = 10_000  # enough for any test; a scripted wait never outlives the server


@dataclass(frozen=True)
class Received:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes
    arrived_s: float
    """`time.monotonic()` when the last byte of the request was read."""
    connection: int
    """Which TCP connection carried it, counted from 0."""

    @cached_property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, kw_only=True)
class Turn:
    """What the server answers to one request; made by `turn`, `refuses`, `sends_raw`."""

    events: tuple[Event, ...] = ()
    items: tuple[Item, ...] = ()
    """What `events` say, for the other dialects."""
    usage: dict[str, int] = field(default_factory=dict)
    stop: str | None = None
    """Why the model stops, in the words of the other dialects, instead of the right reason."""
    raw: bytes | None = None
    """The exact body of the event stream, instead of `events`."""
    status: int = 200
    body: bytes = b""
    """The body of an answer that is not a stream (`status` other than 200)."""
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    """Silence before the status line."""
    event_delay_s: float = 0.0
    """Silence before each event after the first."""
    hang_after: int | None = None
    """Send this many events, then stay silent with the connection open."""
    drop_after: int | None = None
    """Send this many events, then close the connection."""
    fragment: int | None = None
    """Write the stream in pieces of this many bytes."""
    fragment_delay_s: float = 0.0
    """Silence after each of these pieces."""


Step = Turn | Callable[[Received], Turn]


# Items


def message(text: str, *, item_id: str = "", deltas: int = 1, phase: str | None = None) -> Item:
    """An assistant message that streams in `deltas` pieces."""
    extra = {} if phase is None else {"phase": phase}
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "role": "assistant", "id": item_id, "content": content, **extra, "_deltas": deltas}


def call(name: str, arguments: dict[str, Any] | str, call_id: str) -> Item:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"type": "function_call", "name": name, "arguments": text, "call_id": call_id}


def custom_call(name: str, text: str, call_id: str) -> Item:
    return {"type": "custom_tool_call", "status": "completed", "name": name, "input": text, "call_id": call_id}


def reasoning(summary: str, *, encrypted: str = "sealed", item_id: str = "") -> Item:
    parts = [{"type": "summary_text", "text": summary}]
    return {"type": "reasoning", "id": item_id, "summary": parts, "encrypted_content": encrypted}


# Turns


def turn(
    *items: Item,
    usage: dict[str, int] | None = None,
    response_id: str | None = None,
    end: Event | None = None,
    **how: Any,
) -> Turn:
    """A stream with these items. `end` replaces the closing response.completed; `how` is any field of `Turn`."""
    events = tuple(stream_events(items, usage or {}, response_id, end))
    return Turn(events=events, items=items, usage=usage or {}, **how)


def refuses(status: int, body: dict[str, Any] | str = "", **how: Any) -> Turn:
    """An HTTP error instead of a stream."""
    text = body if isinstance(body, str) else json.dumps(body)
    return Turn(status=status, body=text.encode(), **how)


def sends_raw(stream: bytes, **how: Any) -> Turn:
    """An event stream given byte for byte."""
    return Turn(raw=stream, **how)


def fails(code: str, text: str, **how: Any) -> Turn:
    """A stream that ends in response.failed."""
    response = {"id": "resp_failed", "status": "failed", "error": {"code": code, "message": text}}
    return turn(end={"type": "response.failed", "response": response}, **how)


def stream_events(
    items: tuple[Item, ...], usage: dict[str, int], response_id: str | None, end: Event | None
) -> list[Event]:
    name = response_id or "resp_fake"
    events: list[Event] = [{"type": "response.created", "response": {"id": name}}]
    for index, scripted in enumerate(items):
        item = {key: value for key, value in scripted.items() if not key.startswith("_")}
        prefix = {"message": "msg", "function_call": "fc", "custom_tool_call": "ctc", "reasoning": "rs"}
        item["id"] = item.get("id") or f"{prefix.get(item['type'], 'it')}_{name}_{index}"
        events += item_events(item, index, scripted.get("_deltas", 1))
    return [*events, end or completed(name, usage)]


def item_events(item: Item, index: int, deltas: int) -> list[Event]:
    place = {"output_index": index, "item_id": item["id"]}
    opened: Item = item
    between: list[Event] = []
    if item["type"] == "message":
        opened = {**item, "content": []}
        text: str = item["content"][0]["text"]
        size = max(1, -(-len(text) // deltas))
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        between = [
            {"type": "response.output_text.delta", **place, "content_index": 0, "delta": piece} for piece in pieces
        ]
    elif item["type"] == "reasoning":
        opened = {**item, "summary": [], "encrypted_content": None}
        for number, part in enumerate(item["summary"]):
            at = {**place, "summary_index": number}
            between += [
                {"type": "response.reasoning_summary_part.added", **at, "part": {"type": "summary_text", "text": ""}},
                {"type": "response.reasoning_summary_text.delta", **at, "delta": part["text"]},
            ]
    return [
        {"type": "response.output_item.added", "output_index": index, "item": opened},
        *between,
        {"type": "response.output_item.done", "output_index": index, "item": item},
    ]


def completed(response_id: str, usage: dict[str, int]) -> Event:
    counts = {"input": 100, "cached": 0, "output": 10, "reasoning": 0, **usage}
    return {
        "type": "response.completed",
        "response": {
            "id": response_id,
            "usage": {
                "input_tokens": counts["input"],
                "input_tokens_details": {"cached_tokens": counts["cached"]},
                "output_tokens": counts["output"],
                "output_tokens_details": {"reasoning_tokens": counts["reasoning"]},
                "total_tokens": counts.get("total", counts["input"] + counts["output"]),
            },
        },
    }


def encode_event(event: Event) -> bytes:
    data = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
    return f"event: {event['type']}\ndata: {data}\n\n".encode()


# The server


class FakeServer:
    def __init__(self, *, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[Received] = []
        """Every request, in order of arrival."""
        self.connections = 0
        """How many TCP connections were accepted."""
        self.port = 0
        self._steps: list[Step] = []
        self._default: Step = turn(message("done"))
        self.problems: list[str] = []
        """What was wrong with requests of the stricter dialects."""
        self.pages: dict[str, Turn] = {}
        """Answers to requests for other paths, by path; what is not here gets 404."""
        self._tls = tls
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._over = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="fake model server", daemon=True)

    def script(self, *steps: Step) -> Self:
        """Add answers to the end of the script. A function gets the request and returns the turn."""
        self._steps += steps
        return self

    def otherwise(self, step: Step) -> Self:
        """The answer after the end of the script."""
        self._default = step
        return self

    @property
    def base_url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}/v1"

    @property
    def turns_asked(self) -> list[Received]:
        """The requests for a model answer, without probes of other paths."""
        return [r for r in self.requests if r.method == "POST" and r.path.split("?")[0].endswith(_ASKING)]

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(10), "the fake server did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0, ssl=self._tls, limit=1 << 26)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._over.wait()
        # First no more connections, then those just accepted come to life; asyncio loses them when it is closed before.
        self._loop.remove_reader(server.sockets[0].fileno())
        await self._let_others_run()
        server.close()
        while True:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            if not others:
                return
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            await self._let_others_run()

    async def _let_others_run(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection, self.connections = self.connections, self.connections + 1
        try:
            while (received := await self._read(reader, writer, connection)) is not None:
                self.requests.append(received)
                if not await self._answer(received, writer):
                    break
        except asyncio.CancelledError:
            writer.transport.abort()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _read(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: int
    ) -> Received | None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return None
        start, *lines = head.decode("latin-1").split("\r\n")
        method, path, _ = start.split(" ", 2)
        headers = {name.strip().lower(): value.strip() for name, _, value in (x.partition(":") for x in lines) if name}
        if headers.get("expect", "").lower() == "100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if headers.get("transfer-encoding", "").lower() == "chunked":
            body = await self._read_chunks(reader)
        else:
            body = await reader.readexactly(int(headers.get("content-length", "0")))
        return Received(method, path, headers, body, time.monotonic(), connection)

    async def _read_chunks(self, reader: asyncio.StreamReader) -> bytes:
        body = bytearray()
        while size := int((await reader.readline()).split(b";")[0], 16):
            body += await reader.readexactly(size)
            await reader.readline()
        await reader.readline()
        return bytes(body)

    async def _answer(self, received: Received, writer: asyncio.StreamWriter) -> bool:
        """Send the scripted answer; False when the connection must not be used again."""
        path = received.path.split("?")[0]
        if received.method != "POST" or not path.endswith(_ASKING):
            # 426 is how a server without WebSockets answers a client that asks for one.
            wants_websocket = received.headers.get("upgrade", "").lower() == "websocket"
            missing = Turn(status=426 if wants_websocket else 404, body=b"{}")
            await self._send_whole(writer, self.pages.get(path, missing))
            return True
        if wrong := problems_of(path, received):
            self.problems += wrong
            refused = {"type": "error", "error": {"type": "invalid_request_error", "message": "; ".join(wrong)}}
            await self._send_whole(writer, refuses(400, refused))
            return True
        step = self._steps.pop(0) if self._steps else self._default
        answer = step if isinstance(step, Turn) else step(received)
        if answer.delay_s:
            await asyncio.sleep(answer.delay_s)
        if answer.status != 200:
            await self._send_whole(writer, answer)
            return True
        return await self._send_stream(writer, answer, path)

    async def _send_whole(self, writer: asyncio.StreamWriter, answer: Turn) -> None:
        headers = {"content-type": "application/json", "content-length": str(len(answer.body)), **answer.headers}
        writer.write(head_bytes(answer.status, headers) + answer.body)
        await writer.drain()

    async def _send_stream(self, writer: asyncio.StreamWriter, answer: Turn, path: str) -> bool:
        headers = {"content-type": "text/event-stream", "transfer-encoding": "chunked", **answer.headers}
        writer.write(head_bytes(200, headers))
        frames = frames_of(answer, path)
        for number, frame in enumerate(frames):
            if number == answer.drop_after:
                return False
            if number == answer.hang_after:
                await asyncio.sleep(LATER)
            if number and answer.event_delay_s:
                await asyncio.sleep(answer.event_delay_s)
            size = answer.fragment or len(frame) or 1
            for at in range(0, len(frame), size):
                piece = frame[at : at + size]
                writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                if answer.fragment:
                    await writer.drain()
                    await asyncio.sleep(answer.fragment_delay_s)
        if answer.drop_after is not None and answer.drop_after >= len(frames):
            return False
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


def problems_of(path: str, received: Received) -> list[str]:
    """What the server of a dialect has against a request."""
    if path.endswith("/messages"):
        return wire_rules.messages_problems(received.json)
    return wire_rules.chat_problems(received.json) if path.endswith("/chat/completions") else []


def frames_of(answer: Turn, path: str) -> list[bytes]:
    """The events of a turn as they are sent, in the dialect that the path names."""
    if answer.raw is not None:
        return [answer.raw]
    if path.endswith("/messages"):
        events = fake_wires.messages_events(answer.items, answer.usage, stop=answer.stop)
        return [fake_wires.encode_frame(event) for event in events]
    if path.endswith("/chat/completions"):
        chunks = fake_wires.chat_chunks(answer.items, answer.usage, finish=answer.stop)
        return [fake_wires.encode_frame(chunk) for chunk in chunks]
    return [encode_event(event) for event in answer.events]


def head_bytes(status: int, headers: dict[str, str]) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} Scripted\r\n{lines}\r\n".encode("latin-1")
