"""The order of a response's items and results: recorded as each becomes known, read in the order of the calls.

The calls of a response run at the same time, while the rest of it may still stream. The result of a call is recorded
the moment it is known, so that it survives whatever happens next. Once all calls are answered, if the recorded order
differs from the order of the calls, a line says how many items the response had. Readers of a file get the records in
the order of the calls.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from spindle.protocol.items import Item, call_id_of, decode_json, is_call, is_output, json_reader, output_for

if TYPE_CHECKING:
    from typing import Protocol, TypeVar

    class HasItem(Protocol):
        @property
        def item(self) -> Item: ...

    class Line(Protocol):
        @property
        def kind(self) -> str: ...
        @property
        def raw(self) -> bytes: ...

    Given = TypeVar("Given", bound=HasItem)
    AnyLine = TypeVar("AnyLine", bound=Line)

KIND = "spindle_outputs"
"""The line's kind. Programs that do not know it read the outputs in the order in which they became known."""


class AllAnswered(msgspec.Struct, frozen=True):
    """The line's payload: all calls of a response are answered."""

    first_call: str
    items: int
    """How many items were recorded since, that call included."""


_decode_line = json_reader(AllAnswered, is_walked=False)


def in_call_order(batch: Sequence[Given]) -> tuple[list[Given], list[Given]]:
    """What the model said; and, to be told after it, the outputs in the order of their calls, then what they brought.

    `batch` is in the order of recording and begins with the first call of the response.
    """
    said: list[Given] = []
    outputs: list[tuple[int, Given]] = []
    brought: list[tuple[int, Given]] = []
    places: dict[tuple[str, str], deque[int]] = {}
    for place, entry in enumerate(batch):
        if is_call(entry.item):
            places.setdefault(_key(output_for(entry.item, "")), deque()).append(place)
    newest = 0
    for entry in batch:
        if is_output(entry.item):
            waiting = places.get(_key(entry.item))
            newest = waiting.popleft() if waiting else len(batch)
            outputs.append((newest, entry))
        elif entry.item.get("type") == "message" and entry.item.get("role") != "assistant":
            brought.append((newest, entry))
        else:
            said.append(entry)
    return said, [entry for _, entry in sorted(outputs, key=_place) + sorted(brought, key=_place)]


def in_told_order(records: list[AnyLine]) -> list[AnyLine]:
    """The records of a file, with what calls gave in the order in which it is told; the lines that say so are gone."""
    if all(record.kind != KIND for record in records):
        return records
    told: list[AnyLine] = []
    for record in records:
        if record.kind != KIND:
            told.append(record)
            continue
        try:
            _put_in_order(told, _decode_line(record.raw))
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass  # a damaged line: what it is about stays as it was recorded
    return told


class _Placed:
    """A record of an item, and where it stands."""

    def __init__(self, place: int, item: Item) -> None:
        self.place = place
        self.item = item


def _put_in_order(told: list[AnyLine], line: AllAnswered) -> None:
    batch: list[_Placed] = []
    place = len(told)
    while len(batch) < line.items and place:
        place -= 1
        if told[place].kind == "response_item" and isinstance(item := decode_json(told[place].raw), dict):
            batch.append(_Placed(place, item))
    batch.reverse()
    # Where records are missing, the count leads elsewhere; then nothing is moved.
    if not batch or not is_call(batch[0].item) or call_id_of(batch[0].item) != line.first_call:
        return
    _, given = in_call_order(batch)
    moved = [told[placed.place] for placed in given]
    for place in sorted((placed.place for placed in given), reverse=True):
        del told[place]
    told += moved


def _key(output: Item) -> tuple[str, str]:
    return output["type"], call_id_of(output)


def _place(placed: tuple[int, object]) -> int:
    return placed[0]
