"""An answer that comes over a WebSocket, with the face of one over HTTP, so that its reader sees no difference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from spindle.model.connection import TimedOut, TransportError
from spindle.model.websocket.socket import WebSocket
from spindle.model.websocket.told import Said, told_by
from spindle.model.wires.responses.decoder import event_type
from spindle.protocol.items import json_reader

if TYPE_CHECKING:
    from spindle.model.websocket.line import Line

_ITEM_DONE = b"response.output_item.done"
_COMPLETED = (b"response.completed", b"response.done")
_ENDS = (*_COMPLETED, b"response.failed", b"response.incomplete", b"error")
_FORGOTTEN = "previous_response_not_found"
_TOO_OLD = "websocket_connection_limit_reached"


class _ErrorEvent(msgspec.Struct):
    status: int | None = None
    status_code: int | None = None
    error: dict[str, Any] | None = None
    headers: dict[str, Any] | None = None


_error_event = json_reader(_ErrorEvent)


class SocketAnswer:
    """One answer. End with `release` or `close`; `close` is always safe."""

    is_framed = True

    def __init__(self, line: Line, socket: WebSocket, said: Said, first: bytes, *, is_first: bool) -> None:
        self._line = line
        self._socket = socket
        self._begun = first
        self._said = said
        self._finished: list[bytes] = []
        self._end = b""
        self._is_over = False
        self.status = 200
        # What the server said when it agreed holds for the first answer; how it counts, for all.
        counts = ("x-reasoning-included",)
        self.headers = {name: value for name, value in socket.headers.items() if is_first or name in counts}
        self.starts_over = False
        """The server only wants to be told everything once more."""
        if event_type(first) == b"error":
            self._read_error(first, is_first=is_first)

    # ---- as of any answer ----------------------------------------------------------------------------

    async def chunk(self, deadline: float) -> bytes:
        """The next event; b"" when there will be none. Raises `TransportError`; `deadline` is in loop time."""
        if self._is_over or self._end:
            return b""
        event, self._begun = self._begun, b""
        if not event:
            try:
                event = await self._socket.receive(deadline)
            except TimedOut:
                raise
            except TransportError:
                self._line.broke()
                raise
        return self._noted(event)

    def frames(self) -> WholeFrames:
        """What makes events of chunks."""
        return WholeFrames(self)

    def waiting(self) -> Iterator[bytes]:
        """The events behind the last chunk that have arrived already."""
        if not self._end:
            for event in self._socket.waiting():
                yield self._noted(event)
                if self._end:
                    return

    async def read(self, max_bytes: int, timeout_s: float) -> bytes:
        """What an answer that is none says; it is here already."""
        self._end = self._begun
        return self._begun[:max_bytes]

    def release(self) -> None:
        """The server may be asked again. What it remembers counts only if the answer was whole."""
        if self._is_over:
            return
        self._is_over = True
        if not self._end:
            self._line.drop()
        elif event_type(self._end) in _COMPLETED:
            self._line.finish(told_by(self._said, self._finished, self._end))
        else:
            self._line.finish(None)

    def close(self) -> None:
        """Hang up, unless the answer was read to its end."""
        if not self._is_over:
            self._is_over = True
            self._line.drop()

    # ---- inside --------------------------------------------------------------------------------------

    def _noted(self, event: bytes) -> bytes:
        kind = event_type(event)
        if kind == _ITEM_DONE:
            self._finished.append(event)
        elif kind in _ENDS:
            self._end = event
        return event

    def _read_error(self, event: bytes, *, is_first: bool) -> None:
        """An error in the place of an answer is what over HTTP is a status, with its headers."""
        try:
            error = _error_event(event)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        code = (error.error or {}).get("code")
        # Each of these can be true once; a server that says it again is refusing.
        self.starts_over = (code == _FORGOTTEN and self._said.goes_on) or (code == _TOO_OLD and not is_first)
        status = error.status or error.status_code or (400 if self.starts_over else 0)
        if 400 <= status < 600:
            self.status = status
            given = error.headers or {}
            self.headers = {
                name.lower(): str(value) for name, value in given.items() if not isinstance(value, dict | list)
            }
        if code == _TOO_OLD:
            self._line.drop()


class WholeFrames:
    """Takes chunks that are events already."""

    made_progress = True

    def __init__(self, answer: SocketAnswer) -> None:
        self._answer = answer

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        yield chunk
        yield from self._answer.waiting()

    def finish(self) -> list[bytes]:
        return []
