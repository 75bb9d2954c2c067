"""The connections of one client: one per server is kept for the next request, others are opened as they are needed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from spindle.errors import SpindleError
from spindle.model.connection import ConnectFailed, Connection, TransportError
from spindle.model.proxy import proxy_for
from spindle.model.tls import TlsFiles, tls_context
from spindle.model.url import Url, basic_auth

if TYPE_CHECKING:
    import ssl

CONNECT_TIMEOUT_S = 15.0
DRAIN_WAIT_S = 0.1
"""How long a new request waits for the tail of the one before, so that both share a connection."""


class Pool:
    """Connections by the server that they lead to, straight or through a proxy."""

    def __init__(self, tls: TlsFiles, environ: Mapping[str, str] | None, connect_timeout_s: float) -> None:
        self._tls_files = tls
        self._environ = environ
        self._connect_timeout_s = connect_timeout_s
        self._context: ssl.SSLContext | None = None
        self._idle: dict[str, Connection] = {}
        self.newest: dict[str, Connection] = {}
        """The connection of the newest request to each server, while it lives."""
        self._warming: dict[str, asyncio.Task[Connection]] = {}
        self._live: set[Connection] = set()

    async def take(self, url: Url) -> Connection:
        """The connection for a request to `url`: the kept one, or a new one. Raises `TransportError`."""
        key = url.origin
        last = self.newest.get(key)
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
        return await self.connect(url)

    async def connect(self, url: Url) -> Connection:
        """A new one."""
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

    async def warm(self, url: Url) -> None:
        """Open the connection that the next request to `url` will take. Failures show up there."""
        key = url.origin
        if key in self._idle or key in self._warming:
            return
        task = asyncio.get_running_loop().create_task(self.connect(url))
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

    # ---- inside --------------------------------------------------------------------------------------

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
        outer.begin(may_upgrade=False)
        outer.transport.write("\r\n".join([*lines, "", ""]).encode())
        await outer.head(self._connect_timeout_s)
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
        for places in (self._idle, self.newest):
            for key in [key for key, held in places.items() if held is connection]:
                del places[key]


def _retrieve(task: asyncio.Task[Connection]) -> None:
    """Look at the result, so that a failed warm-up nobody waited for is not reported as a forgotten exception."""
    if not task.cancelled():
        task.exception()
