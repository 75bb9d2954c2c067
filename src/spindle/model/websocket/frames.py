"""Frames of the WebSocket protocol (RFC 6455) as a client writes and reads them. Pure: bytes in, messages out.

Written here, because loading a library for it takes a third of the time to the first request.
"""

from __future__ import annotations

from codecs import utf_8_decode
from typing import NamedTuple

from spindle.errors import SpindleError
from spindle.model.sse import EventTooLarge

TEXT, BINARY, CLOSE, PING, PONG = 0x1, 0x2, 0x8, 0x9, 0xA
_CONTINUATION = 0x0
_CONTROL_MAX_BYTES = 125
_LAST, _MASKED = 0x80, 0x80
_LENGTH_IN_2, _LENGTH_IN_8 = 126, 127


class BadFrame(SpindleError):
    """What arrived breaks the rules of the protocol. Does not leave `model/`."""


class Message(NamedTuple):
    """A whole message, or a control frame, which may come between the parts of one."""

    kind: int
    data: bytes


def frame(kind: int, data: bytes, mask: bytes) -> bytes:
    """One frame with a whole message. A client masks what it sends, with four bytes that nobody can foresee."""
    size = len(data)
    if size < _LENGTH_IN_2:
        head = bytes((_LAST | kind, _MASKED | size))
    elif size < 1 << 16:
        head = bytes((_LAST | kind, _MASKED | _LENGTH_IN_2)) + size.to_bytes(2, "big")
    else:
        head = bytes((_LAST | kind, _MASKED | _LENGTH_IN_8)) + size.to_bytes(8, "big")
    # As two large numbers, because a loop over bytes would take a hundred times as long.
    key = int.from_bytes((mask * (size // 4 + 1))[:size], "little")
    return head + mask + (int.from_bytes(data, "little") ^ key).to_bytes(size, "little")


class FrameReader:
    """Feed it bytes, cut anywhere; it gives back the messages that became whole."""

    def __init__(self, message_max_bytes: int) -> None:
        self._max = message_max_bytes
        self._buffer = bytearray()
        self._kind = 0
        """Of the message whose parts are being read; 0 = none."""
        self._parts: list[bytes] = []
        self._parts_bytes = 0

    def feed(self, data: bytes) -> list[Message]:
        """Raises `BadFrame` or `EventTooLarge`."""
        buffer = self._buffer
        buffer += data
        messages: list[Message] = []
        at = 0
        while (found := self._frame_at(at)) is not None:
            first, start, at = found
            message = self._take(first, bytes(buffer[start:at]))
            if message is not None:
                messages.append(message)
        del buffer[:at]
        return messages

    def _frame_at(self, at: int) -> tuple[int, int, int] | None:
        """The first byte of a frame, where its data begins, and where it ends; None while it is not whole."""
        buffer = self._buffer
        if len(buffer) < at + 2:
            return None
        first, second = buffer[at], buffer[at + 1]
        if second & _MASKED:
            raise BadFrame("the server masked a frame")
        size, start = second, at + 2
        if second >= _LENGTH_IN_2:
            if first & CLOSE:
                raise BadFrame("the server sent a control frame that is too long")
            start += 2 if second == _LENGTH_IN_2 else 8
            if len(buffer) < start:
                return None
            size = int.from_bytes(buffer[at + 2 : start], "big")
        if self._parts_bytes + size > self._max:
            raise EventTooLarge(f"the server sent an event larger than {self._max} bytes")
        return None if len(buffer) < start + size else (first, start, start + size)

    def _take(self, first: int, data: bytes) -> Message | None:
        kind, is_last = first & 0x0F, bool(first & _LAST)
        if first & 0x70:
            raise BadFrame("the server uses an extension that was not agreed on")
        if kind in (CLOSE, PING, PONG):
            if not is_last:
                raise BadFrame("the server sent a control frame in parts")
            return Message(kind, data)
        if kind not in (_CONTINUATION, TEXT, BINARY):
            raise BadFrame(f"the server sent a frame of an unknown kind ({kind})")
        if (kind == _CONTINUATION) != bool(self._kind):
            raise BadFrame("the server mixed up the parts of its messages")
        if is_last and not self._kind:
            return _checked(kind, data)
        self._kind = self._kind or kind
        self._parts.append(data)
        self._parts_bytes += len(data)
        if not is_last:
            return None
        whole = _checked(self._kind, b"".join(self._parts))
        self._kind, self._parts, self._parts_bytes = 0, [], 0
        return whole


def _checked(kind: int, data: bytes) -> Message:
    if kind == TEXT and not data.isascii():
        try:
            utf_8_decode(data, "strict", True)
        except UnicodeDecodeError as error:
            raise BadFrame("the stream is not valid UTF-8") from error
    return Message(kind, data)
