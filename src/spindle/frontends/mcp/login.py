"""`spindle mcp login`: sign in to a server in a browser."""

from __future__ import annotations

import sys
from urllib.parse import urlsplit

from spindle.frontends.browser import open_in_browser
from spindle.frontends.server_sign_in import ServerSignIn
from spindle.mcp.spec import McpServer
from spindle.protocol.clock import SystemClock


async def sign_in(server: McpServer, scopes: tuple[str, ...], home: str) -> None:
    """Raises SpindleError. Whoever calls has checked that the server has an address."""
    async with ServerSignIn(server, scopes, home, SystemClock()) as attempt:
        host = urlsplit(attempt.address).netloc
        print(f"To sign in to '{server.name}' at {host}, open this address in a browser:\n\n{attempt.address}\n")
        sys.stdout.flush()
        open_in_browser(attempt.address)
        await attempt.finish()
