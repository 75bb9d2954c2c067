"""A real HTTP server in the test's own event loop, under the test's full control, and clients for it."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from spindle.model.client import ModelEvent, TurnState
from spindle.model.credential import Credential, StaticCredential
from spindle.model.endpoint import Endpoint
from spindle.model.headers import Identity
from spindle.model.provider import Provider
from spindle.model.remote import RemoteModel
from spindle.protocol.clock import FixedClock
from spindle.protocol.request import Request, VisibleItem

QUESTION = Request(
    model="gpt-5.2-codex",
    instructions=b'"base"',
    items=[VisibleItem.of({"type": "message"})],
    tools=b"[]",
    prompt_cache_key="T",
)


OF_CLIENT = ("sse_event_max_bytes", "end_patience_s")


class Received:
    """One request as it arrived."""

    def __init__(self, line: str, headers: dict[str, str], body: bytes) -> None:
        self.method, self.target, _ = line.split(" ", 2)
        self.headers = headers
        self.body = body


class Peer:
    """The server's end of one exchange."""

    def __init__(self, request: Received, writer: asyncio.StreamWriter) -> None:
        self.request = request
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def reply(
        self, status: int, body: bytes | dict[str, Any] = b"", headers: dict[str, str] | None = None
    ) -> None:
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        fields = {"content-length": str(len(data)), **(headers or {})}
        await self.send(_head(status, fields) + data)

    async def begin_sse(self, headers: dict[str, str] | None = None) -> None:
        await self.send(
            _head(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked", **(headers or {})})
        )

    async def chunk(self, data: bytes) -> None:
        await self.send(b"%x\r\n%b\r\n" % (len(data), data))

    async def event(self, event: dict[str, Any]) -> None:
        await self.chunk(b"data: " + json.dumps(event).encode() + b"\n\n")

    async def end(self) -> None:
        await self.send(b"0\r\n\r\n")

    async def stream(self, *events: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        await self.begin_sse(headers)
        for event in events:
            await self.event(event)
        await self.end()

    def cut(self) -> None:
        self.writer.transport.abort()


Handler = Callable[[Peer], Awaitable[None]]


def _head(status: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode()


class LocalServer:
    """Gives the n-th request to the n-th handler, and those beyond to the last one."""

    def __init__(self, *handlers: Handler, tls: ssl.SSLContext | None = None) -> None:
        self._handlers = list(handlers)
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.connections = 0
        self.closed_by_client = asyncio.Event()
        self.requests: list[Received] = []

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls, limit=2**22)
        self.port = self._server.sockets[0].getsockname()[1]

    @property
    def base_url(self) -> str:
        return f"{'https' if self._tls else 'http'}://{'localhost' if self._tls else '127.0.0.1'}:{self.port}/v1"

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            while (request := await _read_request(reader)) is not None:
                self.requests.append(request)
                handler = self._handlers.pop(0) if len(self._handlers) > 1 else self._handlers[0]
                await self._handle(handler, Peer(request, writer), reader)
                if writer.transport.is_closing():
                    return
            self.closed_by_client.set()
        except ConnectionError:
            self.closed_by_client.set()
        finally:
            writer.transport.abort()

    async def _handle(self, handler: Handler, peer: Peer, reader: asyncio.StreamReader) -> None:
        """Run the handler, and notice when the client goes away meanwhile."""
        work = asyncio.ensure_future(handler(peer))
        watch = asyncio.ensure_future(_until_eof(reader))
        try:
            await asyncio.wait([work, watch], return_when=asyncio.FIRST_COMPLETED)
            if watch.done() and not work.done():
                self.closed_by_client.set()
            elif work.done():
                await work
        finally:
            for task in (work, watch):
                task.cancel()
            await asyncio.gather(work, watch, return_exceptions=True)


async def _until_eof(reader: asyncio.StreamReader) -> None:
    while not (reader.at_eof() or reader.exception()):
        await asyncio.sleep(0.01)


async def _read_request(reader: asyncio.StreamReader) -> Received | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    line, *rest = head[:-4].split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (field.partition(":") for field in rest)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Received(line, headers, body)


@pytest.fixture
async def serve() -> AsyncIterator[Callable[..., Awaitable[LocalServer]]]:
    """Start a server with the given handlers."""
    servers: list[LocalServer] = []

    async def start(*handlers: Handler, tls: ssl.SSLContext | None = None) -> LocalServer:
        server = LocalServer(*handlers, tls=tls)
        await server.start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        await server.stop()


@pytest.fixture
async def client_for() -> AsyncIterator[Callable[..., RemoteModel]]:
    """A client for a server; keyword arguments go to the provider, but for `credential`, `environ`, `options`."""
    clients: list[RemoteModel] = []

    def make(
        server: LocalServer | str,
        *,
        credential: Credential | None = None,
        environ: dict[str, str] | None = None,
        options: dict[str, Any] | None = None,
        identity: Identity | None = None,
        **fields: Any,
    ) -> RemoteModel:
        base_url = server if isinstance(server, str) else server.base_url
        settings = {"id": "lab", "name": "Lab", "request_max_retries": 0, "base_url": base_url, **fields}
        given = options or {}
        endpoint = Endpoint(
            Provider(**settings),
            credential or StaticCredential("sk-live-0123456789"),
            identity or Identity(thread_id="T", version="1.2.3"),
            environ={} if environ is None else environ,
            **{name: value for name, value in given.items() if name not in OF_CLIENT},
        )
        of_client = {name: value for name, value in given.items() if name in OF_CLIENT}
        client = RemoteModel(endpoint, FixedClock(), **of_client)
        clients.append(client)
        return client

    yield make
    for client in clients:
        await client.aclose()


@pytest.fixture
def question() -> Request:
    return QUESTION


@pytest.fixture
def ask() -> Callable[..., Awaitable[list[ModelEvent]]]:
    """All events of one response."""

    async def run(client: RemoteModel, turn_state: TurnState | None = None) -> list[ModelEvent]:
        return [event async for event in client.stream(QUESTION, turn_state)]

    return run


def completed(response_id: str = "r", **fields: Any) -> dict[str, Any]:
    return {"type": "response.completed", "response": {"id": response_id, **fields}}


@pytest.fixture
def answer() -> Handler:
    """A handler that completes at once, with nothing said."""

    async def handler(peer: Peer) -> None:
        await peer.stream({"type": "response.created", "response": {"id": "r"}}, completed())

    return handler
