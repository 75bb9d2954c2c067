"""Repairing a rollout file: removes what no reader can use, adds what is missing, and touches nothing else.

An intact file keeps its bytes. Otherwise the original is kept beside it, and the new file replaces it in one step.
The repaired file shows the model what a reader of the damaged one would have shown it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from spindle.errors import ThreadError
from spindle.protocol.items import call_id_of, decode_json, encode_payload, is_call, is_output, output_for
from spindle.thread import layout, private_files
from spindle.thread.entry import Record
from spindle.thread.reading import JUNK, is_utf8, parse_line, read_bytes, rebuilt_meta
from spindle.thread.reopening import locked
from spindle.thread.rollout import format_line

ABORTED = "aborted"
"""What a call without an output is given: the text that a model is shown for it anyway."""

_LINE_START = b'{"timestamp":"'
_OBJECTS = frozenset(("session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state"))
_TYPED = frozenset(("response_item", "event_msg"))

CUT_OFF = "it was cut off while it was written"
FOREIGN = "it is no line of a thread"
NO_TEXT = "it is not UTF-8 text"
NUL_BYTES = "NUL bytes"
TWICE = "it stands there twice"


class Change(msgspec.Struct, frozen=True):
    """A line of the damaged file and why it was taken out, or what was added behind it."""

    line: int
    reason: str


class Report(msgspec.Struct, kw_only=True):
    """What was found in one file, and done."""

    thread_id: str | None
    path: str
    status: Literal["sound", "repaired", "lost"]
    dropped: list[Change] = []
    added: list[Change] = []
    backup: str | None = None
    """Where the file as it was is kept."""
    reason: str | msgspec.UnsetType = msgspec.UNSET
    """Why nothing can be saved."""


def repair(path: str, *, dry_run: bool = False) -> Report:
    """Examine a rollout file and mend it. Raises ThreadLocked while another process writes it."""
    try:
        fd = _open(path)
    except (OSError, ThreadError) as error:
        return _lost(path, str(error.strerror if isinstance(error, OSError) else error))
    try:
        if not private_files.try_lock(fd):
            raise locked(path)
        try:
            mended = _Mending(path, read_bytes(path))
        except ThreadError as error:
            return _lost(path, str(error))
        report = mended.report()
        if report.status == "repaired" and not dry_run:
            try:
                report.backup = _exchange(path, fd, mended.content())
                report.path = path.removesuffix(".zst")
            except OSError as error:
                return _lost(path, f"it cannot be written: {error.strerror}", report)
        return report
    finally:
        os.close(fd)


def _open(path: str) -> int:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise ThreadError("it is not a regular file")
    return fd


def _lost(path: str, reason: str, found: Report | None = None) -> Report:
    dropped = found.dropped if found is not None else []
    return Report(thread_id=layout.thread_id_of(path), path=path, status="lost", dropped=dropped, reason=reason)


# ---- one file --------------------------------------------------------------------------------------


class _Line:
    """A line that stays: its record, its bytes, its number in the damaged file."""

    __slots__ = ("number", "raw", "record")

    def __init__(self, number: int, raw: bytes, record: Record) -> None:
        self.number = number
        self.raw = raw
        self.record = record


class _Mending:
    """The lines of one file, sorted into what stays and what goes."""

    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        self.lines: list[_Line] = []
        self.dropped: list[Change] = []
        self.added: list[Change] = []
        for number, raw in enumerate(data.split(b"\n"), 1):
            self._take(number, raw)
        self.is_lost = not self.lines
        self._drop_repeated()
        self.thread_id = layout.thread_id_of(path)
        self.is_numbered = bool(self.lines) and self.lines[0].record.ordinal is not None
        if not self.is_lost:
            self._begin_with_meta()
            self._answer_calls()
        self.dropped.sort(key=lambda change: change.line)

    def report(self) -> Report:
        found = Report(thread_id=self.thread_id, path=self.path, status="sound", dropped=self.dropped, added=self.added)
        if self.is_lost:
            found.status, found.reason = "lost", "no line of it can be read"
        elif self.dropped or self.added:
            found.status = "repaired"
        return found

    def content(self) -> bytes:
        return b"".join(line.raw + b"\n" for line in self.lines)

    # ---- reading ----

    def _take(self, number: int, raw: bytes) -> None:
        bare = raw.strip(JUNK)
        if not bare:
            if b"\0" in raw:
                self._drop(number, NUL_BYTES)
            return
        if not is_utf8(bare):
            self._drop(number, NO_TEXT)
            return
        if (record := parse_line(bare)) is not None:
            if (reason := _unusable(record)) is not None:
                self._drop(number, reason)
                return
            if b"\0" in raw:
                self._drop(number, f"{NUL_BYTES} around it; the line itself is kept")
                raw = bare
            self.lines.append(_Line(number, raw, record))
            return
        if (behind := _whole_line_in(bare)) is not None:
            self._drop(number, f"{CUT_OFF}; the line that follows on it is kept")
            self.lines.append(_Line(number, *behind))
            return
        self._drop(number, CUT_OFF if bare.startswith(b'{"') and not _is_json(bare) else FOREIGN)

    def _drop(self, number: int, reason: str) -> None:
        self.dropped.append(Change(number, reason))

    # ---- lines that stand there twice ----

    def _drop_repeated(self) -> None:
        """Take out copies of lines. Within one millisecond two lines may be the same and yet both have been meant, so
        a copy counts as one if it stands right behind the original, alone or with others, or where time has passed."""
        kept: list[_Line] = []
        last: dict[bytes, int] = {}
        index = 0
        while index < len(self.lines):
            line = self.lines[index]
            before = last.get(line.raw)
            length = 0
            if before is not None:
                length = self._repeated(kept, before, index) or int(_is_later_copy(kept, before, line))
            if length:
                for copy in self.lines[index : index + length]:
                    self._drop(copy.number, TWICE)
                index += length
                continue
            last[line.raw] = len(kept)
            kept.append(line)
            index += 1
        self.lines = kept

    def _repeated(self, kept: list[_Line], before: int, index: int) -> int:
        """How many lines from `index` on repeat the last ones that were kept, as a whole."""
        length = len(kept) - before
        copies = self.lines[index : index + length]
        same = len(copies) == length and all(old.raw == new.raw for old, new in zip(kept[before:], copies, strict=True))
        return length if same else 0

    # ---- what is missing ----

    def _begin_with_meta(self) -> None:
        metas = [line for line in self.lines if line.record.kind == "session_meta"]
        own = [line for line in metas if _id_of(line) == self.thread_id] if self.thread_id else metas
        first = own[0] if own else metas[0] if metas else None
        if first is not None:
            self.thread_id = self.thread_id or _id_of(first)
            if first is not self.lines[0] and self.lines[0].record.kind != "session_meta":
                self.lines.remove(first)
                self.lines.insert(0, first)
                self.added.append(Change(0, f"the line about the thread (session_meta), from line {first.number}"))
        elif self.thread_id is None:
            self.is_lost = True  # nothing says which thread this is
        else:
            records = [line.record for line in self.lines]
            ordinal = 0 if self.is_numbered else None
            raw = encode_payload(rebuilt_meta(self.thread_id, records))
            made = format_line("session_meta", raw, records[0].timestamp, ordinal).rstrip(b"\n")
            self.lines.insert(0, _Line(0, made, Record("session_meta", raw, records[0].timestamp, ordinal)))
            self.added.append(Change(0, "the line about the thread (session_meta), made from the file name"))

    def _answer_calls(self) -> None:
        """Put an output behind every call that has none."""
        if self.is_numbered:
            return  # a line in between would have no number; readers of such files make up the output themselves
        waiting: dict[tuple[str, str], list[_Line]] = {}
        for line in self.lines:
            if line.record.kind != "response_item":
                continue
            item = line.record.payload
            if is_call(item):
                answer = output_for(item, ABORTED)
                waiting.setdefault((answer["type"], call_id_of(item)), []).append(line)
            elif is_output(item) and (calls := waiting.get((item["type"], call_id_of(item)))):
                calls.pop()
        open_calls = [line for calls in waiting.values() for line in calls]
        for line in open_calls:
            raw = encode_payload(output_for(line.record.payload, ABORTED))
            made = format_line("response_item", raw, line.record.timestamp).rstrip(b"\n")
            place = next(place for place, other in enumerate(self.lines) if other is line)
            self.lines.insert(place + 1, _Line(line.number, made, Record("response_item", raw)))
            self.added.append(Change(line.number, f"an output for the call, which has none: {ABORTED!r}"))


def _is_later_copy(kept: list[_Line], before: int, line: _Line) -> bool:
    """Whether time has passed between a line and its copy, or it has a number: then it cannot be meant twice."""
    if line.record.ordinal is not None or line.record.kind == "session_meta":
        return True
    return any(between.record.timestamp != line.record.timestamp for between in kept[before + 1 :])


def _unusable(record: Record) -> str | None:
    """Why a line that is whole is of no use to any reader."""
    if record.kind not in _OBJECTS:
        return None  # of another program, or of a later version
    try:
        payload: Any = decode_json(record.raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return "its payload cannot be read"
    if not isinstance(payload, dict) or (record.kind in _TYPED and not isinstance(payload.get("type"), str)):
        return FOREIGN
    return None


def _whole_line_in(bare: bytes) -> tuple[bytes, Record] | None:
    """A whole line behind one that was cut off before its line end."""
    place = bare.find(_LINE_START, 1)
    while place > 0:
        record = parse_line(bare[place:])
        if record is not None and _unusable(record) is None:
            return bare[place:], record
        place = bare.find(_LINE_START, place + 1)
    return None


def _is_json(text: bytes) -> bool:
    try:
        decode_json(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True


def _id_of(line: _Line) -> str | None:
    found = line.record.payload.get("id")
    return found.lower() if isinstance(found, str) else None


# ---- writing ---------------------------------------------------------------------------------------


def _exchange(path: str, fd: int, content: bytes) -> str:
    """Put the new text in the place of the file; gives where the old one is kept."""
    with open(path, "rb") as file:
        old = file.read()
    backup = _free_name(path, old)
    private_files.replace_private(backup, old)
    plain = path.removesuffix(".zst")
    private_files.replace_private(plain, content)
    # The order of threads is the order in which they were last used, and this was no use.
    status = os.fstat(fd)
    os.utime(plain, ns=(status.st_atime_ns, status.st_mtime_ns))
    if plain != path:
        os.unlink(path)
    return backup


def _free_name(path: str, content: bytes) -> str:
    for name in _backup_names(path):
        try:
            with open(name, "rb") as file:
                if file.read() == content:
                    return name
        except FileNotFoundError:
            return name
    raise AssertionError("there is always another name")


def _backup_names(path: str) -> Iterable[str]:
    yield path + layout.BACKUP_SUFFIX
    number = 1
    while True:
        number += 1
        yield f"{path}{layout.BACKUP_SUFFIX}-{number}"
