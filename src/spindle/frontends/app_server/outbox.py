"""Messages that wait to be written to one client. A client that does not read harms nobody but itself.

A client decides how many answers it gets: while too many of them are unread, the server reads no further requests of
that client (`room`). Notifications come unasked: for a client that is behind, neighbouring deltas of one item are
merged, and the server drops a client that leaves too much unread (`overrun`). Nothing is lost by that: the client can
come back and read the thread.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

import msgspec

from spindle.core.stream import BEHIND, FAR_BEHIND, MAX_MERGED_CHARACTERS
from spindle.errors import SpindleError
from spindle.frontends.app_server import rpc
from spindle.frontends.app_server.notifications import DELTAS, Delta, Note

MAX_UNREAD_ANSWERS = 64 << 20
"""With this many bytes unread, no further requests are read."""
MAX_UNREAD_NOTES = 32 << 20
"""With this many bytes unread, the client is given up."""
MAX_WAITING = 10_000
"""So many messages may wait, merged as they are."""

_WRITTEN_AT_ONCE = 1 << 20

Write = Callable[[list[bytes]], Awaitable[None]]


class _Growing:
    """A delta that those of the same item that come after it are added to."""

    __slots__ = ("_key", "_note", "_now_ms", "_pieces", "size")

    def __init__(self, note: Delta, now_ms: int) -> None:
        self._note = note
        self._now_ms = now_ms
        self._key = _key(note)
        self._pieces = [note.delta]
        self.size = len(note.delta)

    def take(self, note: Delta) -> bool:
        """Add it, if it goes on where this one ends."""
        if self.size > MAX_MERGED_CHARACTERS or _key(note) != self._key:
            return False
        self._pieces.append(note.delta)
        self.size += len(note.delta)
        return True

    def line(self) -> bytes:
        return note_line(msgspec.structs.replace(self._note, delta="".join(self._pieces)), self._now_ms)


def _key(note: Delta) -> tuple[object, ...]:
    index = getattr(note, "summary_index", None), getattr(note, "content_index", None)
    return type(note), note.thread_id, note.turn_id, note.item_id, *index


def note_line(note: Note, now_ms: int) -> bytes:
    return rpc.frame({"method": note.method, "params": note, "emittedAtMs": now_ms})


class Outbox:
    """Messages in their order. Putting never waits."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._waiting: deque[tuple[bytes | _Growing, int]] = deque()
        """Each with what it counts among the notes; 0 for an answer."""
        self._answer_bytes = 0
        self._note_bytes = 0
        self._is_behind = False
        self._filled = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._is_closing = False
        self.overrun: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Done, with the reason, when the client is given up. It is then sent nothing more."""

    # ---- putting -------------------------------------------------------------------------------

    def answer(self, line: bytes) -> None:
        """What the client asked for, or is asked."""
        if not self.overrun.done():
            self._answer_bytes += len(line)
            if self._answer_bytes > MAX_UNREAD_ANSWERS and not self._is_closing:
                self._has_room.clear()
            self._append(line)

    def tell(self, note: Note, now_ms: int) -> None:
        """What the client is told unasked."""
        if self.overrun.done():
            return
        if not (self._is_behind and isinstance(note, DELTAS)):
            line = note_line(note, now_ms)
            self._note_bytes += len(line)
            self._append(line, len(line))
        elif isinstance(last := self._waiting[-1][0] if self._waiting else None, _Growing) and last.take(note):
            self._note_bytes += len(note.delta)
        else:
            self._note_bytes += len(note.delta)
            self._append(_Growing(note, now_ms))
        if self._note_bytes > MAX_UNREAD_NOTES or len(self._waiting) > MAX_WAITING:
            self._give_up()

    def _append(self, entry: bytes | _Growing, note_bytes: int = 0) -> None:
        self._waiting.append((entry, note_bytes))
        self._filled.set()
        if len(self._waiting) == BEHIND:
            # The writer, woken before, runs before this.
            asyncio.get_running_loop().call_soon(self._look)
        elif len(self._waiting) == FAR_BEHIND:
            self._is_behind = True

    def _look(self) -> None:
        self._is_behind = len(self._waiting) >= BEHIND

    def _give_up(self) -> None:
        size = max(1, (self._note_bytes + self._answer_bytes) >> 20)
        self.overrun.set_result(f"{len(self._waiting)} messages ({size} MiB) were left unread")
        self._waiting.clear()
        self.close()

    # ---- the client's side ---------------------------------------------------------------------

    async def room(self) -> None:
        """Wait until the client has read most of what it asked for."""
        await self._has_room.wait()

    def close(self) -> None:
        """Nothing more comes; `run` ends when everything is written."""
        self._is_closing = True
        self._filled.set()
        self._has_room.set()

    async def run(self) -> None:
        """Write until closed, or until nobody reads any more."""
        try:
            while True:
                await self._filled.wait()
                self._filled.clear()
                while self._waiting:
                    lines, answer_bytes, note_bytes = self._take()
                    await self._write(lines)
                    self._answer_bytes -= answer_bytes
                    self._note_bytes -= note_bytes
                    if self._answer_bytes <= MAX_UNREAD_ANSWERS:
                        self._has_room.set()
                if self._is_closing:
                    return
        except (BrokenPipeError, ConnectionError):
            return
        except OSError as error:
            raise SpindleError(f"the output cannot be written: {error.strerror}") from error
        finally:
            self.close()

    def _take(self) -> tuple[list[bytes], int, int]:
        """The next lines to write, and how many bytes they count as answers and as notes."""
        lines: list[bytes] = []
        size = answer_bytes = note_bytes = 0
        while self._waiting and size < _WRITTEN_AT_ONCE:
            entry, counted = self._waiting.popleft()
            if isinstance(entry, _Growing):
                line, counted = entry.line(), entry.size
            else:
                line = entry
                answer_bytes += 0 if counted else len(line)
            lines.append(line)
            size += len(line)
            note_bytes += counted
        self._is_behind = len(self._waiting) >= BEHIND
        return lines, answer_bytes, note_bytes
