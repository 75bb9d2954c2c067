"""What was entered before, in this session and in others: `$CODEX_HOME/history.jsonl`, in Codex's format.

A line is `{"session_id", "ts", "text"}`. The file is read from its end, as far as a person goes back, and never when
the interface starts: it may be large. Lines that cannot be read are skipped. Other sessions append to the file as well,
so it is written under a lock; what they add after we have started does not move what Up brings.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import msgspec

from spindle.protocol.clock import Clock
from spindle.protocol.items import encode_json, json_reader
from spindle.thread.private_files import append_line, make_private_folders, open_private, wait_for_lock, write_all

_CHUNK = 1 << 16
_REACH = 16 << 20
"""How far back from its end the file is read."""
_LONGEST_LINE = 4 << 20
_KEPT_SHARE = 0.8
"""A file that has grown too large is cut to this share of its limit, so that it is not cut with every message."""


class _Entry(msgspec.Struct):
    text: str
    session_id: str = ""
    ts: float = 0


_read_entry = json_reader(_Entry)


class PastMessages:
    """The messages of earlier sessions, newest first, and the file that this session adds to."""

    def __init__(self, home: str, clock: Clock, *, is_kept: bool = True, max_bytes: int | None = None) -> None:
        self._home = home
        self._path = f"{home}/history.jsonl"
        self._clock = clock
        self._is_kept = is_kept
        self._max_bytes = max_bytes
        self._entries: list[str] = []
        self._source: Iterator[str] | None = None
        try:
            self._end = os.stat(self._path).st_size if is_kept else 0
        except OSError:
            self._end = 0

    def entry(self, number: int) -> str | None:
        """The message so many steps back, 0 = the newest; None when there is none. Repetitions count once."""
        while len(self._entries) <= number and self.read_one():
            pass
        return self._entries[number] if number < len(self._entries) else None

    def read_one(self) -> bool:
        """Read one more line from the file; False at its beginning."""
        if self._source is None:
            self._source = self._texts()
        text = next(self._source, None)
        if text is None:
            return False
        if not self._entries or self._entries[-1] != text:
            self._entries.append(text)
        return True

    def _texts(self) -> Iterator[str]:
        for line in _lines_from_end(self._path, self._end):
            try:
                entry = _read_entry(line)
            except (msgspec.MsgspecError, UnicodeError):
                continue
            if entry.text.strip():
                yield entry.text

    def add(self, text: str, session_id: str) -> None:
        """Append a message to the file. Raises OSError, after which nothing is lost but this entry."""
        if not self._is_kept or not text.strip():
            return
        line = encode_json({"session_id": session_id, "ts": int(self._clock.now()), "text": text}) + b"\n"
        make_private_folders(self._home, self._home)
        fd = open_private(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        try:
            wait_for_lock(fd)
            append_line(fd, line)
            if self._max_bytes and os.fstat(fd).st_size > self._max_bytes:
                _cut(fd, self._path, max(int(self._max_bytes * _KEPT_SHARE), len(line)))
        finally:
            os.close(fd)


def _cut(fd: int, path: str, size: int) -> None:
    """Drop the oldest lines of a locked file, in place: others hold it open to lock it."""
    total = os.fstat(fd).st_size
    kept = os.pread(fd, size, total - size)
    is_at_line_start = os.pread(fd, 1, total - size - 1) == b"\n"
    if not is_at_line_start:
        kept = kept[kept.find(b"\n") + 1 :]
    rest = os.open(path, os.O_WRONLY | os.O_CLOEXEC)  # the other descriptor only appends
    try:
        write_all(rest, kept)
        os.ftruncate(rest, len(kept))
    finally:
        os.close(rest)


def _lines_from_end(path: str, end: int) -> Iterator[bytes]:
    """The complete lines of a file up to `end`, last one first."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return
    try:
        place = min(end, os.fstat(fd).st_size)
        first = max(0, place - _REACH)
        rest = b""
        is_skipping = False
        while place > first:
            begin = max(first, place - _CHUNK)
            chunk = os.pread(fd, place - begin, begin)
            if len(chunk) < place - begin:
                return  # somebody has cut the file meanwhile
            place = begin
            pieces = (chunk + rest).split(b"\n") if not is_skipping else chunk.split(b"\n")
            if is_skipping and len(pieces) > 1:
                pieces[-1] = b""  # the beginning of the line that is too long
                is_skipping = False
            rest = pieces[0]
            yield from (line for line in reversed(pieces[1:]) if line)
            if len(rest) > _LONGEST_LINE:
                rest, is_skipping = b"", True
        if place == 0 and rest and not is_skipping:
            yield rest
    except OSError:
        return
    finally:
        os.close(fd)


class Recall:
    """Going back through messages and forth again; the draft one came from is the way's beginning.

    An entry is what stands in the editor, so what was folded in a message of this session is still folded.
    """

    def __init__(self, past: Callable[[], PastMessages | None], fold: Callable[[str], str]) -> None:
        self._past = past
        self._fold = fold
        self._own: list[str] = []
        self._number = -1
        self._draft = ""
        self.shown: str | None = None
        """The entry that was brought last; None when the draft is the person's own."""

    def remember(self, raw: str) -> None:
        """A message of this session, or a draft that was cleared; the newest from now on."""
        self.leave()
        if raw.strip() and (not self._own or self._own[-1] != raw):
            self._own.append(raw)

    def leave(self) -> None:
        self._number, self._draft, self.shown = -1, "", None

    def entry(self, number: int) -> str | None:
        """The entry so many steps back, 0 = the newest: first those of this session, then those of the file."""
        if number < len(self._own):
            return self._own[-1 - number]
        past = self._past()
        text = past.entry(number - len(self._own)) if past is not None else None
        return None if text is None else self._fold(text)

    def step(self, step: int, raw: str) -> str | None:
        """The next entry in a direction (1 = older), or the draft; None when there is nothing more."""
        if self.shown is None:
            self._number, self._draft = -1, raw
        number = self._number + step
        if number < -1:
            return None
        text = self._draft if number == -1 else self.entry(number)
        if text is None:
            return None
        self._number, self.shown = number, text if number >= 0 else None
        return text

    def is_at(self, raw: str) -> bool:
        """The text is the entry that was brought last, untouched."""
        return self.shown is not None and self.shown == raw
