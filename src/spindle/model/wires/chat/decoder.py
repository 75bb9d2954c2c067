"""Chunks of a Chat Completions stream to `ModelEvent`s. Pure: ids come from outside.

An answer counts as a whole: text is shown as it comes, but items are done, and calls with them, only at its end. So an
answer that breaks off leaves nothing behind, and the same request can be made again.
"""

from __future__ import annotations

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
from spindle.model.failures import (
    ANSWER_MAX_BYTES,
    ResponseFailed,
    closed_early,
    disconnected,
    incomplete,
    too_long,
)
from spindle.model.wires.chat.call_pieces import CallPieces
from spindle.model.wires.chat.usage import counts_cached, read_usage
from spindle.model.wires.functions import call_item, free_text_names
from spindle.model.wires.wire import Asking
from spindle.protocol.items import Item, assistant_message, decode_foreign

_DONE = b"[DONE]"
_CUT = frozenset(("length", "max_tokens", "max_output_tokens", "model_length"))
_FILTERED = frozenset(("content_filter", "sensitive", "safety", "refusal", "recitation"))
_OVERFLOWED = frozenset(("model_context_window_exceeded",))
_BROKEN = frozenset(("error", "abort", "cancelled", "network_error", "insufficient_system_resource"))
"""The server gave up for a reason that may pass. These and most others in this list are no part of the documented
format, but there are servers that send them."""


class ChatDecoder:
    """Reads one answer. `feed` it the data of each event."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        self._text = _Streamed()
        self._reasoning = _Streamed()
        self._calls = CallPieces()
        self._response_id: str | None = None
        self._finish_reason = ""
        self._usage: Any = None
        self._is_created = False
        self._bytes = 0
        self.is_over = False
        self.failure: ModelError | None = None

    def feed(self, frame: bytes) -> list[ModelEvent]:
        self._bytes += len(frame)
        if self._bytes > ANSWER_MAX_BYTES:
            raise too_long()
        if frame.strip() == _DONE:
            return self._end()
        try:
            chunk = decode_foreign(frame)
        except (msgspec.DecodeError, UnicodeError):
            return []
        if not isinstance(chunk, dict):
            return []
        _raise_error(chunk)
        choices = chunk.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if (usage := _usage(chunk, choice)) is not None:
            self._usage = usage  # running totals: the last one counts
        events = self._created(chunk)
        if isinstance(choice, dict):
            _raise_error(choice)
            events += self._read(choice)
        return events

    @property
    def has_stopped(self) -> bool:
        return bool(self._finish_reason)

    def finish(self) -> list[ModelEvent]:
        if not self._finish_reason:
            raise closed_early()
        return self._end()

    # ---- chunks --------------------------------------------------------------------------------

    def _created(self, chunk: dict[str, Any]) -> list[ModelEvent]:
        if self._is_created:
            return []
        self._is_created = True
        given = chunk.get("id")
        self._response_id = given if isinstance(given, str) and given else None
        return [Created(self._response_id)]

    def _read(self, choice: dict[str, Any]) -> list[ModelEvent]:
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            self._finish_reason = reason
        delta = choice.get("delta")
        if not isinstance(delta, dict) and isinstance(choice.get("message"), dict) and not self._has_content:
            delta = choice.get("message")  # a server that does not stream sends all of it at once
        if not isinstance(delta, dict):
            return []
        text, thought = _pieces(delta.get("content"))
        events = self._think(thought or _reasoning(delta))
        events += self._say(text)
        if isinstance(refusal := delta.get("refusal"), str):
            events += self._say(refusal)
        if (calls := delta.get("tool_calls")) is not None:
            self._calls.take(calls)
        if isinstance(function := delta.get("function_call"), dict):
            self._calls.take([{"index": 0, "function": function}])  # the form before there were several
        return events

    @property
    def _has_content(self) -> bool:
        return bool(self._text.whole or self._reasoning.whole or self._calls.calls)

    def _say(self, text: str) -> list[ModelEvent]:
        shown, begins = self._text.add(text)
        if not shown:
            return []
        item_id = self._text.item_id = self._text.item_id or self._asking.new_id()
        opened = [ItemAdded({"type": "message", "role": "assistant", "content": []}, item_id)] if begins else []
        return [*opened, TextDelta(item_id, shown)]

    def _think(self, text: str) -> list[ModelEvent]:
        shown, begins = self._reasoning.add(text)
        if not shown:
            return []
        item_id = self._reasoning.item_id = self._reasoning.item_id or self._asking.new_id()
        opened: list[ModelEvent] = []
        if begins:
            opened = [ItemAdded({"type": "reasoning", "summary": []}, item_id), SummaryPartAdded(item_id)]
        return [*opened, SummaryDelta(item_id, shown)]

    # ---- its end -------------------------------------------------------------------------------

    def _end(self) -> list[ModelEvent]:
        reason = self._finish_reason.lower()
        if reason in _BROKEN:
            raise disconnected(f"the server gave up (finish_reason: {reason})")
        self.is_over = True
        if reason in _FILTERED:
            self.failure = _filtered(reason)
            return []
        if reason in _OVERFLOWED:
            from spindle.model.refusals import CONTEXT_FULL  # only after a failure

            self.failure = ModelError(CONTEXT_FULL, "context_window_exceeded")
            return []
        if reason in _CUT:
            self.failure = incomplete("max_output_tokens")
            return self._said()
        return [*self._said(), *self._called(), self._completed()]

    def _said(self) -> list[ModelEvent]:
        done: list[ModelEvent] = []
        if self._reasoning.item_id:
            thought: Item = {
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": self._reasoning.whole}],
                "encrypted_content": None,
            }
            done.append(ItemDone(thought, self._reasoning.item_id))
        if self._text.item_id:
            done.append(ItemDone(assistant_message(self._text.whole), self._text.item_id))
        return done

    def _called(self) -> list[ModelEvent]:
        asking, calls = self._asking, [call for call in self._calls.calls if call.is_something]
        if not calls:
            return []
        free_text = free_text_names(asking.request.tools)
        return [
            ItemDone(
                call_item(call.name, call.arguments, asking.call_ids.take(call.given_id), free_text), asking.new_id()
            )
            for call in calls
        ]

    def _completed(self) -> Completed:
        return Completed(
            response_id=self._response_id,
            usage=read_usage(self._usage),
            # What is not sent again is not in the context: there is nothing that the server has left out.
            reasoning_included=True,
            counts_cached=counts_cached(self._usage),
        )


class _Streamed:
    """A text that comes in pieces. It begins with something to read: blanks alone are nothing."""

    def __init__(self) -> None:
        self.item_id = ""
        self._pieces: list[str] = []
        self._has_begun = False

    @property
    def whole(self) -> str:
        return "".join(self._pieces)

    def add(self, piece: str) -> tuple[str, bool]:
        """What is to be shown now, and whether it is the first that is shown."""
        if piece:
            self._pieces.append(piece)
        if self._has_begun:
            return piece, False
        if not piece.strip():
            return "", False
        self._has_begun = True
        return self.whole, True


def _raise_error(holder: dict[str, Any]) -> None:
    """Some servers begin an answer and then send an error in the place of its end."""
    error = holder.get("error")
    if not error and (holder.get("object") == "error" or holder.get("type") == "error" or _is_complaint(holder)):
        error = holder
    if error:
        raise ResponseFailed(error if isinstance(error, dict) else {"message": str(error)})


def _is_complaint(chunk: dict[str, Any]) -> bool:
    """No part of an answer, but a sentence. That its event is named `error` is not seen here."""
    is_part = any(name in chunk for name in ("choices", "usage", "delta", "index"))
    return not is_part and any(isinstance(chunk.get(name), str) for name in ("message", "detail"))


def _usage(chunk: dict[str, Any], choice: Any) -> dict[str, Any] | None:
    """The counts of a chunk; a few servers put them with the choice (Kimi) or among extras (Groq)."""
    extras = chunk.get("x_groq")
    for holder in (chunk, choice, extras):
        if isinstance(holder, dict) and isinstance(usage := holder.get("usage"), dict):
            return usage
    return None


def _pieces(content: Any) -> tuple[str, str]:
    """Text and reasoning of a `content`, which a few servers send as a list of parts."""
    if isinstance(content, str):
        return content, ""
    if not isinstance(content, list):
        return "", ""
    texts: list[str] = []
    thoughts: list[str] = []
    for part in content:
        if not isinstance(part, dict):
            continue
        if part.get("type") == "thinking":
            inner = part.get("thinking")
            thoughts.append(inner if isinstance(inner, str) else _pieces(inner)[0])
        elif isinstance(part.get("text"), str):
            texts.append(part["text"])
    return "".join(texts), "".join(thoughts)


def _reasoning(delta: dict[str, Any]) -> str:
    """A piece of reasoning, under whichever name; servers that know two of them send it twice."""
    for name in ("reasoning_content", "reasoning", "thinking"):
        text = delta.get(name)
        if isinstance(text, str) and text:
            return text
    details = delta.get("reasoning_details")
    entries = [entry for entry in details if isinstance(entry, dict)] if isinstance(details, list) else ()
    texts = (entry.get("text") or entry.get("summary") for entry in entries)
    return "".join(text for text in texts if isinstance(text, str))


def _filtered(reason: str) -> ModelError:
    return ModelError(
        f"The content filter of the model server stopped the answer (finish_reason: {reason})",
        advice="Say it in other words, or ask another model.",
    )
