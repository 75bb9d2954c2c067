"""The names people gave to threads: `session_index.jsonl`, append only, the last line about a thread wins."""

from __future__ import annotations

import os
from typing import Any

import msgspec

from spindle.errors import ThreadError
from spindle.protocol.clock import Clock, iso_utc
from spindle.protocol.items import encode_payload, json_reader
from spindle.thread import private_files


class _Line(msgspec.Struct):
    id: str
    thread_name: str
    updated_at: str = ""


_decode = json_reader(_Line)


class NoteFile:
    """A file of notes about threads, one JSON object a line. `what` is noted there, as an error message calls it."""

    def __init__(self, path: str, what: str) -> None:
        self.path = path
        self._what = what

    def lines(self) -> list[bytes]:
        """What was noted, the oldest first."""
        try:
            with open(self.path, "rb") as file:
                return [line for line in file.read().split(b"\n") if line]
        except FileNotFoundError:
            return []

    def append(self, note: dict[str, Any]) -> None:
        """Raises ThreadError when it cannot be written."""
        line = encode_payload(note) + b"\n"
        try:
            fd = private_files.open_private(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
            try:
                private_files.wait_for_lock(fd)
                private_files.append_line(fd, line)
            finally:
                os.close(fd)
        except OSError as error:
            raise ThreadError(f"{self._what} cannot be recorded in {self.path}: {error.strerror}") from error

    def forget(self, thread_id: str) -> None:
        """Remove every line about a thread that was deleted."""
        lines = self.lines()
        kept = [line for line in lines if thread_id.encode() not in line]
        if len(kept) != len(lines):
            private_files.replace_private(self.path, b"".join(line + b"\n" for line in kept))


class ThreadNames:
    """Reads the file anew for every question: other programs append to it too."""

    def __init__(self, home: str, clock: Clock) -> None:
        self._file = NoteFile(f"{home}/session_index.jsonl", "the name")
        self._clock = clock

    def all(self) -> dict[str, str]:
        """Thread id → name; the thread named last comes last."""
        names: dict[str, str] = {}
        for line in self._file.lines():
            try:
                entry = _decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
            names.pop(entry.id, None)
            names[entry.id] = entry.thread_name
        return names

    def ids_for(self, name: str) -> list[str]:
        """The threads of that name, the most recently named first."""
        return [thread_id for thread_id, known in reversed(self.all().items()) if known == name]

    def set(self, thread_id: str, name: str) -> None:
        name = name.strip()
        if not name:
            raise ThreadError("a thread's name cannot be empty")
        entry = {"id": thread_id, "thread_name": name, "updated_at": iso_utc(self._clock.now())}
        self._file.append(entry)

    def forget(self, thread_id: str) -> None:
        """Remove every line about a thread that was deleted."""
        self._file.forget(thread_id)
