"""A local HTTP server that gives the same answer to each path, every time, and remembers what it was asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Self


class CannedServer:
    """`answers` maps a path to (status, JSON value). Other paths get 404."""

    def __init__(self, answers: Mapping[str, tuple[int, Any]]) -> None:
        self.answers = answers
        self.requests: list[tuple[str, Any]] = []
        """Path and JSON body of each request."""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        path = head.split(" ")[1]
        fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
        length = int(fields.get("content-length", "0"))
        body = await reader.readexactly(length)
        self.requests.append((path, json.loads(body) if body else None))
        status, value = self.answers.get(path, (404, {}))
        content = value if isinstance(value, bytes) else json.dumps(value).encode()
        head = f"HTTP/1.1 {status} X\r\ncontent-length: {len(content)}\r\nconnection: close\r\n\r\n"
        writer.write(head.encode() + content)
        await writer.drain()
        writer.close()
        await writer.wait_closed()
