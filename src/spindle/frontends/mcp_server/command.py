"""`spindle mcp-server`: an MCP server over stdin and stdout."""

from __future__ import annotations

import asyncio

from spindle.frontends.launch import config_from, warn_of_bypass
from spindle.frontends.mcp_server.server import McpServer
from spindle.frontends.options import Parsed
from spindle.frontends.rpc_peer import serve_stdio


def run(parsed: Parsed, words: list[str]) -> int:
    config = config_from(parsed)
    warn_of_bypass(parsed)
    with_events = not parsed.flag("no_events")
    return asyncio.run(serve_stdio("mcp-server", lambda peer: McpServer(peer, config, parsed, with_events=with_events)))
