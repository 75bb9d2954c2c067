"""A small HTTP/1.1 client: one kept connection per server, TLS, proxies, limits. It does not follow redirects.

What one connection does is in `connection`; what a status means is not decided here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from spindle.errors import ConfigError, SpindleError
from spindle.model.connection import BadResponse, ConnectFailed, Connection, PeerClosed, TransportError
from spindle.model.proxy import proxy_for
from spindle.model.tls import TlsFiles, tls_context
from spindle.model.url import Url, basic_auth

if TYPE_CHECKING:
    import ssl

CONNECT_TIMEOUT_S = 15.0
DRAIN_WAIT_S = 0.1
"""How long a new request waits for the tail of the one before, so that both share a connection."""
INFLATE_STEP_BYTES = 1024 * 1024


class Response:
    """An answer: its head, and its body to be read. End with `release` or `close`; `close` is always safe."""

    is_framed = False
    """Each chunk is one event; else the body is a stream of bytes."""
    starts_over = False
    """The server only wants to be told everything once more."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._is_over = False
        self.status = connection.status
        self.headers = connection.headers
        encoding = self.headers.get("content-encoding", "").strip().lower()
        self._inflater = None if encoding in ("", "identity") else _Inflater(encoding)

    async def chunk(self, deadline: float) -> bytes:
        """The next bytes of the body; b"" at its end. Raises `TransportError`; `deadline` is in loop time."""
        while not self._is_over:
            if self._inflater is not None and (data := self._inflater.more()):
                return data
            data = await self._connection.read(deadline)
            if not data:
                self._is_over = True
            elif self._inflater is None:
                return data
            else:
                self._inflater.feed(data)
        return b""

    def waiting(self) -> Iterator[bytes]:
        """Events that have arrived behind the last chunk, where each chunk is one."""
        return iter(())

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


class HttpClient:
    """The requests of one session. Concurrent ones get connections of their own; one per server is kept."""

    def __init__(
        self,
        *,
        tls: TlsFiles | None = None,
        environ: Mapping[str, str] | None = None,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
    ) -> None:
        self._tls_files = tls or TlsFiles()
        self._environ = environ
        self._connect_timeout_s = connect_timeout_s
        self._context: ssl.SSLContext | None = None
        self._idle: dict[str, Connection] = {}
        self._last: dict[str, Connection] = {}
        """The connection of the newest request to each server, while it lives."""
        self._warming: dict[str, asyncio.Task[Connection]] = {}
        self._live: set[Connection] = set()

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
        head = self._head(method, url, headers, len(body))
        connection = await self._acquire(url)
        try:
            try:
                await connection.exchange(head, body, timeout_s, may_upgrade=may_upgrade)
            except PeerClosed:
                if not connection.may_be_stale or connection.has_answer_bytes:
                    raise
                # The server closed a kept connection just as we took it: that says nothing about this request.
                connection = await self._connect(url)
                await connection.exchange(head, body, timeout_s, may_upgrade=may_upgrade)
            self._last[url.origin] = connection
            return Response(connection)
        except BaseException:
            connection.abort()
            raise

    async def warm(self, url: Url) -> None:
        """Open the connection that the next request to `url` will take. Failures show up there."""
        key = url.origin
        if key in self._idle or key in self._warming:
            return
        task = asyncio.get_running_loop().create_task(self._connect(url))
        task.add_done_callback(_retrieve)
        self._warming[key] = task
        try:
            connection = await asyncio.shield(task)
        except SpindleError:
            return
        if self._warming.get(key) is task:
            del self._warming[key]
            connection.may_be_stale = True
            self._keep(key, connection)

    async def aclose(self) -> None:
        """Close every connection, used or not."""
        tasks = list(self._warming.values())
        self._warming.clear()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        connections = list(self._live)
        for connection in connections:
            connection.abort()
        if connections:
            await asyncio.wait([connection.lost for connection in connections], timeout=1.0)
        self._idle.clear()

    # ---- the kept connection -------------------------------------------------------------------------

    async def _acquire(self, url: Url) -> Connection:
        key = url.origin
        last = self._last.get(key)
        if last is not None and last.is_draining:
            await asyncio.wait([last.settled], timeout=DRAIN_WAIT_S)
        if (task := self._warming.get(key)) is not None:
            try:
                connection = await asyncio.shield(task)
            except TransportError:
                connection = None
            if self._warming.get(key) is task:
                del self._warming[key]
                if connection is not None and not connection.is_closed:
                    connection.may_be_stale = True
                    return connection
        idle = self._idle.pop(key, None)
        if idle is not None and not idle.is_closed:
            return idle
        return await self._connect(url)

    def _keep(self, key: str, connection: Connection) -> None:
        if connection.is_closed:
            return
        other = self._idle.get(key)
        if other is not None and other is not connection and not other.is_closed:
            connection.abort()
        else:
            self._idle[key] = connection

    def _forget(self, connection: Connection) -> None:
        self._live.discard(connection)
        for places in (self._idle, self._last):
            for key in [key for key, held in places.items() if held is connection]:
                del places[key]

    # ---- opening -------------------------------------------------------------------------------------

    async def _connect(self, url: Url) -> Connection:
        proxy = proxy_for(url, self._environ)
        first = proxy or url
        where = f"the proxy {first.host_and_port}" if proxy else first.host_and_port
        connection: Connection | None = None
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                connection = await self._open(first, url.origin)
                if proxy is not None and url.scheme == "https":
                    where = f"{url.host_and_port} through {where}"
                    connection = await self._tunnel(connection, proxy, url)
                return connection
        except (OSError, ValueError) as error:
            # ValueError: a host name that cannot be one, as the resolver and TLS report it. OSError: a timeout too.
            if connection is not None:
                connection.abort()
            from spindle.model.unreachable import unreachable  # only when something failed

            raise unreachable(error, where, url, proxy, self._environ, self._connect_timeout_s) from error
        except BaseException:
            if connection is not None:
                connection.abort()
            raise

    def _new_connection(self, key: str) -> Connection:
        return Connection(lambda idle: self._keep(key, idle), self._forget)

    async def _open(self, url: Url, key: str) -> Connection:
        loop = asyncio.get_running_loop()
        options: dict[str, Any] = {"happy_eyeballs_delay": 0.25}
        if url.scheme == "https":
            options |= {"ssl": self._tls(), "server_hostname": url.host}
        connection = self._new_connection(key)
        await loop.create_connection(lambda: connection, url.host, url.port, **options)
        self._live.add(connection)
        return connection

    async def _tunnel(self, outer: Connection, proxy: Url, url: Url) -> Connection:
        """Ask the proxy for a way to `url`, then speak TLS through it."""
        lines = [f"CONNECT {url.host_and_port} HTTP/1.1", f"host: {url.host_and_port}"]
        if proxy.userinfo:
            lines.append(f"proxy-authorization: {basic_auth(proxy.userinfo)}")
        await outer.exchange("\r\n".join([*lines, "", ""]).encode(), b"", self._connect_timeout_s)
        if not 200 <= outer.status < 300:
            outer.abort()
            from spindle.model.unreachable import proxy_refused  # only when something failed

            raise proxy_refused(outer.status, url, proxy, self._environ)
        # From here on the transport reports to TLS, not to `outer`.
        self._live.discard(outer)
        inner = self._new_connection(url.origin)
        transport = await asyncio.get_running_loop().start_tls(
            outer.transport, inner, self._tls(), server_hostname=url.host
        )
        if transport is None:
            raise ConnectFailed(f"the proxy {proxy.host_and_port} closed the connection")
        inner.connection_made(transport)
        self._live.add(inner)
        return inner

    def _tls(self) -> ssl.SSLContext:
        if self._context is None:
            self._context = tls_context(self._tls_files, self._environ)
        return self._context

    # ---- the request's head --------------------------------------------------------------------------

    def _head(self, method: str, url: Url, headers: Mapping[str, str], body_bytes: int) -> bytes:
        target = url.target
        fields = {"host": url.authority, "accept-encoding": "identity"}
        proxy = proxy_for(url, self._environ) if url.scheme == "http" else None
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


class _Inflater:
    """Undoes gzip and deflate, in steps of bounded size. Only for servers that compress although we ask them not to."""

    def __init__(self, encoding: str) -> None:
        if encoding not in ("gzip", "x-gzip", "deflate"):
            raise BadResponse(f"the server's answer is encoded as {encoding}, which is not supported")
        import zlib  # only for servers that compress

        self._error = zlib.error
        self._raw = zlib.decompressobj(-zlib.MAX_WBITS)
        self._inner = zlib.decompressobj(zlib.MAX_WBITS | 32)
        self._is_first = encoding == "deflate"
        self._input = b""

    def feed(self, data: bytes) -> None:
        self._input = data if not self._input else self._input + data

    def more(self) -> bytes:
        """Some output, or b"" when more input is needed."""
        if not self._input:
            return b""
        try:
            output = self._inner.decompress(self._input, INFLATE_STEP_BYTES)
        except self._error as error:
            if not self._is_first:
                raise BadResponse("the server's answer is not compressed as it says") from error
            # "deflate" means zlib's format, but some servers send the bare one.
            self._inner, self._is_first = self._raw, False
            return self.more()
        self._is_first = False
        self._input = self._inner.unconsumed_tail
        return output


def _retrieve(task: asyncio.Task[Connection]) -> None:
    """Look at the result, so that a failed warm-up nobody waited for is not reported as a forgotten exception."""
    if not task.cancelled():
        task.exception()
