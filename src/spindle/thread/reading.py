"""Reading rollout files of both generations of the reference program, without the lines that cannot be used.

`folding` says what the lines mean. A new thread loads none of this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import msgspec

from spindle.errors import ThreadError
from spindle.protocol.items import json_reader
from spindle.thread import layout, private_files
from spindle.thread.call_order import in_told_order
from spindle.thread.entry import Record

MAX_FORK_DEPTH = 64


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
