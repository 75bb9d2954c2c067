"""Requests and answers of a wire without a network: what goes into `encode`, and what comes out of a decoder."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from spindle.model import sse
from spindle.model.call_ids import CallIds
from spindle.model.capabilities import default_capabilities
from spindle.model.client import ModelEvent
from spindle.model.provider import Provider
from spindle.model.wires.wire import Asking, Decoder, Terms, Wire
from spindle.protocol.clock import FixedClock
from spindle.protocol.items import Item, encode_json
from spindle.protocol.provenance import ModelOrigin
from spindle.protocol.request import Request, VisibleItem

PNG = "data:image/png;base64,iVBORw0KGgo="
TOOLS = [
    {
        "type": "function",
        "name": "exec_command",
        "description": "Runs a command.",
        "strict": False,
        "parameters": {"type": "object", "properties": {"cmd": {"type": "string"}}, "required": ["cmd"]},
    },
    {
        "type": "custom",
        "name": "apply_patch",
        "description": "Edits files.",
        "format": {"type": "grammar", "syntax": "lark", "definition": "start: begin_patch"},
    },
    {"type": "web_search", "external_web_access": False},
]


def call(call_id: str, arguments: str = '{"cmd":"true"}', name: str = "exec_command") -> Item:
    return {"type": "function_call", "name": name, "arguments": arguments, "call_id": call_id}


def output(call_id: str, given: Any = "fine") -> Item:
    return {"type": "function_call_output", "call_id": call_id, "output": given}


def visible(items: Iterable[Item]) -> list[VisibleItem]:
    return [VisibleItem.of(item) for item in items]


def asks(items: Sequence[Item | VisibleItem], *, tools: list[Any] | None = None, **fields: Any) -> Request:
    """A request of a thread that consists of `items`."""
    shown = [item if isinstance(item, VisibleItem) else VisibleItem.of(item) for item in items]
    fields = {"model": "m", "instructions": b'"You help."', "prompt_cache_key": "T", **fields}
    return Request(items=shown, tools=encode_json(TOOLS if tools is None else tools), **fields)


def terms(wire: str, **provider: Any) -> Terms:
    served = {"id": "p", "name": "p", "base_url": "http://127.0.0.1:1/v1", "wire_api": wire, **provider}
    return Terms(Provider(**served), default_capabilities(wire))


def body(wire: Wire, request: Request, on: Terms | None = None) -> dict[str, Any]:
    return json.loads(bytes(wire.encode(request, on or terms(wire.name))))


def decoder(wire: Wire, taken: Iterable[str] = (), request: Request | None = None) -> Decoder:
    clock = FixedClock()
    ids = CallIds(taken, clock.uuid7)
    return wire.decoder(Asking(request=request or asks([]), terms=terms(wire.name), new_id=clock.uuid7, call_ids=ids))


def read(reader: Decoder, stream: bytes, cuts: Sequence[int] = ()) -> list[ModelEvent]:
    """What a stream of bytes means, cut at these places; ends as the stream does."""
    frames, events = sse.SseDecoder(), []
    edges = [0, *sorted(cut for cut in cuts if 0 < cut < len(stream)), len(stream)]
    for start, end in pairwise(edges):
        for frame in frames.feed(stream[start:end]):
            if not reader.is_over:
                events += reader.feed(frame)
    if not reader.is_over:
        for frame in frames.finish():
            events += reader.feed(frame)
    return events if reader.is_over else [*events, *reader.finish()]


ORIGIN = ModelOrigin("messages", "http://127.0.0.1:1/v1", "someone", "m")
