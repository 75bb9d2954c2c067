"""MCP servers behind an address: our HTTP client and the credentials for them. Loaded when there is such a server."""

from __future__ import annotations

import os
from collections.abc import Mapping

from spindle import __version__
from spindle.errors import McpError
from spindle.mcp.http import Answer, HttpChannel
from spindle.mcp.spec import McpServer
from spindle.model.http import HttpClient
from spindle.model.sse import SseDecoder
from spindle.model.url import parse_url


class Web:
    """`model/`'s HTTP client under the name by which `mcp/` knows it."""

    def __init__(self) -> None:
        self._client = HttpClient()

    async def request(self, method: str, url: str, headers: Mapping[str, str], body: bytes, timeout_s: float) -> Answer:
        return await self._client.request(method, parse_url(url), headers, body, timeout_s=timeout_s)

    async def aclose(self) -> None:
        await self._client.aclose()


def http_channel(spec: McpServer, home: str) -> HttpChannel:
    assert spec.url is not None
    headers = {"user-agent": f"spindle/{__version__}"}
    headers |= {name.lower(): value for name, value in spec.http_headers.items()}
    for name, variable in spec.env_http_headers.items():
        if value := os.environ.get(variable, "").strip():
            headers[name.lower()] = value

    async def credentials(refused: bool) -> Mapping[str, str]:
        if spec.bearer_token_env_var is None:
            if refused:
                raise McpError(f"it wants to know who you are; sign in with `spindle mcp login {spec.name}`")
            return {}
        token = os.environ.get(spec.bearer_token_env_var, "").strip()
        if not token:
            raise McpError(f"the variable {spec.bearer_token_env_var} with its token is not set")
        if refused:
            raise McpError(f"it refuses the token of the variable {spec.bearer_token_env_var} (status 401)")
        return {"authorization": f"Bearer {token}"}

    return HttpChannel(spec.url, http=Web(), event_reader=SseDecoder, credentials=credentials, headers=headers)
