"""Frames of a Responses stream to `ModelEvent`s. Pure: no clock but for ids, no network.

An event's type is peeked at before anything is decoded; types that nobody uses are never decoded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from spindle.errors import ModelError
from spindle.model.call_ids import CallIds
from spindle.model.client import (
    Completed,
    Created,
    InputDelta,
    ItemAdded,
    ItemDone,
    ModelEvent,
    RawReasoningDelta,
    SummaryDelta,
    SummaryPartAdded,
    TextDelta,
)
from spindle.model.failures import ResponseFailed, closed_early
from spindle.model.headers import answering_model
from spindle.model.wellformed import is_of_model, is_well_formed
from spindle.model.wires.counts import count
from spindle.protocol.items import MAX_FOREIGN_DEPTH, Item, call_id_of, is_call, json_reader
from spindle.protocol.request import TokenUsage


class _Tag(msgspec.Struct):
    type: str = ""


class _Delta(msgspec.Struct, gc=False):
    delta: str = ""
    item_id: str | None = None
    summary_index: int = 0
    content_index: int = 0


class _ItemEvent(msgspec.Struct):
    item: dict[str, Any]


class ResponseEvent(msgspec.Struct):
    response: dict[str, Any] | None = None


_PEEK_BYTES = 80


class ResponsesDecoder:
    """Reads one response. `feed` it the data of each event; `is_over` after `Completed`."""

    failure: ModelError | None = None
    has_stopped = False

    def __init__(
        self,
        new_id: Callable[[], str],
        call_ids: CallIds | None = None,
        *,
        reasoning_included: bool = False,
        model: str | None = None,
    ) -> None:
        self._new_id = new_id
        self._call_ids = call_ids or CallIds((), new_id)
        self._reasoning_included = reasoning_included
        self._model = model
        self._open: dict[str, str] = {}
        """Items that began and are not done: their id for deltas, and their type."""
        self._active: dict[str, str] = {}
        """The newest open item of each type."""
        self._writing: dict[str, tuple[str, str]] = {}
        """Calls of free-form tools that are open: their call id and the tool's name."""
        self._has_items = False
        self._made_up: set[str] = set()
        """Ids that are ours, because the server gave none."""
        self.is_over = False
        self.last_error: dict[str, Any] | None = None
        """What the server complained about last, where a stream may end without saying more."""

    def feed(self, frame: bytes) -> list[ModelEvent]:
        """The events that one frame means. Raises what `response.failed` and its like mean; skips garbage."""
        reader = _READERS.get(event_type(frame))
        if reader is None:
            return []
        shape, read = reader
        try:
            event = shape(frame)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return []
        return read(self, event)

    def finish(self) -> list[ModelEvent]:
        """The body ended, and nothing said that the response did."""
        if self.last_error is not None:
            raise ResponseFailed(self.last_error)
        raise closed_early()

    def _created(self, event: ResponseEvent) -> list[ModelEvent]:
        # Not its `model`: that is often only a longer name of the one that was asked for.
        headers = (event.response or {}).get("headers")
        given = {name.lower(): value for name, value in headers.items()} if isinstance(headers, dict) else {}
        return [Created(_text_of(event.response, "id"), answering_model(given) or self._model)]

    def _added(self, event: _ItemEvent) -> list[ModelEvent]:
        if not is_well_formed(event.item) or not is_of_model(event.item):
            return []  # its deltas open an item of their own
        given = _text_of(event.item, "id")
        item_id = self._begin(given, event.item.get("type", ""))
        call_id, name = _text_of(event.item, "call_id"), _text_of(event.item, "name")
        if event.item.get("type") == "custom_tool_call" and name and call_id and self._call_ids.keeps(call_id):
            self._writing[item_id] = call_id, name
        return [ItemAdded(event.item, item_id)]

    def _input(self, event: _Delta) -> list[ModelEvent]:
        writing = self._writing.get(event.item_id or "")
        return [] if writing is None else [InputDelta(event.item_id or "", event.delta, *writing)]

    def _text(self, event: _Delta) -> list[ModelEvent]:
        if event.item_id in self._open:
            return [TextDelta(event.item_id, event.delta)]
        item_id, opened = self._item_of(event.item_id, "message")
        return [*opened, TextDelta(item_id, event.delta)]

    def _summary_part(self, event: _Delta) -> list[ModelEvent]:
        item_id, opened = self._item_of(event.item_id, "reasoning")
        return [*opened, SummaryPartAdded(item_id, event.summary_index)]

    def _summary(self, event: _Delta) -> list[ModelEvent]:
        item_id, opened = self._item_of(event.item_id, "reasoning")
        return [*opened, SummaryDelta(item_id, event.delta, event.summary_index)]

    def _raw_reasoning(self, event: _Delta) -> list[ModelEvent]:
        item_id, opened = self._item_of(event.item_id, "reasoning")
        return [*opened, RawReasoningDelta(item_id, event.delta, event.content_index)]

    def _done(self, event: _ItemEvent) -> list[ModelEvent]:
        item = event.item
        if not is_well_formed(item) or not is_of_model(item):
            return []
        if is_call(item) and (call_id := self._call_ids.take(given := call_id_of(item))) != given:
            item["call_id"] = call_id
        self._has_items = True
        return [ItemDone(item, self._end(_text_of(item, "id"), item.get("type", "")))]

    def _completed(self, event: ResponseEvent) -> list[ModelEvent]:
        response = event.response or {}
        end_turn = response.get("end_turn")
        self.is_over = True
        return [
            *self._only_named_now(response.get("output")),
            Completed(
                response_id=_text_of(response, "id"),
                usage=read_usage(response.get("usage")),
                end_turn=end_turn if isinstance(end_turn, bool) else None,
                reasoning_included=self._reasoning_included,
                counts_cached=_counts_cached(response.get("usage")),
            ),
        ]

    def _only_named_now(self, output: Any) -> list[ModelEvent]:
        """The items of a response that finished none before its end; the usual ones repeat there what they finished."""
        if self._has_items or not isinstance(output, list):
            return []
        return [done for item in output if isinstance(item, dict) for done in self._done(_ItemEvent(item))]

    def _begin(self, given: str | None, kind: str) -> str:
        item_id = given or self._new_id()
        if not given:
            self._made_up.add(item_id)
        self._open[item_id] = kind
        self._active[kind] = item_id
        return item_id

    def _end(self, given: str | None, kind: str) -> str:
        item_id = given if given in self._open else None
        if item_id is None:
            active = self._active.get(kind)
            item_id = active if active and (not given or active in self._made_up) else given or self._new_id()
        self._open.pop(item_id, None)
        self._writing.pop(item_id, None)
        if self._active.get(kind) == item_id:
            del self._active[kind]
        return item_id

    def _item_of(self, given: str | None, kind: str) -> tuple[str, list[ModelEvent]]:
        """The item a delta belongs to, and the event that opens it when the server never did."""
        if given in self._open:
            return given, []
        active = self._active.get(kind)
        if active and (not given or active in self._made_up):
            return active, []
        item_id = self._begin(given, kind)
        empty: Item = {"type": kind, "id": item_id, "summary": []}
        if kind == "message":
            empty = {"type": kind, "role": "assistant", "id": item_id, "content": []}
        return item_id, [ItemAdded(empty, item_id)]


def _seldom(decoder: ResponsesDecoder, frame: bytes) -> list[ModelEvent]:
    from spindle.model.wires.responses.seldom import read_seldom  # most answers have none of these events

    return read_seldom(decoder, frame)


_tag = json_reader(_Tag, is_walked=False)
_delta = msgspec.json.Decoder(_Delta).decode  # there are many of them, and none of its members can be nested
_item = json_reader(_ItemEvent, MAX_FOREIGN_DEPTH)
_response = json_reader(ResponseEvent, MAX_FOREIGN_DEPTH)
_Reader = tuple[Callable[[bytes], Any], Callable[[ResponsesDecoder, Any], list[ModelEvent]]]
# Not a table of each decoder's own methods: with that, it would hold on to itself and all it knows.
_READERS: dict[bytes, _Reader] = {
    b"response.created": (_response, ResponsesDecoder._created),
    b"response.output_item.added": (_item, ResponsesDecoder._added),
    b"response.output_text.delta": (_delta, ResponsesDecoder._text),
    b"response.reasoning_summary_part.added": (_delta, ResponsesDecoder._summary_part),
    b"response.reasoning_summary_text.delta": (_delta, ResponsesDecoder._summary),
    b"response.reasoning_text.delta": (_delta, ResponsesDecoder._raw_reasoning),
    b"response.custom_tool_call_input.delta": (_delta, ResponsesDecoder._input),
    b"response.output_item.done": (_item, ResponsesDecoder._done),
    b"response.completed": (_response, ResponsesDecoder._completed),
    b"response.done": (_response, ResponsesDecoder._completed),
    b"response.failed": (bytes, _seldom),
    b"response.incomplete": (bytes, _seldom),
    b"error": (bytes, _seldom),
    b"": (bytes, _seldom),  # as some servers of others send it
    b"codex.rate_limits": (bytes, _seldom),
}


def event_type(frame: bytes) -> bytes:
    """The event's type without decoding it, where it stands first, as it does with every server known."""
    parts = frame[:_PEEK_BYTES].split(b'"', 4)
    if len(parts) == 5 and parts[1] == b"type" and parts[0] == b"{" and b"\\" not in parts[3]:
        return parts[3]
    try:
        return _tag(frame).type.encode()
    except (msgspec.DecodeError, UnicodeError):
        return b""


def read_usage(value: Any) -> TokenUsage | None:
    """Token counts as the server gives them: missing details are 0, a missing total is the sum."""
    if not isinstance(value, dict):
        return None
    inputs, outputs = count(value, "input_tokens"), count(value, "output_tokens")
    input_details, output_details = value.get("input_tokens_details"), value.get("output_tokens_details")
    return TokenUsage(
        input_tokens=inputs,
        cached_input_tokens=count(input_details, "cached_tokens"),
        cache_write_input_tokens=count(input_details, "cache_write_tokens") or count(value, "cache_write_tokens"),
        output_tokens=outputs,
        reasoning_output_tokens=count(output_details, "reasoning_tokens"),
        total_tokens=count(value, "total_tokens") if value.get("total_tokens") is not None else inputs + outputs,
    )


def _counts_cached(usage: Any) -> bool:
    if not isinstance(usage, dict):
        return True  # nothing is counted at all
    details = usage.get("input_tokens_details")
    return isinstance(details, dict) and details.get("cached_tokens") is not None


def _text_of(value: Any, name: str) -> str | None:
    text = value.get(name) if isinstance(value, dict) else None
    return text if isinstance(text, str) and text else None
