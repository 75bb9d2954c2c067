"""A page on this machine that a browser comes back to after a sign-in: one port, a few paths, small answers.

Any web page can send the browser here, so whoever answers must check that the visit belongs to their sign-in; and a
foreign name for this machine is refused, because a page could be behind it. Other users of the machine can read the
address among the arguments of the browser, so where the system tells whose a connection is, it must be our own user's.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from urllib.parse import parse_qsl, urlsplit

import msgspec

from spindle.errors import SpindleError
from spindle.policy.ownership import is_own

HOST = "127.0.0.1"
_HEAD_S = 10.0
_ANSWER_S = 60.0
"""Whoever answers may have to ask the login service first."""
_HEAD_BYTES = 16 * 1024
_HEADERS = (
    "cache-control: no-store\r\nconnection: close\r\nreferrer-policy: no-referrer\r\n"
    "x-content-type-options: nosniff\r\n"
    "content-security-policy: default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
)


class PortsTaken(SpindleError):
    """Every port that we may wait on is in use."""


class Page(msgspec.Struct, frozen=True):
    """What the browser is shown."""

    status: str
    text: str
    kind: str = "text/plain"
    then: Callable[[], None] | None = None
    """What follows once it was sent: whoever waits for that may close the port."""


Visit = Callable[[str, Mapping[str, str]], Awaitable[Page]]
"""Answers a visit, given its path and its query."""


class Loopback:
    """Waits for a browser on the first of `ports` that is free; port 0 is any."""

    def __init__(self, ports: Sequence[int], visit: Visit) -> None:
        self._ports = ports
        self._visit = visit
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0

    async def __aenter__(self) -> Loopback:
        for port in self._ports:
            try:
                self._server = await asyncio.start_server(self._serve, HOST, port, limit=_HEAD_BYTES)
            except OSError as error:
                if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                    raise SpindleError(f"no port can be opened for the browser: {error.strerror}") from error
                continue
            self.port = self._server.sockets[0].getsockname()[1]
            return self
        taken = " and ".join(map(str, self._ports))
        raise PortsTaken(
            f"port {taken} cannot be used, perhaps because another sign-in is waiting there: end that one, "
            "or use a device code"
        )

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()  # browsers open connections that they may never use
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        page: Page | None = None
        try:
            async with asyncio.timeout(_HEAD_S):
                head = await reader.readuntil(b"\r\n\r\n")
            async with asyncio.timeout(_ANSWER_S):
                page = await self._judge(head.decode("latin-1"), writer)
                head_lines = f"HTTP/1.1 {page.status}\r\ncontent-type: {page.kind}; charset=utf-8\r\n{_HEADERS}"
                body = page.text.encode()
                writer.write(f"{head_lines}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # it was not a browser, or it is gone
        finally:
            self._writers.discard(writer)
            writer.close()
            if page is not None and page.then is not None:
                page.then()

    async def _judge(self, head: str, writer: asyncio.StreamWriter) -> Page:
        uid = owner_of_peer(writer.get_extra_info("peername"), writer.get_extra_info("sockname"))
        if uid is not None and not is_own(uid):
            return Page("403 Forbidden", "Another user waits for this sign-in.\n")
        first, *rest = head.split("\r\n")
        method, _, target = first.partition(" ")
        hosts = [value.strip() for name, _, value in (line.partition(":") for line in rest) if name.lower() == "host"]
        if hosts not in ([f"{HOST}:{self.port}"], [f"localhost:{self.port}"]):
            return Page("403 Forbidden", "This is not the address of anything.\n")
        try:
            parts = urlsplit(target.partition(" ")[0])
        except ValueError:
            return Page("400 Bad Request", "This is not an address.\n")
        if method != "GET":
            return Page("404 Not Found", "There is nothing here.\n")
        return await self._visit(parts.path, dict(parse_qsl(parts.query, keep_blank_values=True)))


def owner_of_peer(peer: tuple[str, int], own: tuple[str, int], table: str = "/proc/net/tcp") -> int | None:
    """The user whose program is at the other end of a connection within this machine; None where nobody tells."""
    wanted = [f"{int.from_bytes(socket.inet_aton(host), sys.byteorder):08X}:{port:04X}" for host, port in (peer, own)]
    try:
        with open(table, encoding="ascii") as lines:
            for line in lines:
                fields = line.split()
                if fields[1:3] == wanted:
                    return int(fields[7])
    except (OSError, ValueError, IndexError):
        pass
    return None
