"""Signing in to an MCP server in a browser, which comes back to a port of ours on this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from types import TracebackType

from spindle.auth.loopback import HOST, Loopback, Page
from spindle.auth.mcp_http import Web
from spindle.auth.mcp_tokens import store_tokens
from spindle.config.consent import Consents
from spindle.errors import ConfigError, McpError
from spindle.mcp.oauth import Attempt, AuthServer, begin, discover, finish
from spindle.mcp.spec import McpServer
from spindle.protocol.clock import Clock

SIGN_IN_S = 300.0
_PAGE = "The sign-in goes on where it was begun. You can close this page.\n"


def check_sign_in(server: McpServer, home: str) -> None:
    """Raise ConfigError where there is nothing to sign in to, or a project wants it without the person's consent."""
    name = server.name
    if server.url is None:
        raise ConfigError(f"{name} is a program; only servers with a `url` can be signed in to")
    if server.bearer_token_env_var is not None:
        raise ConfigError(f"{name} takes its token from {server.bearer_token_env_var}; there is nothing to sign in to")
    if server.project_file is not None and not Consents(home).covers(server):
        raise ConfigError(f"a project describes {name}; agree to it first: spindle mcp trust {name}")


class ServerSignIn:
    """One attempt. Entering it asks the server where to sign in; `finish` waits for the person.

    Raises SpindleError. Whoever uses it has called `check_sign_in`.
    """

    def __init__(self, server: McpServer, scopes: tuple[str, ...], home: str, clock: Clock) -> None:
        assert server.url is not None
        self._server = server
        self._url = server.url
        self._scopes = scopes or server.scopes
        self._home = home
        self._clock = clock
        self._web = Web()
        self._given: asyncio.Future[Mapping[str, str]] = asyncio.get_running_loop().create_future()
        self._loopback = Loopback((0,), self._visit)
        self._stack = AsyncExitStack()
        self._auth_server: AuthServer | None = None
        self._attempt: Attempt | None = None

    @property
    def address(self) -> str:
        """What the person opens in a browser."""
        assert self._attempt is not None
        return self._attempt.address

    async def __aenter__(self) -> ServerSignIn:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._web.aclose)
            await stack.enter_async_context(self._loopback)
            self._auth_server = await discover(self._web, self._url)
            callback = f"http://{HOST}:{self._loopback.port}/callback"
            self._attempt = await begin(self._web, self._auth_server, self._url, callback, self._scopes, self._clock)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def finish(self, patience_s: float = SIGN_IN_S) -> None:
        """Wait for the browser, and store the tokens."""
        assert self._auth_server is not None and self._attempt is not None
        try:
            async with asyncio.timeout(patience_s):
                given = await self._given
        except TimeoutError:
            raise McpError(f"nobody signed in within {patience_s / 60:g} minutes") from None
        name = self._server.name
        tokens = await finish(self._web, self._auth_server, self._attempt, given, name, self._url, self._clock)
        store_tokens(self._home, tokens)

    async def _visit(self, path: str, given: Mapping[str, str]) -> Page:
        if path != "/callback":
            return Page("404 Not Found", "There is nothing here.\n")
        if self._attempt is None or given.get("state") != self._attempt.state:
            return Page("400 Bad Request", "This does not belong to the sign-in that is waited for.\n")

        def hand_over() -> None:
            if not self._given.done():
                self._given.set_result(given)

        return Page("200 OK", _PAGE, then=hand_over)
