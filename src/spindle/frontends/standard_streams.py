"""stdin, stdout and stderr of this process, as every front end can rely on them.

Python's own streams lose data where the system takes or gives less than was asked for: with `PYTHONUNBUFFERED`, and
where somebody made the stream non-blocking. The streams installed here write everything or raise, and a read that
finds nothing yet waits. They never change the mode of a descriptor, which others (the user's shell) share with us.
"""

from __future__ import annotations

import io
import os
import sys

TYPE_CHECKING = False  # loading `typing` to learn this would take longer than all else here
if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import FrameType
    from typing import Any, TextIO

LAST_WRITE_S = 1.0
"""After a signal: how long what is being written may still take to be read."""


class _GivenUp(BaseException):
    """Nobody reads what is being written, and the program was told to end. Does not leave this module."""

    def __init__(self, signal: int) -> None:
        super().__init__()
        self.signal = signal


class WholeWriter(io.RawIOBase):
    """Writes to a descriptor until everything is written."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.is_writing = False
        self.given_up: int | None = None
        """The signal after which nothing more was written."""

    def write(self, data: Any, /) -> int:
        with memoryview(data).cast("B") as view:
            size = len(view)
            if self.given_up is not None:
                return size
            self.is_writing = True
            try:
                self._write_all(view)
            except _GivenUp as end:
                self.given_up = end.signal
            finally:
                self.is_writing = False
            return size

    def _write_all(self, view: memoryview) -> None:
        start, size = 0, len(view)
        while start < size:
            try:
                start += os.write(self._fd, view[start:])
            except BlockingIOError:
                _wait(self._fd, for_writing=True)

    def fileno(self) -> int:
        return self._fd

    def isatty(self) -> bool:
        return os.isatty(self._fd)

    def writable(self) -> bool:
        return True


class PatientReader(io.RawIOBase):
    """Reads from a descriptor; where nothing is there yet, it waits."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def readinto(self, buffer: Any, /) -> int:
        while True:
            try:
                return os.readv(self._fd, [buffer])
            except BlockingIOError:
                _wait(self._fd, for_writing=False)

    def fileno(self) -> int:
        return self._fd

    def isatty(self) -> bool:
        return os.isatty(self._fd)

    def readable(self) -> bool:
        return True


def _wait(fd: int, *, for_writing: bool) -> None:
    import select  # only where a stream is non-blocking

    poller = select.poll()
    poller.register(fd, select.POLLOUT if for_writing else select.POLLIN)
    poller.poll()


def install() -> None:
    """Put these streams where Python's own are. Once, before anything is read or written."""
    if None in (sys.stdin, sys.stdout, sys.stderr):
        _open_closed_streams()
    sys.stdin = io.TextIOWrapper(
        io.BufferedReader(PatientReader(0)), encoding=sys.stdin.encoding, errors=sys.stdin.errors
    )
    sys.stdout = _whole(sys.stdout, 1)
    sys.stderr = _whole(sys.stderr, 2)


def _whole(stream: TextIO, fd: int) -> io.TextIOWrapper:
    """A stream like this one, which loses nothing."""
    raw = WholeWriter(fd)
    is_unbuffered = isinstance(stream, io.TextIOWrapper) and stream.write_through
    return io.TextIOWrapper(
        raw if is_unbuffered else io.BufferedWriter(raw),  # pyright: ignore[reportArgumentType]
        encoding=stream.encoding,
        errors=stream.errors,
        newline="\n",
        line_buffering=bool(stream.line_buffering),
        write_through=is_unbuffered,
    )


def _open_closed_streams() -> None:
    """Put /dev/null where the caller closed a standard stream: the next file opened would take its number."""
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened == fd:
                os.set_inheritable(fd, True)  # a program we start gets it too, as it would get a real one
            else:
                os.dup2(opened, fd)
                os.close(opened)
            setattr(sys, name, os.fdopen(fd, "w" if fd else "r", encoding="utf-8", closefd=False))


# ---- the end of the process ------------------------------------------------------------------------


def flush(code: int) -> int:
    """Write what still waits, and give the exit code: a run whose output cannot be written has failed."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = code or 1  # its reader went away; there is nobody left to tell
    except OSError as error:
        code = code or failed(error)
    _complain("")
    if not code and (raw := _raw(sys.stdout)) is not None and raw.given_up is not None:
        code = 128 + raw.given_up
    return code


def failed(error: OSError) -> int:
    """Say that stdout cannot be written, and give the exit code for that."""
    _complain(f"error: stdout cannot be written: {error.strerror}\n")
    return 1


def _complain(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        pass  # there is no other place for it


def bound_writes_after(signals: Iterable[int]) -> None:
    """Let these signals end a write that nobody reads.

    For programs that write on the thread of their event loop, whose own handler cannot run meanwhile. Call it after the
    loop has its handlers: those are called as before. After the signal, a write that takes longer than `LAST_WRITE_S`
    is given up, and nothing more goes to its stream.
    """
    import signal  # only for programs that serve until they are told to stop

    caught: list[int] = []

    def begin(number: int, frame: FrameType | None) -> None:
        caught.append(number)
        signal.setitimer(signal.ITIMER_REAL, LAST_WRITE_S, LAST_WRITE_S)

    def give_up(number: int, frame: FrameType | None) -> None:
        for stream in (sys.stdout, sys.stderr):
            if (raw := _raw(stream)) is not None and raw.is_writing:
                raise _GivenUp(caught[0])

    signal.signal(signal.SIGALRM, give_up)
    for number in signals:
        signal.signal(number, begin)


def _raw(stream: TextIO) -> WholeWriter | None:
    buffer = getattr(stream, "buffer", None)
    raw = getattr(buffer, "raw", buffer)
    return raw if isinstance(raw, WholeWriter) else None
