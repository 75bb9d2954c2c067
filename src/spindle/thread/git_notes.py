"""What a client says about the repository of a thread; it replaces what the record says.

`spindle/thread_git.jsonl`, append only; the last line about a thread wins. The record itself is never edited.
"""

from __future__ import annotations

import msgspec

from spindle.errors import ThreadError
from spindle.protocol.clock import Clock, iso_utc
from spindle.protocol.items import json_reader
from spindle.thread import private_files
from spindle.thread.names import NoteFile

Git = dict[str, str | None]
"""By the names of the record: `commit_hash`, `branch`, `repository_url`."""


class _Line(msgspec.Struct):
    id: str
    git: Git


_decode = json_reader(_Line)


class GitNotes:
    """Reads the file anew for every question, like the names of threads."""

    def __init__(self, home: str, clock: Clock) -> None:
        self._folder = f"{home}/spindle"
        self._file = NoteFile(f"{self._folder}/thread_git.jsonl", "the thread's repository")
        self._clock = clock

    def all(self) -> dict[str, Git]:
        """Thread id → what is known of its repository."""
        notes: dict[str, Git] = {}
        for line in self._file.lines():
            try:
                entry = _decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
            notes[entry.id] = entry.git
        return notes

    def set(self, thread_id: str, git: Git) -> None:
        try:
            private_files.make_private_folders(self._folder, self._folder)
        except OSError as error:
            raise ThreadError(f"{self._folder} cannot be made: {error.strerror}") from error
        self._file.append({"id": thread_id, "git": git, "updated_at": iso_utc(self._clock.now())})

    def forget(self, thread_id: str) -> None:
        """Remove every line about a thread that was deleted."""
        self._file.forget(thread_id)
