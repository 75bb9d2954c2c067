"""Frames of a Messages stream to `ModelEvent`s. Pure.

Texts and thinking are shown while they stream. Items are finished, and so calls begin to run, when the server has sent
the whole answer: one that breaks off is asked for again, and must leave nothing behind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from spindle.errors import ModelError
from spindle.model.client import (
    Completed,
    Created,
    ItemAdded,
    ItemDone,
    ModelEvent,
    SummaryDelta,
    SummaryPartAdded,
    TextDelta,
)
from spindle.model.failures import ANSWER_MAX_BYTES, ResponseFailed, disconnected, incomplete, too_long
from spindle.model.wires.functions import call_item, free_text_names
from spindle.model.wires.messages.conversation import PAUSED, THINKING
from spindle.model.wires.messages.usage import counts_cached, read_usage
from spindle.model.wires.wire import Asking
from spindle.protocol.items import MAX_FOREIGN_DEPTH, Item, assistant_message, encode_payload, json_reader


class _Tag(msgspec.Struct):
    type: str = ""
    error: Any = None


class _Piece(msgspec.Struct, gc=False):
    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    partial_json: str | None = None


class _BlockDelta(msgspec.Struct, gc=False):
    delta: _Piece
    index: int | None = None


class _BlockStart(msgspec.Struct):
    content_block: dict[str, Any]
    index: int | None = None


class _MessageStart(msgspec.Struct):
    message: dict[str, Any] | None = None


class _MessageDelta(msgspec.Struct):
    delta: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None


class _Error(msgspec.Struct):
    error: Any = None
    message: Any = None
    """Where a gateway leaves out the object around the sentence."""


_PEEK_BYTES = 80


class _Block:
    """A content block that is being read."""

    def __init__(self, kind: str, item_id: str, start: dict[str, Any]) -> None:
        self.kind = kind
        """`text`, `thinking`, `redacted_thinking`, `tool_use`, or one that nobody here knows."""
        self.item_id = item_id
        self.start = start
        self.pieces: list[str] = []
        self.signature: list[str] = []
        self.is_announced = False

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class MessagesDecoder:
    """Reads one answer."""

    has_stopped = False

    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        self._blocks: list[_Block] = []
        self._at: dict[int, _Block] = {}
        """The blocks by the number that the server gives them."""
        self._response_id: str | None = None
        self._usage: dict[str, Any] = {}
        self._stop: dict[str, Any] = {}
        self._bytes = 0
        self.is_over = False
        self.failure: ModelError | None = None

    def feed(self, frame: bytes) -> list[ModelEvent]:
        self._bytes += len(frame)
        if self._bytes > ANSWER_MAX_BYTES:
            raise too_long()
        reader = _READERS.get(_peek_type(frame))
        if reader is None:
            return []
        shape, read = reader
        try:
            event = shape(frame)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return []
        return read(self, event)

    def finish(self) -> list[ModelEvent]:
        raise disconnected(
            "stream closed before message_stop",
            advice="The server, or a proxy before it, ends the answer too soon: look into its log.",
        )

    # ---- events ----------------------------------------------------------------------------------------

    def _begin(self, event: _MessageStart) -> list[ModelEvent]:
        message = event.message or {}
        given = message.get("id")
        self._response_id = given if isinstance(given, str) and given else None
        self._count(message.get("usage"))
        return [Created(self._response_id)]

    def _begin_block(self, event: _BlockStart) -> list[ModelEvent]:
        start = event.content_block
        kind = start.get("type")
        block = self._new_block(kind if isinstance(kind, str) else "", event.index, start)
        if block.kind in ("text", "thinking") and isinstance(said := start.get(block.kind), str) and said:
            return self._show(block, said)
        return []

    def _extend_block(self, event: _BlockDelta) -> list[ModelEvent]:
        piece, block = event.delta, self._block_at(event.index)
        match piece.type:
            case "text_delta" if piece.text:
                if block is None or block.kind != "text":
                    block = self._new_block("text", event.index, {})  # the server never said that it begins
                return self._show(block, piece.text)
            case "thinking_delta" if piece.thinking:
                if block is None or block.kind != "thinking":
                    block = self._new_block("thinking", event.index, {})
                return self._show(block, piece.thinking)
            case "signature_delta" if piece.signature and block is not None:
                block.signature.append(piece.signature)
            case "input_json_delta" if piece.partial_json and block is not None:
                block.pieces.append(piece.partial_json)
            case _:
                pass  # nothing in it, or nothing we know
        return []

    def _note(self, event: _MessageDelta) -> list[ModelEvent]:
        self._stop.update({name: value for name, value in (event.delta or {}).items() if value is not None})
        self._count(event.usage)
        return []

    def _end(self, event: _Tag) -> list[ModelEvent]:
        """The answer is whole. What it is worth depends on why the model stopped."""
        done: list[ItemDone | None]
        end: list[ModelEvent]
        match self._stop.get("stop_reason"):
            case "max_tokens":
                self.failure = incomplete("max_output_tokens")
                done, end = self._cut_short(), []
            case "refusal":
                self.failure = _refusal(self._stop.get("stop_details"))
                done, end = [], []
            case "model_context_window_exceeded":
                raise ResponseFailed({"type": "model_context_window_exceeded"})
            case "pause_turn":
                done = _paused([*map(self._done, self._blocks)])
                end = [self._completed(end_turn=False)]
            case _:
                done, end = [*map(self._done, self._blocks)], [self._completed()]
        self.is_over = True
        return [*(event for event in done if event is not None), *end]

    def _fail(self, event: _Error) -> list[ModelEvent]:
        if event.error is None and not isinstance(event.message, str):
            return []
        error = event.message if event.error is None else event.error
        raise ResponseFailed(error if isinstance(error, dict) else {"message": str(error)})

    # ---- blocks ----------------------------------------------------------------------------------------

    def _new_block(self, kind: str, index: int | None, start: dict[str, Any]) -> _Block:
        block = _Block(kind, self._asking.new_id(), start)
        self._blocks.append(block)
        if index is not None:
            self._at[index] = block
        return block

    def _block_at(self, index: int | None) -> _Block | None:
        if index is None:
            return self._blocks[-1] if self._blocks else None
        return self._at.get(index)

    def _show(self, block: _Block, said: str) -> list[ModelEvent]:
        """A piece of text or thinking. A block is announced once it has something to show; many stay blank."""
        block.pieces.append(said)
        events: list[ModelEvent] = []
        if not block.is_announced:
            if not said.strip():
                return []
            said, block.is_announced = block.text, True
            events.append(ItemAdded(_empty(block), block.item_id))
            if block.kind == "thinking":
                events.append(SummaryPartAdded(block.item_id))
        shown = TextDelta if block.kind == "text" else SummaryDelta
        return [*events, shown(block.item_id, said)]

    def _done(self, block: _Block) -> ItemDone | None:
        """The item that a block is; None for one that says nothing, or nothing we know."""
        match block.kind:
            case "text" if block.text.strip():
                return ItemDone(assistant_message(block.text), block.item_id)
            case "thinking":
                verbatim = {**block.start, "type": "thinking", "thinking": block.text}
                if block.signature:
                    verbatim["signature"] = "".join(block.signature)
                return ItemDone(_reasoning(block.text), block.item_id, {THINKING: verbatim})
            case "redacted_thinking":
                return ItemDone(_reasoning(""), block.item_id, {THINKING: block.start})
            case "tool_use":
                return ItemDone(self._call(block), block.item_id)
            case _:
                return None

    def _cut_short(self) -> list[ItemDone | None]:
        """What is kept of an answer that reached its limit: no calls, and no thinking that may lack its end."""
        kept = [block for block in self._blocks if block.kind != "tool_use"]
        done = [*map(self._done, kept)]
        if kept and kept[-1] is self._blocks[-1] and (last := done[-1]) is not None:
            done[-1] = msgspec.structs.replace(last, opaque=None)
        return done

    def _call(self, block: _Block) -> Item:
        name, given, whole = block.start.get("name"), block.start.get("id"), block.start.get("input")
        # Some servers send the arguments in one piece with the beginning.
        arguments = block.text or (encode_payload(whole).decode() if isinstance(whole, dict) else "{}")
        call_id = self._asking.call_ids.take(given if isinstance(given, str) else None)
        free_text = free_text_names(self._asking.request.tools)
        return call_item(name if isinstance(name, str) else "", arguments, call_id, free_text)

    # ---- the end ---------------------------------------------------------------------------------------

    def _count(self, usage: Any) -> None:
        """Counts are running totals: what comes later replaces what came before, unless it is nothing at all."""
        if isinstance(usage, dict):
            told = {name: value for name, value in usage.items() if value or name not in self._usage}
            self._usage.update({name: value for name, value in told.items() if value is not None})

    def _completed(self, end_turn: bool | None = None) -> Completed:
        return Completed(
            response_id=self._response_id,
            usage=read_usage(self._usage),
            end_turn=end_turn,
            # Thinking is sent back, and counted as far as the server reads it.
            reasoning_included=True,
            counts_cached=counts_cached(self._usage),
        )


_tag = json_reader(_Tag, is_walked=False)
_block_delta = msgspec.json.Decoder(_BlockDelta).decode  # there are many of them, and none of its members is walked
_block_start = json_reader(_BlockStart, MAX_FOREIGN_DEPTH)
_message_start = json_reader(_MessageStart, MAX_FOREIGN_DEPTH)
_message_delta = json_reader(_MessageDelta, MAX_FOREIGN_DEPTH)
_error = json_reader(_Error, MAX_FOREIGN_DEPTH)
_Reader = tuple[Callable[[bytes], Any], Callable[[MessagesDecoder, Any], list[ModelEvent]]]
# Not a table of each decoder's own methods: with that, it would hold on to itself and all it knows.
_READERS: dict[bytes, _Reader] = {
    b"message_start": (_message_start, MessagesDecoder._begin),
    b"content_block_start": (_block_start, MessagesDecoder._begin_block),
    b"content_block_delta": (_block_delta, MessagesDecoder._extend_block),
    b"message_delta": (_message_delta, MessagesDecoder._note),
    b"message_stop": (_tag, MessagesDecoder._end),
    b"error": (_error, MessagesDecoder._fail),
    b"": (_error, MessagesDecoder._fail),
}


def _peek_type(frame: bytes) -> bytes:
    """The event's type without decoding it, where it stands first, as it does with every server known."""
    parts = frame[:_PEEK_BYTES].split(b'"', 4)
    if len(parts) == 5 and parts[1] == b"type" and parts[0] == b"{" and b"\\" not in parts[3]:
        return parts[3]
    try:
        return _tag(frame).type.encode()
    except (msgspec.DecodeError, UnicodeError):
        return b"unreadable"


def _empty(block: _Block) -> Item:
    if block.kind == "text":
        return {"type": "message", "role": "assistant", "content": []}
    return {"type": "reasoning", "summary": []}


def _reasoning(text: str) -> Item:
    summary = [{"type": "summary_text", "text": text}] if text.strip() else []
    return {"type": "reasoning", "summary": summary, "content": None, "encrypted_content": None}


def _paused(done: list[ItemDone | None]) -> list[ItemDone | None]:
    """The items of an answer after which the model is asked to go on; the last one says so, in the record too."""
    items = [event for event in done if event is not None]
    if not items:
        raise disconnected("the model paused before it had said anything")
    last = items.pop()
    return [*items, msgspec.structs.replace(last, opaque={**(last.opaque or {}), PAUSED: True})]


def _refusal(details: Any) -> ModelError:
    from spindle.model.server_words import one_line  # only when something failed

    given = details if isinstance(details, dict) else {}
    category, explanation = given.get("category"), given.get("explanation")
    named = f" (refusal: {one_line(category)})" if isinstance(category, str) and category else " (refusal)"
    reason = f": {one_line(explanation)}" if isinstance(explanation, str) and explanation else ""
    return ModelError(
        f"The model refused to answer{named}{reason}", advice="Put the request in other words, or use another model."
    )
