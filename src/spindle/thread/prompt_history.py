"""The prompts a person typed, over all threads: `history.jsonl` beside the rollouts. For recall in a front end only."""

from __future__ import annotations

import os

from spindle.errors import ThreadError
from spindle.protocol.clock import Clock
from spindle.protocol.items import decode_json, encode_payload
from spindle.thread import private_files

TRIM_TO = 0.8
"""A file that grew beyond its limit is cut to this share of it, so that not every append has to cut."""


class PromptHistory:
    """Append-only, newest last; the oldest lines go when the file exceeds `max_bytes`."""

    def __init__(self, home: str, clock: Clock, max_bytes: int | None = None) -> None:
        self.path = f"{home}/history.jsonl"
        self._clock = clock
        self._max_bytes = max_bytes

    def append(self, thread_id: str, text: str) -> None:
        """Raises ThreadError when the file cannot be written."""
        line = encode_payload({"session_id": thread_id, "ts": int(self._clock.now()), "text": text}) + b"\n"
        try:
            self._append(line)
        except OSError as error:
            raise ThreadError(f"the prompt cannot be kept in {self.path}: {error.strerror}") from error

    def _append(self, line: bytes) -> None:
        fd = self._open_locked()
        try:
            private_files.append_line(fd, line)
            size = os.fstat(fd).st_size
            if self._max_bytes is not None and size > self._max_bytes:
                self._trim(fd, size)
        finally:
            os.close(fd)

    def state(self) -> tuple[int, int]:
        """The log's id, which changes when lines are cut off its front, and the number of its entries."""
        try:
            with open(self.path, "rb") as file:
                return os.fstat(file.fileno()).st_ino, file.read().count(b"\n")
        except OSError:
            return 0, 0

    def entry(self, log_id: int, offset: int) -> dict[str, object] | None:
        """The entry at `offset` of the log that had this id; None when it is gone."""
        try:
            with open(self.path, "rb") as file:
                if os.fstat(file.fileno()).st_ino != log_id or offset < 0:
                    return None
                lines = file.read().split(b"\n")
        except OSError:
            return None
        try:
            value = decode_json(lines[offset])
        except (IndexError, ValueError):
            return None
        return value if isinstance(value, dict) else None

    def _open_locked(self) -> int:
        """The file behind the name, locked. Another process may have replaced it while we waited for the lock."""
        while True:
            fd = private_files.open_private(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
            private_files.wait_for_lock(fd)
            try:
                if os.stat(self.path).st_ino == os.fstat(fd).st_ino:
                    return fd
            except FileNotFoundError:
                pass
            os.close(fd)

    def _trim(self, fd: int, size: int) -> None:
        assert self._max_bytes is not None
        data = os.pread(fd, size, 0)
        limit = int(self._max_bytes * TRIM_TO)
        # The newest line stays even if it alone is over the limit.
        newest = data.rfind(b"\n", 0, len(data) - 1) + 1
        start = max(0, len(data) - limit)
        if start:
            start = data.find(b"\n", start - 1) + 1
        private_files.replace_private(self.path, data[min(start, newest) :])
