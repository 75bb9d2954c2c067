"""A small HTTP/1.1 client: sends a request, hands out the answer's body as it arrives. It does not follow redirects.

Which connection a request gets, and how that is opened (TLS, proxies), is in `pool`; how an answer is taken apart while
it arrives, in `connection`. What a status means is not decided here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from spindle.errors import ConfigError
from spindle.model.connection import Connection, PeerClosed
from spindle.model.pool import CONNECT_TIMEOUT_S, Pool
from spindle.model.proxy import proxy_for
from spindle.model.tls import TlsFiles
from spindle.model.url import Url, basic_auth

JOIN_MAX_BYTES = 64 * 1024


class HttpClient:
    """The requests of one session. Concurrent ones get connections of their own; one per server is kept."""

    def __init__(
        self,
        *,
        tls: TlsFiles | None = None,
        environ: Mapping[str, str] | None = None,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
    ) -> None:
        self._environ = environ
        self._pool = Pool(tls or TlsFiles(), environ, connect_timeout_s)

    async def request(
        self,
        method: str,
        url: Url,
        headers: Mapping[str, str],
        body: bytes | bytearray = b"",
        *,
        timeout_s: float,
        may_upgrade: bool = False,
    ) -> Response:
        """Send, and wait up to `timeout_s` for the head of the answer. Raises `TransportError`.

        `may_upgrade`: the headers ask for another protocol; status 101 is an answer then (`Response.take_over`).
        """
        head = _head(method, url, headers, len(body), self._environ)
        connection = await self._pool.take(url)
        while True:
            try:
                connection.begin(may_upgrade=may_upgrade)
                _write(connection.transport, head, body)
                await connection.head(timeout_s)
                self._pool.newest[url.origin] = connection
                return Response.of(connection)
            except BaseException as error:
                connection.abort()
                # A server may close a kept connection just as we take it: that says nothing about this request.
                is_stale = connection.may_be_stale and not connection.has_answer_bytes
                if not isinstance(error, PeerClosed) or not is_stale:
                    raise
            connection = await self._pool.connect(url)

    async def warm(self, url: Url) -> None:
        """Open the connection that the next request to `url` will take. Failures show up there."""
        await self._pool.warm(url)

    async def aclose(self) -> None:
        """Close every connection, used or not."""
        await self._pool.aclose()


class Response:
    """An answer: its head, and its body to be read. End with `release` or `close`; `close` is always safe."""

    is_framed = False
    """Each chunk is one event; else the body is a stream of bytes."""
    starts_over = False
    """The server only wants to be told everything once more."""

    @staticmethod
    def of(connection: Connection) -> Response:
        """The answer that has begun."""
        encoding = connection.headers.get("content-encoding", "").strip().lower()
        if encoding in ("", "identity"):
            return Response(connection)
        from spindle.model.inflating import InflatedResponse  # only for servers that compress

        return InflatedResponse(connection, encoding)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._is_over = False
        self.status = connection.status
        self.headers = connection.headers

    async def chunk(self, deadline: float) -> bytes:
        """The next bytes of the body; b"" at its end. Raises `TransportError`; `deadline` is in loop time."""
        while not self._is_over:
            data = self._connection.take()
            if data:
                return data
            if data is None:
                self._is_over = True
            else:
                await self._connection.wait(deadline)
        return b""

    async def read(self, max_bytes: int, timeout_s: float) -> bytes:
        """The whole body, or its first `max_bytes`. `timeout_s` is for all of it."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        parts: list[bytes] = []
        size = 0
        while size < max_bytes and (data := await self.chunk(deadline)):
            parts.append(data)
            size += len(data)
        return b"".join(parts)[:max_bytes]

    def release(self) -> None:
        """Keep the connection for the next request; what is left of the body is thrown away as it arrives."""
        if not self._is_over:
            self._is_over = True
            self._connection.release()

    def take_over(self) -> Connection:
        """The connection itself, after the server has agreed (101) to speak another protocol on it."""
        self._is_over = True
        return self._connection

    def close(self) -> None:
        """Close the connection at once, unless the body was read to its end or released."""
        if not self._is_over:
            self._is_over = True
            self._connection.abort()


def _write(transport: asyncio.Transport, head: bytes, body: bytes | bytearray) -> None:
    if len(body) <= JOIN_MAX_BYTES:
        transport.write(head + body)
        return
    transport.write(head)
    # TLS keeps what it could not send yet by reference, and a bytearray will be changed by its owner.
    is_tls = transport.get_extra_info("ssl_object") is not None
    # A view, because a transport that cannot send all at once slices what it was given.
    transport.write(bytes(body) if is_tls else memoryview(body))


def _head(
    method: str, url: Url, headers: Mapping[str, str], body_bytes: int, environ: Mapping[str, str] | None
) -> bytes:
    """How a request begins."""
    target = url.target
    fields = {"host": url.authority, "accept-encoding": "identity"}
    proxy = proxy_for(url, environ) if url.scheme == "http" else None
    if proxy is not None:
        target = str(url)
        if proxy.userinfo:
            fields["proxy-authorization"] = basic_auth(proxy.userinfo)
    if url.userinfo and "authorization" not in headers:
        fields["authorization"] = basic_auth(url.userinfo)
    if body_bytes or method != "GET":
        fields["content-length"] = str(body_bytes)
    lines = [f"{method} {target} HTTP/1.1"]
    for name, value in (*fields.items(), *headers.items()):
        if not name.isascii() or not name.isprintable() or ":" in name or " " in name:
            raise ConfigError(f"{name!r} cannot be the name of a header")
        if not value.isprintable() and any(sign in value for sign in "\r\n\0"):
            raise ConfigError(f"the value of header {name} holds a line break")
        lines.append(f"{name}: {value}")
    return "\r\n".join([*lines, "", ""]).encode()
