"""What a server remembers of a thread on one WebSocket, and the question that goes on from there. Pure.

A server keeps the last answer of a connection and everything before it. A question may name that answer and hold only
the items behind it, but only if what the server remembers is, item by item, what a whole question would tell it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from spindle.context.visible import Audience, to_wire
from spindle.protocol.items import Item, encode_json, json_reader
from spindle.protocol.request import Request

_AUDIENCES = tuple(
    Audience(keeps_raw_reasoning=raw, keeps_all_ids=ids) for raw in (False, True) for ids in (False, True)
)


class _ItemEvent(msgspec.Struct):
    item: dict[str, Any]


class _End(msgspec.Struct):
    response: dict[str, Any] | None = None


_item_event = json_reader(_ItemEvent)
_end = json_reader(_End)


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """A question as it is sent."""

    text: bytes
    goes_on: bool
    """It names an earlier answer, and holds only what came after that."""
    frame: tuple[bytes, bytes]
    """What stands around the items."""
    items: list[bytes]
    """All of them, also those that the server remembers."""


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """One question and its answer, as the server has them."""

    said: Said
    made: tuple[Item, ...]
    """What the server made, as it sent it."""
    response_id: str


def told_by(said: Said, finished: list[bytes], end: bytes) -> Told | None:
    """What the server remembers after an answer: `finished` are its events about items, `end` is the last event."""
    try:
        response = _end(end).response or {}
        made = tuple(_item_event(event).item for event in finished)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    response_id, output = response.get("id"), response.get("output")
    if isinstance(output, list) and len(output) not in (0, len(made)):
        return None  # it remembers more than it told as it went
    if not isinstance(response_id, str) or not response_id:
        return None
    return Told(said=said, made=made, response_id=response_id)


def message(request: Request, told: Told | None) -> Said:
    """The question, which goes on from what the server was told if it can."""
    head, rest = frame = request.frame()
    items = new = request.input
    known = 0 if told is None or told.said.frame != frame else _known(request, items, told)
    begin = b'{"type":"response.create",'
    # Without anything new there would be nothing to answer, so everything is told once more.
    goes_on = 0 < known < len(items)
    if goes_on and told is not None:
        begin += b'"previous_response_id":%s,' % encode_json(told.response_id)
        new = items[known:]
    text = b"".join((begin, head[1:], b",".join(new), rest))
    return Said(text=text, goes_on=goes_on, frame=frame, items=items)


def _known(request: Request, items: list[bytes], told: Told) -> int:
    """How many of the items the server remembers; 0 unless it remembers nothing else."""
    before, made = len(told.said.items), told.made
    end = before + len(made)
    if items[:before] != told.said.items:
        return 0
    shown = request.items[before:end]
    return end if all(map(_is_shown_as, made, (visible.item for visible in shown))) else 0


def _is_shown_as(made: Item, shown: Item) -> bool:
    """Whether an item of a request is what the server made, in the form in which it wants it back."""
    return any(to_wire(made, audience) == shown for audience in _AUDIENCES)
