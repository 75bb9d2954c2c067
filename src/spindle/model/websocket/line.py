"""Questions of one thread over one kept WebSocket, and when HTTP is used instead.

A question is a text `response.create`; the texts that come back are the events of the answer. The server remembers the
last answer as long as the connection lives, so a question that goes on from there holds only what is new
(`told.py`). Whatever goes wrong with this way of asking costs no retry: the question is put over HTTP at once, and
the thread stays there.
"""

from __future__ import annotations

import asyncio
from binascii import b2a_base64
from collections.abc import Mapping
from typing import TYPE_CHECKING

from spindle.errors import ModelError
from spindle.model import failures, sse
from spindle.model.connection import ConnectFailed, PeerClosed, TimedOut, TransportError
from spindle.model.headers import merged
from spindle.model.http import Response
from spindle.model.pool import CONNECT_TIMEOUT_S
from spindle.model.websocket.answer import SocketAnswer
from spindle.model.websocket.socket import WebSocket
from spindle.model.websocket.told import Told, message
from spindle.protocol.clock import Clock
from spindle.protocol.request import Request

if TYPE_CHECKING:
    from spindle.model.endpoint import Endpoint

BETA = "responses_websockets=2026-02-06"
BREAKS_MAX = 2
"""So many answers in a row that broke off, and the thread goes on over HTTP."""
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_TRY_WITH_ANOTHER_KEY = 401
_USE_HTTP = 426


class Line:
    """One thread's way to a server that offers WebSockets."""

    def __init__(self, endpoint: Endpoint, clock: Clock, *, message_max_bytes: int = sse.EVENT_MAX_BYTES) -> None:
        self._endpoint = endpoint
        self._clock = clock
        self._message_max_bytes = message_max_bytes
        self._socket: WebSocket | None = None
        self._headers: Mapping[str, str] = {}
        """Those that the socket was opened with: who asks, among other things."""
        self._opening: asyncio.Task[None] | None = None
        self._told: Told | None = None
        self._is_busy = False
        self._breaks = 0
        self._why_over = ""
        self.is_over = False
        """HTTP is used from now on."""

    # ---- for the client ----------------------------------------------------------------------------

    async def warm(self) -> None:
        """Connect ahead of the first question. Raises what prevents that."""
        if not self.is_over:
            await self._connected()

    async def ask(self, request: Request, idle_s: float) -> SocketAnswer | None:
        """Put a question; what comes back has begun. None: use HTTP.

        Raises `ConnectFailed` when the server cannot be reached at all, `StreamDropped` when it says nothing.
        """
        if self.is_over or self._is_busy:
            return None
        self._is_busy = True
        try:
            answer = await self._ask(request, idle_s)
        except BaseException:
            self.drop()
            raise
        if answer is None:
            self.drop()
        return answer

    @property
    def has_reason(self) -> bool:
        return bool(self._why_over)

    def reason(self) -> str:
        """Why HTTP is used, where a person should know; told once."""
        why, self._why_over = self._why_over, ""
        return why

    async def aclose(self) -> None:
        if (opening := self._opening) is not None:
            opening.cancel()
            await asyncio.wait([opening])
        if self._socket is not None and not self._is_busy:
            self._socket.close()
            self._socket = None
        self.drop()

    # ---- for the answer ----------------------------------------------------------------------------

    def finish(self, told: Told | None) -> None:
        """The answer is over, and the server may be asked again; `told` is what it remembers now."""
        self._told, self._is_busy = told, False
        if told is not None:
            self._breaks = 0

    def drop(self) -> None:
        """Nobody reads the answer to its end: hang up."""
        self._told, self._is_busy = None, False
        socket, self._socket = self._socket, None
        if socket is not None:
            socket.abort()

    def broke(self) -> None:
        """The connection broke in the middle of an answer."""
        self._breaks += 1
        if self._breaks >= BREAKS_MAX:
            self._end("the connection broke twice in a row")

    # ---- inside ------------------------------------------------------------------------------------

    async def _ask(self, request: Request, idle_s: float) -> SocketAnswer | None:
        for _ in range(2):
            if (socket := await self._connected()) is None:
                return None
            is_used = socket.has_answered
            said = message(request, self._told)
            try:
                for _ in socket.waiting():
                    pass  # what came unasked is no part of this answer
                socket.send(said.text)
                first = await socket.first(idle_s)
            except TimedOut as error:
                raise failures.timed_out("idle timeout waiting for websocket", idle_s) from error
            except PeerClosed as error:
                self._told = self._socket = None
                if not is_used:
                    self._end(str(error))
                    return None
                continue  # it stood idle, and the server closed it: that says nothing about this question
            except TransportError as error:
                self._end(str(error))
                return None
            except sse.EventTooLarge as error:
                raise ModelError(str(error)) from error
            return SocketAnswer(self, socket, said, first, is_first=not is_used)
        return None

    async def _connected(self) -> WebSocket | None:
        """The socket, new if need be; None where HTTP is to be used for this question."""
        headers = self._endpoint.socket_headers()
        if self._opening is not None:
            await asyncio.wait([self._opening])
        if self._socket is not None and (self._socket.is_closed or headers != self._headers):
            self._socket.abort()
            self._socket = self._told = None
        if self._socket is None:
            self._opening = asyncio.get_running_loop().create_task(self._open(headers))
            try:
                await self._opening
            finally:
                self._opening = None
        return self._socket

    async def _open(self, headers: Mapping[str, str]) -> None:
        key = b2a_base64(bytes.fromhex(self._clock.uuid7().replace("-", "")), newline=False).decode()
        handshake = {"connection": "Upgrade", "upgrade": "websocket", "openai-beta": BETA}
        asking = merged(headers, handshake, {"sec-websocket-version": "13", "sec-websocket-key": key})
        endpoint = self._endpoint
        url = endpoint.url(endpoint.wire.path)
        try:
            response = await endpoint.http.request("GET", url, asking, timeout_s=CONNECT_TIMEOUT_S, may_upgrade=True)
        except ConnectFailed:
            raise
        except TransportError as error:
            self._end(str(error))
            return
        if response.status == 101 and response.headers.get("sec-websocket-accept", "") == _accepted(key):
            self._socket = WebSocket(response.take_over(), self._new_mask, self._message_max_bytes)
            self._headers = headers
        else:
            self._refused(response)

    def _refused(self, response: Response) -> None:
        status = response.status
        if status == 101:
            response.close()
            self._end("its answer to the upgrade is wrong")
            return
        response.release()
        if status == _USE_HTTP:
            self.is_over = True  # this is how a server says that it speaks HTTP only: nobody need hear of it
        elif status != _TRY_WITH_ANOTHER_KEY:
            self._end(f"HTTP status {status}")

    def _end(self, why: str) -> None:
        if not self.is_over:
            self.is_over = True
            self._why_over = f"WebSockets do not work with {self._endpoint.provider.name} ({why}); using HTTP instead."

    def _new_mask(self) -> bytes:
        return int(self._clock.random() * (1 << 32)).to_bytes(4, "big")


def _accepted(key: str) -> str:
    """What a server answers that has read the key."""
    from _sha1 import sha1  # `hashlib` would load OpenSSL  # pyright: ignore[reportMissingImports]

    return b2a_base64(sha1(key.encode() + _GUID).digest(), newline=False).decode()
