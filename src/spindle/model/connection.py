"""One HTTP/1.1 connection as seen by the client: what asyncio and the parser tell of an answer as it arrives.

What is sent is in `http`, what is opened and kept in `pool`, what a status means in `failures`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import httptools

from spindle.errors import SpindleError

HEAD_MAX_BYTES = 256 * 1024
BUFFER_MAX_BYTES = 1024 * 1024
"""Reading from the socket pauses above this."""
DRAIN_S = 5.0
DRAIN_MAX_BYTES = 1024 * 1024


class TransportError(SpindleError):
    """The exchange failed below the level of statuses. Does not leave `model/`."""

    def __init__(self, message: str, *, advice: str = "", is_final: bool = False) -> None:
        super().__init__(message)
        self.advice = advice
        """What a person can do about it; "" when nothing special is known."""
        self.is_final = is_final
        """Asking again would not help."""


class ConnectFailed(TransportError):
    """There is no connection."""


class PeerClosed(TransportError):
    """The connection broke."""


class TimedOut(TransportError):
    """Nothing arrived in time."""


class BadResponse(TransportError):
    """What arrived is not an HTTP answer we can read."""


class Connection(asyncio.Protocol):
    """Carries one exchange at a time: `begin`, write to `transport`, wait for the `head`; then `take` the body, with a
    `wait` whenever nothing is there, until its end, or `release`, or `abort`."""

    def __init__(self, on_idle: Callable[[Connection], None], on_lost: Callable[[Connection], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_idle = on_idle
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._drain_timer: asyncio.TimerHandle | None = None
        self.settled = self._loop.create_future()
        """Done when the current exchange is over, one way or the other."""
        self.lost = self._loop.create_future()
        self.may_be_stale = False
        """It stood idle, so the server may have closed it without our knowing."""
        self.leftover: bytearray | None = None
        """Once the server has agreed to speak another protocol: what it said in that one already."""
        self._is_busy = False
        self._begin()

    def _begin(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        """Names in lower case; repeated headers joined by commas."""
        self.has_answer_bytes = False
        self._parser = httptools.HttpResponseParser(self)
        self._may_upgrade = False
        self._is_interim = False
        self._is_switching = False
        self._has_head = False
        self._has_body = False
        self._ends_at_eof = False
        self._may_keep = False
        self._is_paused = False
        self._is_draining = False
        self._head_bytes = 0
        self._chunks: list[bytes] = []
        self._buffered_bytes = 0
        self._failure: TransportError | None = None

    # ---- for the caller ------------------------------------------------------------------------------

    @property
    def is_closed(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    @property
    def is_draining(self) -> bool:
        return self._is_busy and self._is_draining

    @property
    def transport(self) -> asyncio.Transport:
        assert self._transport is not None, "not connected"
        return self._transport

    def begin(self, *, may_upgrade: bool) -> None:
        """A request is about to be written. `may_upgrade`: it asks for another protocol."""
        self._begin()
        self._is_busy, self._may_upgrade = True, may_upgrade
        self.settled = self._loop.create_future()
        if self.is_closed:
            raise PeerClosed("the server closed the connection")

    async def head(self, timeout_s: float) -> None:
        """Wait for the head of the answer, once a request is written."""
        unsent = self.transport.get_write_buffer_size()
        deadline = self._loop.time() + timeout_s
        while not self._has_head:
            try:
                await self.wait(deadline)
            except TimedOut:
                # A large body on a slow line: the server's time to answer starts when it has the whole question.
                left = self.transport.get_write_buffer_size()
                if left >= unsent:
                    raise
                unsent = left
                deadline = self._loop.time() + timeout_s

    def take(self) -> bytes | None:
        """All body bytes that have arrived since; b"" if there are none yet, None behind the last."""
        if chunks := self._chunks:
            self._chunks, self._buffered_bytes = [], 0
            self._resume()
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)
        if self._has_body and self._failure is None:
            self._finish()
            return None
        return b""

    async def wait(self, deadline: float) -> None:
        """Until something has arrived. Raises what ended the connection, and `TimedOut` at `deadline` (loop time)."""
        if self._failure is not None:
            raise self._failure
        waiter = self._waiter = self._loop.create_future()
        timer = self._loop.call_at(deadline, _expire, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiter = None

    def release(self) -> None:
        """The rest of the answer is of no interest: let it run out, then keep the connection."""
        if not self._is_busy or self._is_draining:
            return
        self._chunks.clear()
        self._buffered_bytes = 0
        if self._has_body or self._failure is not None:
            self._finish()
            return
        self._is_draining = True
        self._resume()
        self._drain_timer = self._loop.call_later(DRAIN_S, self.abort)

    def abort(self) -> None:
        """Close at once, whatever is under way."""
        if self._drain_timer is not None:
            self._drain_timer.cancel()
        if self._transport is not None:
            self._transport.abort()

    # ---- asyncio's callbacks -------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if not self._is_busy:
            # Nobody asked for this, so what follows could not be told from the next answer.
            self.abort()
            return
        self.has_answer_bytes = True
        if self.leftover is not None:
            self.leftover += data
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self._has_upgraded(error, data):
                self._fail(BadResponse(f"the server's answer is not valid HTTP ({error})"))
                return
        if not self._has_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_MAX_BYTES:
                self._fail(BadResponse(f"the headers of the server's answer exceed {HEAD_MAX_BYTES} bytes"))
                return
        elif self._is_draining:
            if self._has_body:
                self._finish()
            elif self._buffered_bytes > DRAIN_MAX_BYTES:
                self.abort()
        elif self._buffered_bytes > BUFFER_MAX_BYTES and not self._is_paused and not self._has_body:
            self._is_paused = True
            self.transport.pause_reading()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._drain_timer is not None:
            self._drain_timer.cancel()
        if self._is_busy and not self._has_body and self._failure is None:
            if exc is None and self._has_head and self._ends_at_eof:
                self._has_body = True
            else:
                self._failure = PeerClosed(_why_lost(exc, self._has_head))
        if not self.lost.done():
            self.lost.set_result(None)
        self._settle()
        self._on_lost(self)
        self._wake()

    # ---- the parser's callbacks ----------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._has_body:
            self._may_keep = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._has_body:
            return
        key, text = name.decode("latin-1").lower(), value.decode("utf-8", "replace")
        self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def on_headers_complete(self) -> None:
        if self._has_body:
            return
        status = self._parser.get_status_code()
        self._is_switching = status == 101
        if 100 <= status < 200:
            self._is_interim = True
            return
        self.status = status
        has_length = "content-length" in self.headers or "chunked" in self.headers.get("transfer-encoding", "").lower()
        self._ends_at_eof = not has_length
        self._may_keep = self._parser.should_keep_alive()
        self._has_head = True

    def on_body(self, body: bytes) -> None:
        if self._has_body:
            return
        self._buffered_bytes += len(body)
        if not self._is_draining:
            self._chunks.append(body)

    def on_message_complete(self) -> None:
        if self._is_interim:
            self._is_interim = False
            if not self._is_switching:
                self.headers = {}
            return
        self._has_body = True

    # ---- inside --------------------------------------------------------------------------------------

    def _has_upgraded(self, error: Exception, data: bytes) -> bool:
        """Whether the parser stopped because HTTP is over on this connection, as was asked for."""
        if not (isinstance(error, httptools.HttpParserUpgrade) and self._may_upgrade and self._is_switching):
            return False
        self.status, self._has_head = 101, True
        self.leftover = bytearray(data[error.args[0] :])
        return True

    def _finish(self) -> None:
        """The exchange is over: keep the connection if both sides allow it."""
        if not self._is_busy:
            return
        if self._drain_timer is not None:
            self._drain_timer.cancel()
        self._is_busy = False
        self._resume()
        if self._may_keep and self._has_body and not self.is_closed:
            self.may_be_stale = True
            self._on_idle(self)
        else:
            self.abort()
        self._settle()

    def _fail(self, failure: TransportError) -> None:
        self._failure = failure
        self.abort()
        self._wake()

    def _resume(self) -> None:
        if self._is_paused:
            self._is_paused = False
            if not self.is_closed:
                self.transport.resume_reading()

    def _settle(self) -> None:
        if not self.settled.done():
            self.settled.set_result(None)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _expire(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_exception(TimedOut("the server sent nothing in time"))


def _why_lost(exc: Exception | None, had_head: bool) -> str:
    if exc is not None:
        return getattr(exc, "strerror", None) or str(exc) or type(exc).__name__
    if had_head:
        return "the server closed the connection in the middle of its answer"
    return "the server closed the connection without an answer"
