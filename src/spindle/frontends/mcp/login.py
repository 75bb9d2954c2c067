"""`spindle mcp login`: sign in to a server in a browser, which comes back to a port of ours on this machine."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from types import TracebackType
from urllib.parse import parse_qsl, urlsplit

from spindle.auth.mcp_http import Web
from spindle.auth.mcp_tokens import store_tokens
from spindle.errors import McpError
from spindle.mcp.oauth import Attempt, begin, discover, finish
from spindle.mcp.spec import McpServer
from spindle.policy.ownership import is_own
from spindle.process.lookup import find_installed
from spindle.protocol.clock import SystemClock

_SIGN_IN_S = 300.0
_HEAD_S = 10.0
_HEAD_BYTES = 16 * 1024
_HEADERS = "content-type: text/plain; charset=utf-8\r\ncache-control: no-store\r\nconnection: close"
_PAGE = "The sign-in goes on in the terminal. You can close this page.\n"


async def sign_in(server: McpServer, scopes: tuple[str, ...], home: str) -> None:
    """Raises SpindleError. Whoever calls has checked that the server has an address."""
    assert server.url is not None
    http, clock = Web(), SystemClock()
    try:
        async with Callback() as callback:
            auth_server = await discover(http, server.url)
            wanted = scopes or server.scopes
            attempt = await begin(http, auth_server, server.url, callback.address, wanted, clock)
            callback.attempt = attempt
            host = urlsplit(attempt.address).netloc
            print(f"To sign in to '{server.name}' at {host}, open this address in a browser:\n\n{attempt.address}\n")
            sys.stdout.flush()
            open_in_browser(attempt.address)
            given = await callback.answer()
            store_tokens(home, await finish(http, auth_server, attempt, given, server.name, server.url, clock))
    finally:
        await http.aclose()


class Callback:
    """Waits for the browser on a port that only this machine reaches, and hears one answer: that to our attempt.

    Any web page can send the browser here, so the state must be ours; and a foreign name for this machine is refused,
    because a page could be behind it. Other users of the machine can read the state among the arguments of the browser,
    so where the system tells whose a connection is, it must be our own user's.
    """

    def __init__(self) -> None:
        self.attempt: Attempt | None = None
        self._given: asyncio.Future[Mapping[str, str]] = asyncio.get_running_loop().create_future()

    async def __aenter__(self) -> Callback:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_HEAD_BYTES)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        await self._server.wait_closed()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._port}/callback"

    async def answer(self) -> Mapping[str, str]:
        try:
            async with asyncio.timeout(_SIGN_IN_S):
                return await self._given
        except TimeoutError:
            raise McpError(f"nobody signed in within {_SIGN_IN_S / 60:g} minutes") from None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_HEAD_S):
                head = await reader.readuntil(b"\r\n\r\n")
                uid = owner_of_peer(writer.get_extra_info("peername"), writer.get_extra_info("sockname"))
                if uid is None or is_own(uid):
                    status, text = self._judge(head.decode("latin-1"))
                else:
                    status, text = "403 Forbidden", "Another user waits for this sign-in.\n"
                writer.write(f"HTTP/1.1 {status}\r\n{_HEADERS}\r\n\r\n{text}".encode())
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # it was not a browser
        finally:
            writer.close()

    def _judge(self, head: str) -> tuple[str, str]:
        first, *rest = head.split("\r\n")
        method, _, target = first.partition(" ")
        hosts = [value.strip() for name, _, value in (line.partition(":") for line in rest) if name.lower() == "host"]
        if hosts != [f"127.0.0.1:{self._port}"]:
            return "403 Forbidden", "This is not the address of anything.\n"
        parts = urlsplit(target.partition(" ")[0])
        if method != "GET" or parts.path != "/callback":
            return "404 Not Found", "There is nothing here.\n"
        given = dict(parse_qsl(parts.query, keep_blank_values=True))
        if self.attempt is None or given.get("state") != self.attempt.state:
            return "400 Bad Request", "This does not belong to the sign-in that is waited for.\n"
        if not self._given.done():
            self._given.set_result(given)
        return "200 OK", _PAGE


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


def open_in_browser(address: str) -> None:
    """Hand the address to the desktop, if there is one. It was checked, and shown: an http(s) address, as one word."""
    is_mac = sys.platform == "darwin"
    if not is_mac and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return
    name = "open" if is_mac else "xdg-open"
    opener = find_installed(name)
    if opener is None or not address.startswith(("https://", "http://")):
        return
    nowhere = subprocess.DEVNULL
    try:
        subprocess.Popen([opener, address], stdin=nowhere, stdout=nowhere, stderr=nowhere, start_new_session=True)
    except OSError:
        pass  # the address is on the screen
