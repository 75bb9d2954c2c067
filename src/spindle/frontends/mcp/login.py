"""`spindle mcp login`: sign in to a server in a browser, which comes back to a port of ours on this machine."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from types import TracebackType
from urllib.parse import urlsplit

from spindle.auth.loopback import HOST, Loopback, Page
from spindle.auth.mcp_http import Web
from spindle.auth.mcp_tokens import store_tokens
from spindle.errors import McpError
from spindle.frontends.browser import open_in_browser
from spindle.mcp.oauth import Attempt, begin, discover, finish
from spindle.mcp.spec import McpServer
from spindle.protocol.clock import SystemClock

_SIGN_IN_S = 300.0
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
    """Hears one answer of the browser: that to our attempt."""

    def __init__(self) -> None:
        self.attempt: Attempt | None = None
        self._given: asyncio.Future[Mapping[str, str]] = asyncio.get_running_loop().create_future()
        self._loopback = Loopback((0,), self._visit)

    async def __aenter__(self) -> Callback:
        await self._loopback.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._loopback.__aexit__(kind, error, trace)

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self._loopback.port}/callback"

    async def answer(self) -> Mapping[str, str]:
        try:
            async with asyncio.timeout(_SIGN_IN_S):
                return await self._given
        except TimeoutError:
            raise McpError(f"nobody signed in within {_SIGN_IN_S / 60:g} minutes") from None

    async def _visit(self, path: str, given: Mapping[str, str]) -> Page:
        if path != "/callback":
            return Page("404 Not Found", "There is nothing here.\n")
        if self.attempt is None or given.get("state") != self.attempt.state:
            return Page("400 Bad Request", "This does not belong to the sign-in that is waited for.\n")

        def hand_over() -> None:
            if not self._given.done():
                self._given.set_result(given)

        return Page("200 OK", _PAGE, then=hand_over)
