"""A command's output in constant memory: the head and the tail are kept, what lies between is counted."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spindle.policy.secrets import Secrets

OUTPUT_CAP = 1024 * 1024
SMALL_PIECE = 4096
"""Chunks below this size are gathered: a program that prints byte by byte must not cost an object per byte."""

SLACK = 4096
"""How many bytes before the tail are kept too: a secret that the tail begins inside of can be recognised only as a
whole."""


class OutputRing:
    """The first and the last half of `cap` bytes of a stream, and how much there was in all.

    Large chunks are kept as they come, never copied: several rings that see the same stream share them. Secrets are
    masked when the output is looked at, so that a flood of which little is kept costs no search.
    """

    __slots__ = (
        *("_counts_lines", "_given", "_half", "_head", "_kept", "_last", "_pieces", "_seen", "_secrets", "_wanted"),
        *("newlines", "total"),
    )

    def __init__(self, cap: int = OUTPUT_CAP, *, counts_lines: bool = True, secrets: Secrets | None = None) -> None:
        self._half = cap // 2
        self._secrets = secrets
        self._wanted = self._half + (SLACK if secrets is not None else 0)
        """Bytes that are kept behind the head."""
        self._given = b""
        """The last bytes that were taken: a secret may have begun in them."""
        self._seen: tuple[int, Taken] | None = None
        """What `peek` gave, and for which total: people and the model look at the same output."""
        self._counts_lines = counts_lines
        self._head = bytearray()
        self._pieces: deque[bytes | bytearray] = deque()
        self._kept = 0
        """Bytes in the pieces behind the head."""
        self._last = 0x0A
        self.total = 0
        """Bytes ever added."""
        self.newlines = 0

    def clear(self) -> None:
        """Forget everything, as if nothing had been added."""
        self._head.clear()
        self._pieces.clear()
        self._given = b""
        self._seen = None
        self._last = 0x0A
        self._kept = self.total = self.newlines = 0

    def add(self, data: bytes) -> None:
        if not data:
            return
        self.total += len(data)
        if self._counts_lines:
            self.newlines += data.count(b"\n")
        self._last = data[-1]
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._add_behind(data)

    def _add_behind(self, data: bytes) -> None:
        pieces = self._pieces
        if len(data) >= SMALL_PIECE:
            pieces.append(data)
        elif pieces and isinstance(pieces[-1], bytearray) and len(pieces[-1]) < SMALL_PIECE:
            pieces[-1] += data
        else:
            pieces.append(bytearray(data))
        self._kept += len(data)
        while pieces and self._kept - len(pieces[0]) >= self._wanted:
            self._kept -= len(pieces.popleft())

    @property
    def head(self) -> bytes:
        return bytes(self._head)

    @property
    def tail(self) -> bytes:
        """What was kept behind the head; follows it directly when nothing was dropped."""
        return b"".join(self._pieces)[-self._half :] if self._half else b""

    @property
    def dropped(self) -> int:
        """Bytes between head and tail that are gone."""
        return self.total - len(self._head) - min(self._kept, self._half)

    @property
    def lines(self) -> int:
        """Lines ever added; a last line without its newline counts."""
        return self.newlines + (self._last != 0x0A)

    def value(self) -> bytes:
        """Head and tail as one."""
        return self.head + self.tail

    def _last_bytes(self, count: int) -> bytes:
        """The end of `value`, without a copy of the rest."""
        found = b""
        for piece in reversed(self._pieces):
            found = bytes(piece[-count:]) + found
            if len(found) >= count:
                return found[-count:]
        return bytes(self._head[-count:]) + found if len(self._head) else found

    def peek(self) -> Taken:
        """What `take` would hand over."""
        if self._secrets is None:
            return Taken(self.head, self.tail, self.total, self.lines, self.dropped)
        if self._seen is None or self._seen[0] != self.total:
            self._seen = self.total, self._masked(self._secrets, len(self._head) + self._kept)
        taken = self._seen[1]
        return Taken(taken.head, taken.tail, taken.total, taken.lines, taken.dropped)

    def take(self, *, hold_partial: bool = False, most: int | None = None) -> Taken:
        """Hand over what was collected and start afresh.

        `hold_partial` keeps back a character that is not whole, and what may be the beginning of a secret. Of more than
        `most` bytes only that much from either end may be wanted.
        """
        kept = self.value() if hold_partial else self._last_bytes(_GIVEN)
        end = len(kept) - len(_partial_character(kept)) if hold_partial else len(kept)
        if hold_partial and self._secrets is not None:
            end = min(end, max(0, self._secrets.forms().holds_from(self._given + kept) - len(self._given)))
        held = kept[end:]
        count = len(self._head) + self._kept - len(held)
        taken = self._masked(self._secrets, count, most) if self._secrets else self.peek()
        taken.total -= len(held)
        if held and not self._secrets:
            if taken.tail:
                taken.tail = taken.tail[: -len(held)]
            else:
                taken.head = taken.head[: -len(held)]
        self._given = (self._given + kept[:end])[-_GIVEN:]
        self._head.clear()
        self._pieces.clear()
        self._kept = 0
        self._seen = None
        self._last, self.total, self.newlines = 0x0A, 0, 0
        self.add(held)
        return taken

    def _masked(self, secrets: Secrets, end: int, most: int | None = None) -> Taken:
        """The first `end` of the kept bytes, without secrets."""
        forms = secrets.forms()
        head, tail = self.head[:end], b"".join(self._pieces)[: max(0, end - len(self._head))]
        dropped, before = self.dropped, max(0, len(tail) - self._half)
        if most is not None and len(head) + len(tail) > 2 * (most + SLACK):
            both = head + tail if not dropped else b""
            head = (both or head)[: most + SLACK]
            tail, before = (both or tail)[-most - SLACK :], min(SLACK, max(0, len(both or tail) - most))
            dropped = self.total - len(head) - (len(tail) - before)
        if not dropped:
            shown = forms.mask_from(self._given + head + tail, len(self._given))
            return Taken(shown, b"", self.total, self.lines, 0)
        # Both sides of the gap may have cut a secret in two.
        head = forms.mask_from(self._given + head, len(self._given), is_cut=True)
        return Taken(head, forms.mask_from(tail, before), self.total, self.lines, dropped)


_GIVEN = 64


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
