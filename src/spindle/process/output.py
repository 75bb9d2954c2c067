"""A command's output in constant memory: the head and the tail are kept, what lies between is counted."""

from __future__ import annotations

OUTPUT_CAP = 1024 * 1024


class OutputRing:
    """The first and the last half of `cap` bytes of a stream, and how much there was in all."""

    __slots__ = ("_half", "_head", "_last", "_tail", "newlines", "total")

    def __init__(self, cap: int = OUTPUT_CAP) -> None:
        self._half = cap // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._last = 0x0A
        self.total = 0
        """Bytes ever added."""
        self.newlines = 0

    def add(self, data: bytes) -> None:
        if not data:
            return
        self.total += len(data)
        self.newlines += data.count(b"\n")
        self._last = data[-1]
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if not data:
            return
        if len(data) >= self._half:
            self._tail[:] = data[-self._half :]
            return
        self._tail += data
        # Trimmed only now and then, so that many small chunks do not move half a megabyte each.
        if len(self._tail) > 2 * self._half:
            del self._tail[: -self._half]

    @property
    def head(self) -> bytes:
        return bytes(self._head)

    @property
    def tail(self) -> bytes:
        """What was kept behind the head; follows it directly when nothing was dropped."""
        return bytes(self._tail[-self._half :]) if self._half else b""

    @property
    def dropped(self) -> int:
        """Bytes between head and tail that are gone."""
        return self.total - len(self._head) - min(len(self._tail), self._half)

    @property
    def lines(self) -> int:
        """Lines ever added; a last line without its newline counts."""
        return self.newlines + (self._last != 0x0A)

    def value(self) -> bytes:
        """Head and tail as one."""
        return self.head + self.tail

    def peek(self) -> Taken:
        """What `take` would hand over."""
        return Taken(self.head, self.tail, self.total, self.lines, self.dropped)

    def take(self, *, hold_partial: bool = False) -> Taken:
        """Hand over what was collected and start afresh; `hold_partial` keeps back a character that is not whole."""
        held = b""
        if hold_partial:
            held = _partial_character(self.tail or self.head)
        taken = self.peek()
        if held:
            taken.total -= len(held)
            if taken.tail:
                taken.tail = taken.tail[: -len(held)]
            else:
                taken.head = taken.head[: -len(held)]
        self._head.clear()
        self._tail.clear()
        self._last, self.total, self.newlines = 0x0A, 0, 0
        self.add(held)
        return taken


class Taken:
    """What a ring holds, or held. `tail` follows `head` directly unless something was `dropped` between them."""

    __slots__ = ("dropped", "head", "lines", "tail", "total")

    def __init__(self, head: bytes, tail: bytes, total: int, lines: int, dropped: int) -> None:
        self.head = head
        self.tail = tail
        self.total = total
        self.lines = lines
        self.dropped = dropped

    def text(self) -> str:
        """UTF-8 with replacement characters; head and tail joined."""
        return (self.head + self.tail).decode("utf-8", "replace")


def _partial_character(data: bytes) -> bytes:
    """The last one to three bytes of `data` if they begin a UTF-8 character that is not complete."""
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte < 0x80:
            return b""
        if byte >= 0xC0:
            wanted = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[-back:] if back < wanted else b""
    return b""
