"""One open WebSocket: sends texts, hands out those that arrive, answers pings. What texts mean is not known here."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator

from spindle.errors import SpindleError
from spindle.model.connection import BUFFER_MAX_BYTES, BadResponse, Connection, PeerClosed, TimedOut
from spindle.model.sse import EventTooLarge
from spindle.model.websocket.frames import CLOSE, PING, PONG, TEXT, BadFrame, FrameReader, Message, frame

PONGS_MAX_BYTES = 64 * 1024
_NORMAL = (1000).to_bytes(2, "big")


class WebSocket(asyncio.Protocol):
    """Takes over a connection whose server agreed to this protocol."""

    def __init__(self, connection: Connection, new_mask: Callable[[], bytes], message_max_bytes: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._connection = connection
        self._transport = connection.transport
        self._new_mask = new_mask
        self._reader = FrameReader(message_max_bytes)
        self._messages: deque[bytes] = deque()
        self._buffered_bytes = 0
        self._is_paused = False
        self._failure: SpindleError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self.headers = connection.headers
        """Of the answer that agreed."""
        self.has_answered = False
        """A text came over it."""
        self._transport.set_protocol(self)
        if connection.leftover:
            self.data_received(bytes(connection.leftover))

    @property
    def is_closed(self) -> bool:
        return self._failure is not None or self._transport.is_closing()

    def send(self, text: bytes) -> None:
        """Raises what ended the connection, if it has ended."""
        if self._failure is not None:
            raise self._failure
        if self._transport.is_closing():
            raise PeerClosed("the server closed the connection")
        self._transport.write(frame(TEXT, text, self._new_mask()))

    async def receive(self, deadline: float) -> bytes:
        """The next text; `deadline` is in loop time. Raises `TransportError` or `EventTooLarge`."""
        while not self._messages:
            if self._failure is not None:
                raise self._failure
            await self._wait(deadline)
        text = self._messages.popleft()
        self._let_in(len(text))
        return text

    async def first(self, timeout_s: float) -> bytes:
        """The first text of an answer. The server's time starts when it has the whole question."""
        unsent = self._transport.get_write_buffer_size()
        while True:
            try:
                return await self.receive(self._loop.time() + timeout_s)
            except TimedOut:
                left = self._transport.get_write_buffer_size()
                if left >= unsent:
                    raise
                unsent = left

    def waiting(self) -> Iterator[bytes]:
        """The texts that have arrived already."""
        while self._messages:
            text = self._messages.popleft()
            self._let_in(len(text))
            yield text

    def close(self) -> None:
        """Say goodbye, as a client does that has read all its answers."""
        if not self.is_closed:
            self._transport.write(frame(CLOSE, _NORMAL, self._new_mask()))
            self._transport.close()

    def abort(self) -> None:
        """Close at once, whatever is under way."""
        self._transport.abort()

    # ---- asyncio's callbacks -------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        try:
            for message in self._reader.feed(data):
                self._take(message)
        except BadFrame as error:
            self._fail(BadResponse(str(error)))
        except EventTooLarge as error:
            self._fail(error)
        if self._buffered_bytes > BUFFER_MAX_BYTES and not self._is_paused and not self._transport.is_closing():
            self._is_paused = True
            self._transport.pause_reading()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._failure is None:
            why = getattr(exc, "strerror", None) or (str(exc) if exc else "")
            self._failure = PeerClosed(why or "the server closed the connection")
        self._connection.connection_lost(exc)
        self._wake()

    # ---- inside --------------------------------------------------------------------------------------

    def _take(self, message: Message) -> None:
        if self._failure is not None:
            return  # behind its goodbye
        if message.kind == TEXT:
            self.has_answered = True
            self._messages.append(message.data)
            self._buffered_bytes += len(message.data)
        elif message.kind == PING:
            # Whoever asks and does not read the answers gets no more of them.
            if not self._transport.is_closing() and self._transport.get_write_buffer_size() < PONGS_MAX_BYTES:
                self._transport.write(frame(PONG, message.data, self._new_mask()))
        elif message.kind == CLOSE:
            self._transport.write(frame(CLOSE, message.data[:2], self._new_mask()))
            self._transport.close()
            self._failure = PeerClosed(_goodbye(message.data))
        elif message.kind != PONG:
            self._fail(BadResponse("the server sent a message that is not text"))

    def _fail(self, failure: SpindleError) -> None:
        if self._failure is None:
            self._failure = failure
        self.abort()

    def _let_in(self, taken_bytes: int) -> None:
        self._buffered_bytes -= taken_bytes
        if self._is_paused and self._buffered_bytes <= BUFFER_MAX_BYTES:
            self._is_paused = False
            if not self._transport.is_closing():
                self._transport.resume_reading()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _wait(self, deadline: float) -> None:
        """Until something happened; `TimedOut` at `deadline`."""
        waiter = self._waiter = self._loop.create_future()
        timer = self._loop.call_at(deadline, _expire, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiter = None


def _expire(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_exception(TimedOut("the server sent nothing in time"))


def _goodbye(data: bytes) -> str:
    """What a close frame says: a code, and often a reason."""
    if len(data) < 2:
        return "the server closed the connection"
    from spindle.model.server_words import one_line  # only when something failed

    code, reason = int.from_bytes(data[:2], "big"), one_line(data[2:].decode("utf-8", "replace"))
    return f"the server closed the connection (code {code}{': ' + reason if reason else ''})"
