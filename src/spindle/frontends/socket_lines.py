"""One client over a socket: lines in, bytes out, and who is at the other end."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import Iterable
from typing import SupportsIndex

from spindle.frontends.stdio import LineTooLong

MAX_LINE_BYTES = 16 << 20
_CHUNK_BYTES = 1 << 16
_LINGER_S = 1.0
PATIENCE_S = 10.0
"""How long a client may take to read what it is told last."""


class EndableReader(asyncio.StreamReader):
    """Takes nothing more once it was told that there is nothing more to come, though the client goes on sending."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit=limit)
        self._is_ended = False

    def feed_eof(self) -> None:
        self._is_ended = True
        super().feed_eof()

    def feed_data(self, data: Iterable[SupportsIndex]) -> None:
        if not self._is_ended:
            super().feed_data(data)


class SocketPeer:
    """A connection from its first line to its last."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._buffer = bytearray()
        self._searched = 0
        self.is_stalled = False
        """What was written last waits for the client to read."""
        self.is_over = asyncio.Event()
        """Nobody wants to talk any more: the server ends, or dropped the client."""

    @property
    def uid(self) -> int | None:
        """The user at the other end of a Unix socket; None where the system does not say."""
        return peer_uid(self._writer.get_extra_info("socket"))

    @property
    def unsent(self) -> int:
        """How many bytes wait to be taken by the client."""
        return self._writer.transport.get_write_buffer_size()

    async def next(self, max_bytes: int = MAX_LINE_BYTES) -> bytes:
        """The next line, with its end; b"" when the client has said its last. Raises `LineTooLong`."""
        buffer = self._buffer
        while (end := buffer.find(b"\n", self._searched)) < 0:
            if len(buffer) > max_bytes:
                break
            self._searched = len(buffer)
            chunk = await self._read()
            if not chunk:
                end = len(buffer) - 1
                break
            buffer += chunk
        if end > max_bytes or (end < 0 and buffer):
            raise LineTooLong(f"a line is longer than {_size(max_bytes)}; the connection is closed")
        line = bytes(buffer[: end + 1])
        del buffer[: end + 1]
        self._searched = 0
        return line

    async def _read(self) -> bytes:
        try:
            return await self._reader.read(_CHUNK_BYTES)
        except OSError:
            return b""  # cut off; what it said last is all there is

    async def write(self, data: bytes) -> None:
        """Send; waits while the client is behind. Raises ConnectionError when there is nobody any more."""
        self._writer.write(data)
        self.is_stalled = True
        try:
            await self._writer.drain()
        finally:
            self.is_stalled = False

    def hang_up(self) -> None:
        """Say nothing more and hear nothing more, as if the client had ended."""
        self.is_over.set()
        self._reader.feed_eof()

    async def close(self) -> None:
        """Close the connection so that the client can still read what it was sent last."""
        try:
            if self._writer.can_write_eof():
                self._writer.write_eof()
            # Closed with input unread, the system would throw away what the client has not read yet.
            async with asyncio.timeout(_LINGER_S):
                while await self._reader.read(_CHUNK_BYTES):
                    pass
        except (OSError, TimeoutError, RuntimeError):
            pass
        self.abort()

    async def turn_away(self, line: bytes) -> None:
        """Say one last thing and close; a client that does not read it is not waited for."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self.write(line)
            await self.close()
        except (ConnectionError, TimeoutError):
            self.abort()

    def abort(self) -> None:
        """Close it at once, whatever is still to be read."""
        self.is_over.set()
        self._writer.transport.abort()


def _size(count: int) -> str:
    return f"{count >> 20} MiB" if count >> 20 else f"{count >> 10} KiB"


def peer_uid(connection: socket.socket) -> int | None:
    """The user that opened the other end of a Unix socket; None where the system does not say."""
    if hasattr(socket, "SO_PEERCRED"):
        raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return struct.unpack("3i", raw)[1]
    if os.uname().sysname != "Darwin":
        return None
    # SOL_LOCAL, LOCAL_PEERCRED: a struct xucred begins with its version and the user.
    raw = connection.getsockopt(0, 1, 128)
    return struct.unpack_from("2I", raw)[1]
