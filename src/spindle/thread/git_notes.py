"""What a client says about the repository of a thread, in the place of what its record says.

`spindle/thread_git.jsonl`, append only; the last line about a thread wins. The record itself is never edited.
"""

from __future__ import annotations

import os

import msgspec

from spindle.errors import ThreadError
from spindle.protocol.clock import Clock, iso_utc
from spindle.protocol.items import encode_payload, json_reader
from spindle.thread import private_files

Git = dict[str, str | None]
"""By the names of the record: `commit_hash`, `branch`, `repository_url`."""


class _Line(msgspec.Struct):
    id: str
    git: Git


_decode = json_reader(_Line)


class GitNotes:
    """Reads the file anew for every question, like the names of threads."""

    def __init__(self, home: str, clock: Clock) -> None:
        self.path = f"{home}/spindle/thread_git.jsonl"
        self._clock = clock

    def all(self) -> dict[str, Git]:
        """Thread id → what is known of its repository."""
        notes: dict[str, Git] = {}
        for line in self._lines():
            try:
                entry = _decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
            notes[entry.id] = entry.git
        return notes

    def set(self, thread_id: str, git: Git) -> None:
        line = encode_payload({"id": thread_id, "git": git, "updated_at": iso_utc(self._clock.now())}) + b"\n"
        try:
            folder = os.path.dirname(self.path)
            private_files.make_private_folders(folder, folder)
            fd = private_files.open_private(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
            try:
                private_files.wait_for_lock(fd)
                private_files.append_line(fd, line)
            finally:
                os.close(fd)
        except OSError as error:
            raise ThreadError(f"the thread's repository cannot be noted in {self.path}: {error.strerror}") from error

    def forget(self, thread_id: str) -> None:
        """Remove every line about a thread that was deleted."""
        lines = self._lines()
        kept = [line for line in lines if thread_id.encode() not in line]
        if len(kept) != len(lines):
            private_files.replace_private(self.path, b"".join(line + b"\n" for line in kept))

    def _lines(self) -> list[bytes]:
        try:
            with open(self.path, "rb") as file:
                return [line for line in file.read().split(b"\n") if line]
        except FileNotFoundError:
            return []
