"""The body of a thread's requests, kept between them: an input begins with the one before, so only the rest is added.

A long thread's body has megabytes; putting it together anew for every tool call would cost more than the call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from spindle.protocol.items import one_copy

if TYPE_CHECKING:
    from spindle.protocol.request import Request


class Growth(msgspec.Struct, frozen=True, gc=False):
    """How a body came about, and what it shares with the one that the same wire made before."""

    head: bytes
    rest: bytes
    """What stands behind the pieces. `head` and `rest` together are a body without any."""
    kept: int
    """How many of the first pieces (items, messages, blocks) are those of the body before."""
    pieces: Callable[[int], list[bytes]]
    """The pieces from this one on."""
    same_bytes: int
    """How many of the first bytes are those of the body before."""
    settled_bytes: int
    """How many of the first bytes the next body will share, if it continues this one."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Nobody asks for it once the answer is there; so what is packed then is that there is none."""
        return _nothing, ()


NOTHING = Growth(b"", b"", 0, lambda start: [], 0, 0)
"""Of a wire that has encoded nothing yet."""


def _nothing() -> Growth:
    return NOTHING


class GrowingBody:
    """Encodes requests into one buffer. What `encode` returns is valid until it is called again."""

    def __init__(self) -> None:
        self.growth = NOTHING
        self._buffer = bytearray()
        self._head = b""
        self._items: list[bytes] = []
        self._items_end = 0

    def __getstate__(self) -> dict[str, Any]:
        """Packed without the buffer, which can be made again."""
        return {**vars(self), "_buffer": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._buffer = bytearray(self._head)
        self._buffer += b",".join(self._items)

    def encode(self, request: Request) -> bytearray:
        """The same bytes as `request.encode()`."""
        head, rest = request.frame()
        return self.join(head, request.input, rest)

    def join(self, head: bytes, items: list[bytes], rest: bytes) -> bytearray:
        """`head`, the items with commas between them, and `rest`."""
        known, same_bytes = self._items, self._items_end
        kept = len(known)
        if known and head == self._head and items[:kept] == known:
            self._extend(items[kept:])
        else:
            kept = same_bytes = 0
            head = one_copy(head)
            # A fresh buffer, too, where a transport may still hold on to the old one.
            self._buffer = bytearray(head)
            self._buffer += b",".join(items)
        self._head, self._items, self._items_end = head, items, len(self._buffer)
        self.growth = Growth(head, rest, kept, lambda start: items[start:], same_bytes, self._items_end)
        self._buffer += rest
        return self._buffer

    def _extend(self, new: list[bytes]) -> None:
        try:
            del self._buffer[self._items_end :]
        except BufferError:
            # The last body was not sent to its end (the server answered early): the transport still holds it.
            self._buffer = self._buffer[: self._items_end]
        buffer = self._buffer
        for item in new:  # one by one: a request that goes on after many items would need them all a second time
            buffer += b","
            buffer += item
