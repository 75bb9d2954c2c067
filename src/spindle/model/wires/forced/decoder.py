"""Reads the answers of the model inside: the object that the grammar made it write becomes a message or a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from spindle.errors import ModelError
from spindle.model.client import ItemAdded, ItemDone, ModelEvent, Notice, TextDelta
from spindle.model.wires.chat.decoder import ChatDecoder
from spindle.model.wires.forced.answer_text import AnswerText
from spindle.model.wires.forced.steps import ANSWER, ARGUMENTS, NAME
from spindle.model.wires.forced.writing import PATCH, WRITE, patch_arguments
from spindle.model.wires.functions import call_item, free_text_names, function_tools
from spindle.model.wires.wire import Asking
from spindle.protocol.items import Item, assistant_message, decode_foreign, encode_payload, item_text

Timings = dict[str, Any]
"""How long llama.cpp took, in its own words."""


class ForcedDecoder:
    """A chat answer whose text is read once more."""

    def __init__(self, asking: Asking, note_timings: Callable[[Timings], str | None]) -> None:
        self._asking = asking
        self._chat = ChatDecoder(asking)
        self._note_timings = note_timings
        self._text = AnswerText()
        self._is_shown = False
        self.is_over = False
        self.failure: ModelError | None = None

    @property
    def has_stopped(self) -> bool:
        return self._chat.has_stopped

    def feed(self, frame: bytes) -> list[ModelEvent]:
        events = self._read(self._chat.feed(frame))
        if b'"timings"' in frame and (message := self._note(frame)):
            events.append(Notice(message))
        return events

    def finish(self) -> list[ModelEvent]:
        return self._read(self._chat.finish())

    def _read(self, events: list[ModelEvent]) -> list[ModelEvent]:
        self.is_over, self.failure = self._chat.is_over, self._chat.failure
        read: list[ModelEvent] = []
        for event in events:
            match event:
                case ItemAdded(item={"type": "message"}):
                    pass  # it may become a call
                case TextDelta(item_id=item_id, delta=delta):
                    read += self._show(item_id, delta)
                case ItemDone(item={"type": "message"}):
                    read += self._finished(event)
                case _:
                    read.append(event)
        return read

    def _show(self, item_id: str, delta: str) -> list[ModelEvent]:
        shown = self._text.feed(delta)
        if not shown:
            return []
        opened: list[ModelEvent] = []
        if not self._is_shown:
            self._is_shown = True
            opened = [ItemAdded({"type": "message", "role": "assistant", "content": []}, item_id)]
        return [*opened, TextDelta(item_id, shown)]

    def _finished(self, done: ItemDone) -> list[ModelEvent]:
        if self.failure is not None:
            # It was cut off: what it said stays, half a call does not.
            return [ItemDone(assistant_message(self._text.so_far), done.item_id)] if self._text.so_far else []
        item = self._item(item_text(done.item))
        return [] if item is None else [ItemDone(item, done.item_id)]

    def _item(self, text: str) -> Item | None:
        try:
            step = decode_foreign(text.encode())
        except (msgspec.DecodeError, UnicodeError):
            return assistant_message(text)  # a server without grammars
        if not isinstance(step, dict):
            return assistant_message(text)
        if ANSWER in step:
            answer = step[ANSWER]
            answer = answer if isinstance(answer, str) else encode_payload(answer).decode()
            return assistant_message(answer) if answer.strip() else None
        name, arguments = step.get(NAME), step.get(ARGUMENTS)
        if not isinstance(name, str) or not name:
            return assistant_message(text)
        asking, tools = self._asking, self._asking.request.tools
        listed = {tool.name for tool in function_tools(tools)}
        if name == WRITE and WRITE not in listed and (patch := patch_arguments(arguments)) is not None:
            name, arguments = PATCH, patch
        given = encode_payload(arguments).decode()
        return call_item(name, given, asking.call_ids.take(None), free_text_names(tools))

    def _note(self, frame: bytes) -> str | None:
        """What is to be said of how long it took."""
        try:
            chunk = decode_foreign(frame)
        except (msgspec.DecodeError, UnicodeError):
            return None
        timings = chunk.get("timings") if isinstance(chunk, dict) else None
        return self._note_timings(timings) if isinstance(timings, dict) else None
