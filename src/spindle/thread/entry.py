"""One line of a thread's record, one item of its list, and what the record adds to it: which model made it.

That is the field `spindle` of a line, which other programs ignore. A line of an item holds the `Provenance` of that
item; a line that replaces the list holds that of each item in it that a model made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from spindle.protocol.items import Item, decode_json, encode_kept, encode_payload, json_reader, without_surrogates
from spindle.protocol.provenance import ModelOrigin, Provenance

FOREIGN_METADATA = "internal_chat_message_metadata_passthrough"
"""What the reference's current generation adds to items for its own server; never sent by us."""


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


class Entry:
    """One item of the folded list, its bytes as recorded, and who made it, where that is recorded."""

    __slots__ = ("item", "made", "raw")

    def __init__(self, item: Item, raw: bytes, made: Provenance | None = None) -> None:
        self.item = item
        self.raw = raw
        self.made = made

    @classmethod
    def of(cls, item: Item, made: Provenance | None = None) -> Entry:
        try:
            return cls(item, encode_kept(item), made)
        except UnicodeEncodeError:
            item = without_surrogates(item)
            return cls(item, encode_kept(item), made)

    @classmethod
    def from_bytes(cls, raw: bytes, made: Provenance | None = None) -> Entry | None:
        """None when the bytes are no item."""
        try:
            item = decode_json(raw)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        if not isinstance(item, dict) or not isinstance(item.get("type"), str):
            return None
        if FOREIGN_METADATA in item:
            del item[FOREIGN_METADATA]
            raw = encode_kept(item)
        return cls(item, raw, made)

    def masked(self, mask: Callable[..., bytes], *, own_only: bool = False) -> Entry:
        """Without what must not be recorded: then it is not sent either."""
        raw = mask(self.raw, own_only=own_only)
        return self if raw == self.raw else Entry.from_bytes(raw, self.made) or self

    def __repr__(self) -> str:
        return f"Entry({self.raw[:80]!r})"


# ---- beside one item ----------------------------------------------------------------------------------

_read_made = json_reader(Provenance)


def encode_made(made: Provenance | None) -> bytes:
    return b"" if made is None else encode_payload(made)


@lru_cache(maxsize=64)  # most items of a thread come from one place
def decode_made(beside: bytes) -> Provenance | None:
    """None where nothing is said of the item, or nothing that can be read."""
    try:
        return _read_made(beside) if beside else None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


# ---- beside a list ------------------------------------------------------------------------------------


class _MadeInList(msgspec.Struct):
    """Origins, and by place in the list the number of one of them and what is opaque of the item."""

    origins: list[ModelOrigin] = []
    made: dict[str, tuple[int, dict[str, Any] | None]] = {}


_read_list = json_reader(_MadeInList)


def encode_made_in(entries: Sequence[Entry]) -> bytes:
    found = _MadeInList(origins=[], made={})
    numbers: dict[ModelOrigin, int] = {}
    for place, entry in enumerate(entries):
        if entry.made is not None:
            number = numbers.setdefault(entry.made.origin, len(numbers))
            found.made[str(place)] = number, entry.made.opaque
    found.origins = list(numbers)
    return encode_payload(found) if numbers else b""


def entries_of(items: Sequence[bytes], beside: bytes) -> Iterator[Entry]:
    """The entries of a list whose items are these bytes; what is no item is left out."""
    made: dict[str, Provenance] = {}
    if beside:
        try:
            read = _read_list(beside)
        except (msgspec.DecodeError, UnicodeDecodeError):
            read = _MadeInList()
        for place, (number, opaque) in read.made.items():
            if 0 <= number < len(read.origins):
                made[place] = Provenance(read.origins[number], opaque)
    for place, raw in enumerate(items):
        entry = Entry.from_bytes(raw, made.get(str(place)))
        if entry is not None:
            yield entry
