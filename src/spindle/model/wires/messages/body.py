"""The body of a thread's Messages requests, with its cache marks, kept between them.

A server's cache holds what stands before a mark. A request has marks on the last block of the system text, on the last
block of all, and where the request before had its last one, so that it reads exactly what that one wrote. That place
is told from the conversation alone: the last user block before the latest assistant message.
"""

from __future__ import annotations

from collections.abc import Sequence

from spindle.model.body import NOTHING, Growth
from spindle.model.wires.messages.blocks import Block, marked

_BEGIN = {True: b'{"role":"user","content":[', False: b'{"role":"assistant","content":['}
_TURN = {is_user: b"]}," + begin for is_user, begin in _BEGIN.items()}


class GrowingBody:
    """Puts bodies together in one buffer. What `encode` returns is valid until it is called again.

    What stands before the marks never changes and is kept; only what comes after is written anew for each request.
    """

    def __init__(self) -> None:
        self.growth = NOTHING
        self._buffer = bytearray()
        self._head = b""
        self._kept = 0
        """How many blocks are in the buffer for good."""
        self._kept_bytes = 0

    def encode(self, head: bytes, blocks: Sequence[Block], tail: Sequence[Block], rest: bytes) -> bytearray:
        """`head` and the messages and `rest`. `blocks` begin with those of the call before; `tail` follows them."""
        marks = _marks(blocks, tail)
        stable = min(marks[0], len(blocks))
        if head != self._head or stable < self._kept:
            self.restart()
            self._head = head
            self._buffer += head
        else:
            self._cut()
        kept, same_bytes = self._kept, self._kept_bytes
        self._write(blocks, kept, stable)
        self._kept, self._kept_bytes = stable, len(self._buffer)
        new = [*blocks[stable:], *tail]
        for place, block in enumerate(new, stable):
            before = new[place - stable - 1] if place > stable else (blocks[place - 1] if place else None)
            self._buffer += _joint(before, block)
            self._buffer += marked(block.data) if place in marks else block.data
        self._buffer += b"]}"
        self._buffer += rest

        def pieces(start: int) -> list[bytes]:
            return [block.data for block in (*blocks[start:], *tail[max(0, start - len(blocks)) :])]

        self.growth = Growth(head, rest, kept, pieces, same_bytes, self._kept_bytes)
        return self._buffer

    def restart(self) -> None:
        # A fresh buffer: a transport may still hold on to the old one.
        self._buffer = bytearray()
        self._kept = self._kept_bytes = 0
        self._head = b""

    def _cut(self) -> None:
        end = self._kept_bytes or len(self._head)
        try:
            del self._buffer[end:]
        except BufferError:
            # The last body was not sent to its end (the server answered early): the transport still holds it.
            self._buffer = self._buffer[:end]

    def _write(self, blocks: Sequence[Block], start: int, end: int) -> None:
        for place in range(start, end):
            self._buffer += _joint(blocks[place - 1] if place else None, blocks[place])
            self._buffer += blocks[place].data


def _joint(before: Block | None, block: Block) -> bytes:
    """What stands between two blocks: nothing but a comma, or the border of two messages."""
    if before is None:
        return _BEGIN[block.is_user]
    return b"," if before.is_user == block.is_user else _TURN[block.is_user]


def _marks(blocks: Sequence[Block], tail: Sequence[Block]) -> tuple[int, int]:
    """The places of the last block, which is the user's, and of the last user block before the latest answer.

    Where there is no answer yet, both are the same.
    """
    length = len(blocks) + len(tail)

    def is_user(place: int) -> bool:
        return (blocks[place] if place < len(blocks) else tail[place - len(blocks)]).is_user

    place = length - 1
    while place >= 0 and is_user(place):
        place -= 1
    while place >= 0 and not is_user(place):
        place -= 1
    return (place if place >= 0 else length - 1), length - 1
