"""MCP servers behind an address: our HTTP client and the credentials for them. Loaded when there is such a server."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping

from spindle import __version__
from spindle.auth.mcp_tokens import has_tokens, read_tokens, store_tokens
from spindle.errors import McpError
from spindle.mcp.http import Answer, HttpChannel
from spindle.mcp.spec import McpServer
from spindle.mcp.tokens import Tokens
from spindle.model.http import HttpClient
from spindle.model.proxy import is_sent_openly
from spindle.model.sse import SseDecoder
from spindle.model.url import parse_url
from spindle.policy.secrets import is_telling
from spindle.protocol.clock import Clock

_EARLY_S = 30.0
KeepSecret = Callable[[str, str], None]
"""A value that is masked from now on, and what it is."""


class Web:
    """`model/`'s HTTP client under the name by which `mcp/` knows it."""

    def __init__(self) -> None:
        self._client = HttpClient()

    async def request(self, method: str, url: str, headers: Mapping[str, str], body: bytes, timeout_s: float) -> Answer:
        return await self._client.request(method, parse_url(url), headers, body, timeout_s=timeout_s)

    async def aclose(self) -> None:
        await self._client.aclose()


def http_channel(spec: McpServer, home: str, clock: Clock, keep_secret: KeepSecret) -> HttpChannel:
    assert spec.url is not None
    web = Web()
    sign_in = SignIn(spec, home, web, clock, keep_secret)
    headers = {"user-agent": f"spindle/{__version__}"}
    headers |= {name.lower(): value for name, value in spec.http_headers.items()}
    for name, variable in spec.env_http_headers.items():
        if value := os.environ.get(variable, "").strip():
            headers[name.lower()] = value

    async def credentials(refused: bool) -> Mapping[str, str]:
        if spec.bearer_token_env_var is None:
            return await sign_in.headers(refused)
        token = os.environ.get(spec.bearer_token_env_var, "").strip()
        if not token:
            raise McpError(f"the variable {spec.bearer_token_env_var} with its token is not set")
        if refused:
            raise McpError(f"it refuses the token of the variable {spec.bearer_token_env_var} (status 401)")
        return {"authorization": f"Bearer {token}"}

    return HttpChannel(spec.url, http=web, event_reader=SseDecoder, credentials=credentials, headers=headers)


def sends_key_openly(spec: McpServer, home: str) -> bool:
    """Is a token or another key of this server's sent over an address that others on the way can read?"""
    assert spec.url is not None
    if not is_sent_openly(spec.url):
        return False
    if spec.bearer_token_env_var or spec.env_http_headers or any(map(is_telling, spec.http_headers)):
        return True
    return has_tokens(home) and read_tokens(home, spec.name, spec.url) is not None


class SignIn:
    """What `spindle mcp login` left for one server, renewed when it runs out. Read each time: others renew it too."""

    def __init__(self, spec: McpServer, home: str, web: Web, clock: Clock, keep_secret: KeepSecret) -> None:
        self._spec = spec
        self._home = home
        self._web = web
        self._clock = clock
        self._keep_secret = keep_secret
        self._renewing = asyncio.Lock()
        self._sent = ""

    async def headers(self, refused: bool) -> Mapping[str, str]:
        if not has_tokens(self._home):
            return self._nobody(refused)
        async with self._renewing:
            refused_token = self._sent if refused else None
            tokens = read_tokens(self._home, self._spec.name, self._spec.url)
            if tokens is None:
                return self._nobody(refused)
            has_run_out = tokens.expires_at is not None and tokens.expires_at - _EARLY_S < self._clock.now()
            if tokens.access_token == refused_token or (has_run_out and tokens.refresh_token):
                tokens = await self._renewed(tokens)
            for value in tokens.secrets:
                self._keep_secret(value, f"the sign-in of {self._spec.name}")
            self._sent = tokens.access_token
        return {"authorization": f"Bearer {self._sent}"}

    async def _renewed(self, tokens: Tokens) -> Tokens:
        from spindle.mcp.oauth import renew  # seldom

        try:
            renewed = await renew(self._web, tokens, self._clock)
        except McpError as error:
            # Another session may have renewed them meanwhile, and servers take a refresh token only once.
            now = read_tokens(self._home, self._spec.name, self._spec.url)
            if now is not None and now.access_token != tokens.access_token:
                return now
            raise McpError(f"{error}; sign in again with `spindle mcp login {self._spec.name}`") from error
        store_tokens(self._home, renewed)
        return renewed

    def _nobody(self, refused: bool) -> Mapping[str, str]:
        if refused:
            raise McpError(f"it wants to know who you are; sign in with `spindle mcp login {self._spec.name}`")
        return {}
