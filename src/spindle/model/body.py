"""The body of a thread's requests, kept between them: an input begins with the one before, so only the rest is added.

A long thread's body has megabytes; putting it together anew for every tool call would cost more than the call.
"""

from __future__ import annotations

from spindle.protocol.request import Request


class GrowingBody:
    """Encodes requests into one buffer. What `encode` returns is valid until it is called again."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._head = b""
        self._items: list[bytes] = []
        self._items_end = 0

    def encode(self, request: Request) -> bytearray:
        """The same bytes as `request.encode()`."""
        head, rest = request.frame()
        return self.join(head, request.input, rest)

    def join(self, head: bytes, items: list[bytes], rest: bytes) -> bytearray:
        """`head`, the items with commas between them, and `rest`."""
        known = self._items
        if known and head == self._head and items[: len(known)] == known:
            self._extend(items[len(known) :])
        else:
            # A fresh buffer, too, where a transport may still hold on to the old one.
            self._buffer = bytearray(head)
            self._buffer += b",".join(items)
        self._head, self._items, self._items_end = head, items, len(self._buffer)
        self._buffer += rest
        return self._buffer

    def _extend(self, new: list[bytes]) -> None:
        try:
            del self._buffer[self._items_end :]
        except BufferError:
            # The last body was not sent to its end (the server answered early): the transport still holds it.
            self._buffer = self._buffer[: self._items_end]
        if new:
            self._buffer += b","
            self._buffer += b",".join(new)
