"""Rollout files: one thread, one JSON object per line, append only.

Here is the form of a line, the writer that owns a file while its thread is live, and a reader that takes what both
generations of the reference program write and leaves out what it cannot use. What the lines mean is in `history`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import msgspec

from spindle.errors import ThreadError, ThreadLocked
from spindle.protocol.clock import Clock, iso_utc
from spindle.protocol.items import decode_json, encode_payload, json_reader
from spindle.thread import layout, private_files
from spindle.thread.call_order import in_told_order

MAX_FORK_DEPTH = 64


class Record:
    """One line: its kind, its payload as the bytes that stand in the file, and when it was written."""

    __slots__ = ("beside", "kind", "ordinal", "raw", "timestamp")

    def __init__(
        self, kind: str, raw: bytes, timestamp: str = "", ordinal: int | None = None, beside: bytes = b""
    ) -> None:
        self.kind = kind
        self.raw = raw
        self.timestamp = timestamp
        self.ordinal = ordinal
        self.beside = beside
        """What Spindle has to say of the payload, as JSON: the line's field `spindle`. Other programs ignore it."""

    @property
    def payload(self) -> dict[str, Any]:
        """Decoded anew each time; a payload that is no object counts as empty."""
        try:
            value = decode_json(self.raw)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return {}
        return value if isinstance(value, dict) else {}

    def __repr__(self) -> str:
        return f"Record({self.kind!r}, {self.raw[:60]!r})"


class RolloutData(msgspec.Struct, kw_only=True):
    """What a rollout file holds, as far as it can be read."""

    path: str
    thread_id: str
    meta: dict[str, Any]
    records: list[Record]
    """Every whole line but the session's meta lines, in order; for a fork that starts late, its parent's first.

    What calls gave stands in the order in which it is told (`call_order`).
    """
    skipped: int = 0
    """Lines in the middle that could not be read."""
    torn: bool = False
    """The last line was cut off while it was being written."""
    meta_rebuilt: bool = False
    is_damaged: bool = False
    """Something in this very file, not in a parent's, could not be read."""
    kept_as: str | None = None
    """Where a damaged file was copied to before anything was added to it."""
    warnings: list[str] = []

    def notices(self) -> list[str]:
        """What a person should be told when this file is resumed: one sentence each."""
        said = list(self.warnings)
        kept = f"as it was, the file is kept as {self.kept_as}" if self.kept_as else "the file itself was not changed"
        if lost := self.skipped + self.torn:
            lines = "1 damaged line was" if lost == 1 else f"{lost} damaged lines were"
            said.append(f"{lines} skipped in {self.path}; {kept}.")
        if self.meta_rebuilt:
            said.append(f"The first line of {self.path} is damaged; it was rebuilt from the file name; {kept}.")
        return said


# ---- writing ---------------------------------------------------------------------------------------


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
        """How long the file was when we let go of it; None unless we rest."""
        self._ordinal: int | None = None
        """The next line's number, in a file of the generation that numbers its lines and refuses one that does not."""

    @classmethod
    def create(cls, path: str, clock: Clock) -> RolloutWriter:
        """A new file, made at once."""
        writer = cls(path, clock)
        writer.begin()
        return writer

    @classmethod
    def reopen(cls, path: str, clock: Clock) -> RolloutWriter:
        """Go on writing an existing file. Raises ThreadLocked while another process does.

        Nothing is changed yet: the caller may have named any file, and only reading it tells what it is.
        """
        if path.endswith(".zst"):
            path = _unpack(path)
        writer = cls(path, clock)
        writer._waiting = None
        try:
            # Opening a device or a pipe could wait for ever, or do something.
            kind = stat.S_IFMT(os.lstat(path).st_mode)
            if kind not in (stat.S_IFREG, stat.S_IFLNK):
                raise ThreadError(f"{path} is not a regular file")
            writer._fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            writer._fail(error)
            return writer
        # Locked before it is looked at: until then another process may be in the middle of a line.
        writer._take_lock()
        size = os.fstat(writer._fd).st_size
        # A torn last line stays as it is, a line of its own; ours begins on the next.
        writer._needs_newline = private_files.ends_inside_a_line(writer._fd, size)
        last = _last_ordinal(writer._fd, size)
        writer._ordinal = None if last is None else last + 1
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

    def rest(self) -> None:
        """Let go of the file and of its lock until something is recorded again: an idle thread holds no descriptor."""
        if self._fd is not None:
            self._left_at = os.fstat(self._fd).st_size
            os.close(self._fd)
            self._fd = None

    def wake(self) -> None:
        """Take the file again. Raises ThreadError when somebody else writes it, or has written it meanwhile."""
        if self._left_at is None:
            return
        fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
        if not private_files.try_lock(fd):
            os.close(fd)
            raise locked(self.path)
        # Checked under the lock. What another process has added meanwhile is not in our memory, and to go on from here
        # would fork the thread within one file.
        if os.fstat(fd).st_size != self._left_at:
            os.close(fd)
            raise ThreadError(f"another process has gone on with this thread: {self.path}")
        self._fd, self._left_at = fd, None

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
                self.wake()
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
        raise locked(self.path)


def check_unused(path: str) -> None:
    """Raise ThreadLocked while some process writes this file: what it still records must not be lost."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return  # whoever asked will meet the same error and can say what it means
    try:
        if not private_files.try_lock(fd):
            raise locked(path)
    finally:
        os.close(fd)


def locked(path: str) -> ThreadLocked:
    """The error for a file that somebody else writes: another process, or another client in this one."""
    holder = private_files.lock_holder(path)
    thread = f"thread {layout.thread_id_of(path) or path}"
    if holder == os.getpid():
        return ThreadLocked(f"{thread} is open in this process already; close it there first")
    return ThreadLocked(f"{thread} is being written by another process{f' (pid {holder})' if holder else ''}")


def _last_ordinal(fd: int, size: int) -> int | None:
    """The number of the last numbered line, if the file's first line has one."""
    if b'"ordinal":' not in os.pread(fd, 128, 0):
        return None
    length = 1 << 16
    while True:
        start = max(0, size - length)
        lines = os.pread(fd, size - start, start).split(b"\n")
        # Unless the file's beginning was read, the first piece is the end of a line.
        for line in reversed(lines[1:] if start else lines):
            record = parse_line(line)
            if record is not None and record.ordinal is not None:
                return record.ordinal
        if not start:
            return None
        length *= 8


def _unpack(path: str) -> str:
    """Replace a compressed file by its plain text, which can be appended to."""
    plain = path.removesuffix(".zst")
    # The plain file is whole before the other goes: killed in between, we leave both, and the next start uses this one.
    if not os.path.exists(plain):
        private_files.replace_private(plain, read_bytes(path))
    os.unlink(path)
    return plain


# ---- reading ---------------------------------------------------------------------------------------


class _Line(msgspec.Struct):
    type: str
    payload: msgspec.Raw
    timestamp: str = ""
    ordinal: int | None = None
    spindle: msgspec.Raw = msgspec.Raw()


def _record(line: _Line) -> Record:
    return Record(line.type, bytes(line.payload), line.timestamp, line.ordinal, bytes(line.spindle))


_line_decoder = cache(lambda: msgspec.json.Decoder(_Line))
_decode_line = json_reader(_Line)
JUNK = b"\0 \t\r"
"""What may stand around a line: blanks, and what a crashed file system leaves."""


def parse_line(line: bytes) -> Record | None:
    """One line without its newline; None when it cannot be read."""
    line = line.strip(JUNK)
    if not line:
        return None
    try:
        parsed = _decode_line(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return _record(parsed)


def read_rollout(path: str, find_parent: Callable[[str], str | None] | None = None) -> RolloutData:
    """Everything that can be read of a rollout file. Raises ThreadError only when there is nothing to go by.

    `find_parent` gives the path of another thread's file; needed for forks that start late and point to their parent.
    """
    data = _read(path, find_parent, MAX_FORK_DEPTH)
    data.records = in_told_order(data.records)
    return data


def _read(path: str, find_parent: Callable[[str], str | None] | None, depth: int) -> RolloutData:
    records, skipped, torn = split_records(read_bytes(path))
    metas = [record.payload for record in records if record.kind == "session_meta"]
    data = RolloutData(path=path, thread_id="", meta={}, records=[], skipped=skipped, torn=torn, warnings=[])
    data.records = [record for record in records if record.kind != "session_meta"]
    data.meta = _choose_meta(data, metas)
    data.thread_id = data.meta["id"]
    data.is_damaged = bool(skipped or torn or data.meta_rebuilt)
    _prepend_parent(data, find_parent, depth)
    return data


def split_records(data: bytes) -> tuple[list[Record], int, bool]:
    """All readable lines, how many in the middle were not, and whether the last one is torn."""
    # The decoder does not look inside of payloads, and bad bytes in one of them would break a request later.
    is_text = is_utf8(data)
    if is_text and data.endswith(b"\n"):
        try:
            whole = _line_decoder().decode_lines(data)
        except (msgspec.DecodeError, RecursionError):
            pass  # some line is damaged; find out which
        else:
            return [_record(line) for line in whole], 0, False
    lines = data.split(b"\n")
    last = lines.pop().strip(JUNK)
    records = []
    skipped = 0
    for line in lines:
        record = parse_line(line) if is_text or is_utf8(line) else None
        if record is not None:
            records.append(record)
        elif line.strip(JUNK):
            skipped += 1
    if not last:
        return records, skipped, False
    # Cut off right before its newline, a line is still whole: the next writer will complete it.
    record = parse_line(last) if is_text or is_utf8(last) else None
    if record is not None:
        records.append(record)
    return records, skipped, record is None


def is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def read_bytes(path: str) -> bytes:
    """The text of a rollout file, compressed or not. Raises ThreadError."""
    try:
        with private_files.open_regular(path) as file:
            data = file.read()
    except OSError as error:
        raise ThreadError(f"{path} cannot be read: {error.strerror}") from error
    if path.endswith(".zst"):
        from spindle.thread.zstd import decompress  # only for files that another program compressed

        return decompress(data, path)
    return data


def _choose_meta(data: RolloutData, metas: list[dict[str, Any]]) -> dict[str, Any]:
    """The file's own meta. The file name has the last word about the id: the thread is found by it."""
    named = layout.thread_id_of(data.path)
    for meta in metas:
        if isinstance(meta.get("id"), str) and (named is None or meta["id"].lower() == named):
            return meta
    if named is None:
        raise ThreadError(f"{data.path} is not a rollout file: no session_meta line, and no thread id in its name")
    if metas:
        # An older fork repeats its parent's meta: with its own line destroyed, that is the next best thing.
        return {**metas[0], "id": named, "forked_from_id": metas[0].get("id"), "forked_from_ordinal_exclusive": None}
    data.meta_rebuilt = True
    return rebuilt_meta(named, data.records)


def rebuilt_meta(thread_id: str, records: Sequence[Record]) -> dict[str, Any]:
    """What can be said of a thread whose first line is lost."""
    cwd = next((record.payload.get("cwd") for record in records if record.kind == "turn_context"), None)
    stamp = records[0].timestamp if records else ""
    return {"id": thread_id, "timestamp": stamp, "cwd": cwd or "", "originator": "unknown", "cli_version": "unknown"}


def _prepend_parent(data: RolloutData, find_parent: Callable[[str], str | None] | None, depth: int) -> None:
    """A fork of the current generation holds only its own lines; the parent's with a lower ordinal come first."""
    parent_id, end = data.meta.get("forked_from_id"), data.meta.get("forked_from_ordinal_exclusive")
    if not isinstance(parent_id, str) or not isinstance(end, int):
        return
    path = find_parent(parent_id) if find_parent and depth > 0 else None
    if path is None:
        data.warnings.append(f"The beginning of thread {data.thread_id} is in thread {parent_id}, which was not found.")
        return
    parent = _read(path, find_parent, depth - 1)  # bounded: files may name each other in a circle
    data.records = _below(parent.records, end) + data.records
    data.skipped += parent.skipped
    data.warnings += parent.warnings


def _below(records: list[Record], end: int) -> list[Record]:
    """The records with an ordinal under `end`; one without counts on from its predecessor."""
    ordinal = 0
    kept = []
    for record in records:
        ordinal = ordinal + 1 if record.ordinal is None else record.ordinal
        if ordinal < end:
            kept.append(record)
    return kept
