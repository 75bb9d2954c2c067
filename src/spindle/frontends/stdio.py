"""Lines over stdin and stdout, for front ends that talk to a program."""

from __future__ import annotations

import asyncio
import os
import select
import stat
import sys
import threading
from collections import deque
from functools import partial

from spindle.errors import SpindleError
from spindle.frontends.standard_streams import PatientReader
from spindle.protocol.quote import readable

MAX_LINE_BYTES = 64 << 20
_CHUNK_BYTES = 1 << 16
_COMPLAINT_CHARACTERS = 1000


class LineTooLong(SpindleError):
    """A line was dropped because of its length; the ones after it are read."""


class Lines:
    """The lines of stdin.

    A thread reads them, so that the descriptor can stay as it is: made non-blocking, it would be so for everybody who
    shares it, our own stdout on the same socket or terminal among them. The thread reads when more is wanted, so a
    client that sends faster than we work is slowed down instead of filling our memory.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._whole: deque[bytes | LineTooLong] = deque()
        self._part: list[bytes] = []
        self._part_bytes = 0
        self._failure: OSError | None = None
        self._is_over = False
        self._arrived = asyncio.Event()
        self._was_wanted = threading.Semaphore(0)
        threading.Thread(target=self._read, name="stdin", daemon=True).start()

    async def next(self) -> bytes:
        """The next line, with its end; b"" at the end of input. Raises `LineTooLong`, and `OSError`."""
        while not self._whole:
            if self._failure is not None:
                raise self._failure
            if self._is_over:
                return b""
            self._arrived.clear()
            self._was_wanted.release()
            await self._arrived.wait()
        line = self._whole.popleft()
        if isinstance(line, LineTooLong):
            raise line
        return line

    def _read(self) -> None:
        """Runs in the thread."""
        # Below the buffer, whose lock this thread must not hold when the process ends.
        stdin = PatientReader(0)
        chunk = None
        while chunk != b"":
            self._was_wanted.acquire()
            try:
                chunk = stdin.read(_CHUNK_BYTES) or b""
                arrived = partial(self._take, chunk) if chunk else partial(self._end, None)
            except OSError as error:
                chunk, arrived = b"", partial(self._end, error)
            try:
                self._loop.call_soon_threadsafe(arrived)
            except RuntimeError:
                return  # the loop has ended

    def _take(self, chunk: bytes) -> None:
        lines = chunk.split(b"\n")
        rest = lines.pop()
        for line in lines:
            self._part.append(line)
            self._part_bytes += len(line)
            self._end_line(b"\n")
        if rest:
            self._part_bytes += len(rest)
            if self._part_bytes <= MAX_LINE_BYTES:
                self._part.append(rest)
            else:
                self._part.clear()
        self._arrived.set()

    def _end_line(self, end: bytes) -> None:
        if self._part_bytes > MAX_LINE_BYTES:
            self._whole.append(LineTooLong(f"a line is longer than {MAX_LINE_BYTES >> 20} MiB; it was dropped"))
        else:
            self._whole.append(b"".join([*self._part, end]))
        self._part.clear()
        self._part_bytes = 0

    def _end(self, failure: OSError | None) -> None:
        if self._part_bytes:
            self._end_line(b"")
        self._failure, self._is_over = failure, True
        self._arrived.set()


def write_all(data: bytes) -> None:
    """Write to stdout, at once. May wait for its reader: not for the thread of the event loop."""
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def write_without_waiting(data: bytes) -> bool:
    """Write to stdout if that cannot take time: a little, to a pipe that has room. False: nothing was written."""
    stdout = sys.stdout.fileno()
    # A pipe that is ready takes this much without waiting, and in one piece.
    if len(data) > select.PIPE_BUF or not stat.S_ISFIFO(os.fstat(stdout).st_mode):
        return False
    writable = select.poll()
    writable.register(stdout, select.POLLOUT)
    if writable.poll(0) != [(stdout, select.POLLOUT)]:
        return False
    write_all(data)
    return True


class Complaints:
    """What is wrong with what the other side sends, on stderr. A reader of stderr who does not read costs nothing."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._unsaid = 0

    def say(self, text: str) -> None:
        # A pipe that is ready takes at least 4096 bytes without waiting.
        writable = select.poll()
        writable.register(2, select.POLLOUT)
        if not writable.poll(0):
            self._unsaid += 1
            return
        if self._unsaid:
            text = f"{text} ({self._unsaid} complaints before this one were not written: nobody read stderr)"
            self._unsaid = 0
        cut = text if len(text) <= _COMPLAINT_CHARACTERS else text[:_COMPLAINT_CHARACTERS] + "…"
        try:
            print(f"{self._program}: {readable(cut)}", file=sys.stderr, flush=True)
        except OSError:
            pass  # there is no other place for it
