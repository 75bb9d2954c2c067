"""Rollout files: one thread, one JSON object per line, append only.

Here is the form of a line, and the writer that owns a file while its thread is live. `reading` has the other direction,
`reopening` checks a file before it is written again, and `folding` says what the lines mean.
"""

from __future__ import annotations

import os
from typing import Any

from spindle.errors import ThreadError
from spindle.protocol.clock import Clock, iso_utc
from spindle.protocol.items import encode_payload
from spindle.thread import layout, private_files


def format_line(kind: str, payload: bytes, timestamp: str, ordinal: int | None = None, beside: bytes = b"") -> bytes:
    number = b"" if ordinal is None else b'"ordinal":%d,' % ordinal
    rest = b',"spindle":%s' % beside if beside else b""
    fields = timestamp.encode(), number, kind.encode(), payload, rest
    return b'{"timestamp":"%s",%s"type":"%s","payload":%s%s}\n' % fields


class RolloutWriter:
    """The one writer of a rollout file; holds its lock until closed, except while it rests.

    Every record is one write of one whole line. When the disk refuses, the file is cut back to its last whole line,
    `failed` says why, and later records are dropped: a turn never fails because it cannot be recorded.
    """

    def __init__(self, path: str, clock: Clock) -> None:
        """A writer whose file does not exist yet: records wait in memory until `begin`."""
        self.path = path
        self.failed: str | None = None
        """Why nothing is recorded any more: the file and the system's reason."""
        self._clock = clock
        self._fd: int | None = None
        self._waiting: list[bytes] | None = []
        self._needs_newline = False
        self._left_at: int | None = None
        """How long the file was when we let go of it; None unless we have released it."""
        self._ordinal: int | None = None
        """The next line's number, in a file of the generation that numbers its lines and refuses one that does not."""

    @classmethod
    def reopen(cls, path: str, clock: Clock) -> RolloutWriter:
        """Go on writing an existing file. Raises ThreadLocked while another process does.

        Nothing is changed yet: the caller may have named any file, and only reading it tells what it is.
        """
        from spindle.thread import reopening  # a thread that begins has no such file

        writer = cls(reopening.plain_path(path), clock)
        writer._waiting = None
        try:
            writer._fd = reopening.open_regular(writer.path)
        except OSError as error:
            writer._fail(error)
            return writer
        # Locked before it is looked at: until then another process may be in the middle of a line.
        writer._take_lock()
        size = os.fstat(writer._fd).st_size
        # A torn last line stays as it is, a line of its own; ours begins on the next.
        writer._needs_newline = private_files.ends_inside_a_line(writer._fd, size)
        writer._ordinal = reopening.next_ordinal(writer._fd, size)
        return writer

    def close_to_others(self) -> None:
        """Repair the mode of a file that turned out to be a rollout."""
        if self._fd is not None:
            private_files.close_to_others(self._fd)

    @property
    def is_waiting(self) -> bool:
        """No file yet; records are kept in memory."""
        return self._waiting is not None

    @property
    def recorded_path(self) -> str | None:
        """Where the thread is recorded, or None while (or since) it is not."""
        return None if self.failed or self.is_waiting else self.path

    def begin(self) -> None:
        """Make the file and write what waited. Called when the first user message arrives; a second call is nothing."""
        if self._waiting is None:
            return
        lines, self._waiting = self._waiting, None
        try:
            private_files.make_private_folders(os.path.dirname(self.path), layout.top_folder(self.path))
            # EXCL: the name holds a new id, so whatever has it already is not this thread's file.
            self._fd = private_files.open_private(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL)
        except OSError as error:
            self._fail(error)
            return
        self._take_lock()
        self._write(b"".join(lines))

    def append(self, kind: str, payload: dict[str, Any] | bytes, beside: bytes = b"") -> str:
        """Record one line and give its timestamp. `payload` may be JSON bytes, which are written as they are.

        `beside` is JSON too: what stands in the line's field `spindle`.
        """
        timestamp = iso_utc(self._clock.now())
        if self.failed:
            return timestamp
        raw = payload if isinstance(payload, bytes) else encode_payload(payload)
        # One line, one write: with O_APPEND, two writers cannot mix their lines, even where the other knows no lock.
        line = format_line(kind, raw, timestamp, self._ordinal, beside)
        if self._waiting is not None:
            self._waiting.append(line)
        else:
            self._write(line)
        return timestamp

    def release(self) -> None:
        """Let go of the file and of its lock until something is recorded again: an idle thread holds no descriptor."""
        if self._fd is not None:
            self._left_at = os.fstat(self._fd).st_size
            os.close(self._fd)
            self._fd = None

    def retake(self) -> None:
        """Take the file again. Raises ThreadError when somebody else writes it, or has written it meanwhile."""
        if self._left_at is not None:
            from spindle.thread.reopening import open_as_left  # only after a release

            self._fd, self._left_at = open_as_left(self.path, self._left_at), None

    def close(self) -> None:
        self._left_at = None
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
        self._waiting = None

    def _write(self, lines: bytes) -> None:
        if not lines:
            return
        if self._left_at is not None:
            try:
                self.retake()
            except (OSError, ThreadError) as error:
                self.failed = f"{self.path}: {error.strerror if isinstance(error, OSError) else error}"
                self.close()
        if self._fd is None:
            return
        if self._needs_newline:
            lines = b"\n" + lines
        # Asked each time: a program that does not know our lock may have appended, and its lines must not be cut.
        size = os.fstat(self._fd).st_size
        try:
            private_files.write_all(self._fd, lines)
        except OSError as error:
            self._cut_back(size)
            self._fail(error)
            return
        self._needs_newline = False
        if self._ordinal is not None:
            self._ordinal += 1

    def _cut_back(self, size: int) -> None:
        assert self._fd is not None
        try:
            os.ftruncate(self._fd, size)
        except OSError:
            # The torn line then stays; readers skip it and the next writer starts a new line.
            pass

    def _fail(self, error: OSError) -> None:
        reason = error.strerror or str(error)
        self.failed = f"{self.path}: {reason}"
        self.close()

    def _take_lock(self) -> None:
        assert self._fd is not None
        if private_files.try_lock(self._fd):
            return
        self.close()
        from spindle.thread.reopening import locked  # only where something is wrong

        raise locked(self.path)
