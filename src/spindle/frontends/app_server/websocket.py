"""`--listen ws://HOST:PORT`: many clients over WebSockets. To reach the port is not enough.

A client must know the token; the server rejects a page in a browser, which sends an Origin, and a request whose Host
is not where it listens (a foreign name that leads to this machine). Loopback only, unless the user says otherwise.
"""

from __future__ import annotations

import asyncio
import hmac
import http
import sys
from typing import Any
from urllib.parse import urlsplit

from spindle.errors import SpindleError, UsageError
from spindle.frontends.app_server.connection import Connection
from spindle.frontends.app_server.server import Server
from spindle.frontends.stdio import MAX_LINE_BYTES

MAX_CLIENTS = 32
LOOPBACK = ("127.0.0.1", "localhost", "::1")
_LAST_WRITE_S = 1.0
_GOODBYE_S = 60.0
"""How long a client that was dropped may take to find out why."""
_TRY_AGAIN_LATER = 1013


def address_of(url: str, *, may_be_remote: bool) -> tuple[str, int]:
    """Host and port of a ws:// URL."""
    parts = urlsplit(url)
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if host is None or port is None or parts.path.strip("/") or parts.query or parts.username:
        raise UsageError(f"--listen {url}: use stdio:// or ws://HOST:PORT")
    if host not in LOOPBACK and not may_be_remote:
        raise UsageError(f"--listen {url}: other machines could connect; use 127.0.0.1, or add --allow-remote")
    return host, port


class Doorkeeper:
    """Looks at a request before it becomes a connection."""

    def __init__(self, host: str, port: int, token: str) -> None:
        names = {host, *LOOPBACK} if host in LOOPBACK else {host}
        self._hosts = {f"[{name}]:{port}" if ":" in name else f"{name}:{port}" for name in names}
        self._token = token

    def refusal(self, headers: Any) -> tuple[http.HTTPStatus, str] | None:
        """Why this request is turned away; None if it is let in."""
        hosts, origins, given = (headers.get_all(name) for name in ("Host", "Origin", "Authorization"))
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return http.HTTPStatus.FORBIDDEN, "this host name is not served here\n"
        if origins:
            return http.HTTPStatus.FORBIDDEN, "web pages are not served here\n"
        wanted = f"Bearer {self._token}".encode()
        if len(given) != 1 or not hmac.compare_digest(given[0].encode("utf-8", "replace"), wanted):
            return http.HTTPStatus.UNAUTHORIZED, "the token is missing or wrong\n"
        return None


async def serve(server: Server, host: str, port: int, token: str, ended: asyncio.Event) -> None:
    """Serve clients until `ended` is set."""
    try:
        from websockets.asyncio.server import serve as listen  # only if somebody listens
    except ImportError:
        raise SpindleError("ws:// needs the package websockets: pip install 'spindle-agent[ws]'") from None

    clients: set[Any] = set()
    keeper: list[Doorkeeper] = []

    def look(ws: Any, request: Any) -> Any:
        if (refusal := keeper[0].refusal(request.headers)) is not None:
            return ws.respond(*refusal)
        if len(clients) >= MAX_CLIENTS:
            return ws.respond(http.HTTPStatus.SERVICE_UNAVAILABLE, "too many clients\n")
        return None

    async def handle(ws: Any) -> None:
        clients.add(ws)
        try:
            await _converse(server, ws)
        except asyncio.CancelledError:
            pass  # the server ends
        finally:
            clients.discard(ws)

    try:
        listener = await listen(
            handle,
            host,
            port,
            process_request=look,
            max_size=MAX_LINE_BYTES,
            server_header=None,
            compression=None,  # on one machine it costs time and memory for nothing
        )
    except OSError as error:
        raise SpindleError(f"ws://{host}:{port} cannot be listened on: {error.strerror}") from error
    bound = next(iter(listener.sockets)).getsockname()[1]
    keeper.append(Doorkeeper(host, bound, token))
    shown = f"[{host}]" if ":" in host else host
    print(f"app-server: listening on ws://{shown}:{bound}", file=sys.stderr, flush=True)
    await ended.wait()
    await server.close()
    # Those who read are told that it ends; nobody waits for those who do not.
    listener.close()
    closed = asyncio.ensure_future(listener.wait_closed())
    await asyncio.wait([closed], timeout=_LAST_WRITE_S)
    for ws in clients:
        ws.transport.abort()
    closed.cancel()


async def _converse(server: Server, ws: Any) -> None:
    """One client from its first message to its last."""
    from websockets.exceptions import ConnectionClosed  # an optional package

    async def write(lines: list[bytes]) -> None:
        try:
            for line in lines:
                await ws.send(line.decode().removesuffix("\n"))
        except ConnectionClosed as error:
            raise BrokenPipeError from error

    async def read() -> None:
        try:
            async for message in ws:
                connection.receive(message.encode() if isinstance(message, str) else message)
                await connection.outbox.room()
        except ConnectionClosed:
            pass

    connection = Connection(server, write)
    outbox = connection.outbox
    server.connections.append(connection)
    writer = asyncio.ensure_future(outbox.run())
    reader = asyncio.ensure_future(read())
    try:
        await asyncio.wait([reader, outbox.overrun], return_when=asyncio.FIRST_COMPLETED)
    finally:
        reader.cancel()
        await connection.finish()
        server.leave(connection)
        outbox.close()
        if not outbox.overrun.done():
            await asyncio.wait([writer], timeout=_LAST_WRITE_S)
        writer.cancel()
        await asyncio.wait([reader, writer])
    if outbox.overrun.done():
        connection.complain(f"a client was dropped: {outbox.overrun.result()}")
        await _turn_out(ws, outbox.overrun.result())


async def _turn_out(ws: Any, reason: str) -> None:
    """Close a client's connection, with the reason as the last thing it finds when it reads again."""
    goodbye = asyncio.ensure_future(ws.close(_TRY_AGAIN_LATER, f"{reason}; reconnect and read the thread again"))
    try:
        await asyncio.wait([goodbye], timeout=_GOODBYE_S)
    finally:
        goodbye.cancel()
        ws.transport.abort()
        await asyncio.wait([goodbye])
