"""Calls that a model wrote as text, found in its answer.

An answer that is nothing but a call of a listed tool, with arguments that fit its schema, is that call; anything with
other words in it is text. Many models write calls so: those without function calling are told to, small ones forget
that they should not.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from spindle.errors import ModelError
from spindle.model.client import Completed, ItemAdded, ItemDone, ModelEvent, TextDelta
from spindle.model.wires.functions import FREE_TEXT, FunctionTool, call_item, free_text_names, function_tools
from spindle.protocol.items import Item, decode_foreign, encode_payload, item_text
from spindle.protocol.schema_check import check

if TYPE_CHECKING:
    from spindle.model.wires.wire import Asking, Decoder

_NAMES = ("name", "tool", "function")
_ARGUMENTS = ("arguments", "parameters", "input")
_TAG, _END_TAG = "<tool_call>", "</tool_call>"
_FENCE = "```"
_FENCED = re.compile(r"```[ \t]*[\w.-]*\s*(?P<inside>\{.*\})\s*(?:```)?", re.DOTALL)
_MAY_BE_FENCED = re.compile(r"```[ \t]*[\w.-]{0,20}\s*(?:\{|\Z)")
_LOOK_CHARS = 80
"""How much of an answer must be seen to know that it is no call."""

Call = tuple[str, str]
"""The name of a tool, and arguments as JSON."""


def read_calls(text: str, tools: dict[str, FunctionTool]) -> list[Call]:
    """The calls that a whole answer is; empty if it is anything else."""
    text = text.strip()
    if text.startswith(_TAG):
        blocks = [block.strip() for block in text.removesuffix(_END_TAG).split(_END_TAG)]
        if not all(block.startswith(_TAG) for block in blocks):
            return []
        found = [_read_call(_unfenced(block.removeprefix(_TAG)), tools) for block in blocks]
    else:
        found = [_read_call(_unfenced(text), tools)]
    calls = [call for call in found if call is not None]
    return calls if len(calls) == len(found) else []


def _unfenced(text: str) -> str:
    fenced = _FENCED.fullmatch(text.strip())
    return fenced["inside"] if fenced else text.strip()


def _read_call(text: str, tools: dict[str, FunctionTool]) -> Call | None:
    if not text.startswith("{"):
        return None
    try:
        given = decode_foreign(text)
        if isinstance(given.get("function"), dict):
            given = given["function"]
    except (msgspec.DecodeError, UnicodeError):
        return None
    name = next((given[key] for key in _NAMES if key in given), None)
    tool = tools.get(name) if isinstance(name, str) else None
    if tool is None:
        return None
    arguments = _arguments(next((given[key] for key in _ARGUMENTS if key in given), None), tool)
    if arguments is None or check(arguments, tool.parameters, is_foreign=True) is not None:
        return None
    return tool.name, encode_payload(arguments).decode()


def _arguments(given: Any, tool: FunctionTool) -> dict[str, Any] | None:
    """An object, the text of one or, for a tool with one argument for free text, that text."""
    if isinstance(given, str):
        try:
            given = decode_foreign(given)
        except (msgspec.DecodeError, UnicodeError):
            given = {FREE_TEXT: given} if tool.parameters.get("required") == [FREE_TEXT] else None
    return _without_nulls(given, tool.parameters) if isinstance(given, dict) else None


def _without_nulls(arguments: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Small models give every argument there is, and null for those they have no use for."""
    required = schema.get("required") or ()
    return {name: value for name, value in arguments.items() if value is not None or name in required}


def may_be_call(beginning: str) -> bool:
    """Whether an answer that begins so can still turn out to be a call."""
    beginning = beginning.lstrip()
    if beginning.startswith(("{", _TAG)) or _TAG.startswith(beginning) or _FENCE.startswith(beginning):
        return True
    return _MAY_BE_FENCED.match(beginning) is not None


class CallsInText:
    """Passes the events of one answer on; a message that may be a call is held back until that is known."""

    def __init__(self, tools: bytes, asking: Asking) -> None:
        """`tools` are those that the model may call, whether the request listed or described them."""
        self._tools = tools
        self._asking = asking
        self._held: list[ModelEvent] = []
        self._beginning = ""
        self._is_text = False
        """There is text in this answer, or something else that is shown: then none of it is a call."""
        self._calls: list[Call] = []
        """What the held message is, now that it is whole."""

    def pass_on(self, event: ModelEvent) -> list[ModelEvent]:
        """What this event means, with what was held back before it."""
        match event:
            case ItemAdded(item=item) if _is_message(item):
                if self._held or self._is_text:
                    return [*self.release(), event]
                self._held.append(event)
                return []
            case TextDelta(delta=delta) if not self._is_text:
                self._held.append(event)
                if len(self._beginning) < _LOOK_CHARS:
                    self._beginning += delta
                    if not may_be_call(self._beginning[:_LOOK_CHARS]):
                        return self.release()
                return []
            case ItemDone(item=item) if _is_message(item) and not self._is_text:
                self._held.append(event)
                self._calls = self._found(item_text(item))
                return [] if self._calls else self.release()
            case ItemDone(item=item) | ItemAdded(item=item) if item.get("type") != "reasoning":
                # There is more in this answer than the message: so that is text.
                return [*self.release(), event]
            case Completed() if self._calls:
                called = [self._item(call) for call in self._calls]
                self._held, self._calls = [], []
                return [*called, event]
            case Completed():
                return [*self.release(), event]
            case _:
                return [event]

    def _found(self, text: str) -> list[Call]:
        if not may_be_call(text[:_LOOK_CHARS]):
            return []
        return read_calls(text, {tool.name: tool for tool in function_tools(self._tools)})

    def _item(self, call: Call) -> ItemDone:
        call_id = self._asking.call_ids.take(None)
        return ItemDone(call_item(*call, call_id, free_text_names(self._tools)), self._asking.new_id())

    def release(self) -> list[ModelEvent]:
        """What was held back is text after all; also when the answer ends without `Completed`."""
        held, self._held, self._calls = self._held, [], []
        self._is_text = True
        return held


class ForgivingDecoder:
    """Reads an answer as its wire does, and finds calls in its text."""

    def __init__(self, decoder: Decoder, calls: CallsInText) -> None:
        self._decoder = decoder
        self._calls = calls
        self.is_over = False
        self.failure: ModelError | None = None

    @property
    def has_stopped(self) -> bool:
        return self._decoder.has_stopped

    def feed(self, frame: bytes) -> list[ModelEvent]:
        return self._passed(self._decoder.feed(frame))

    def finish(self) -> list[ModelEvent]:
        return self._passed(self._decoder.finish())

    def _passed(self, events: list[ModelEvent]) -> list[ModelEvent]:
        self.is_over, self.failure = self._decoder.is_over, self._decoder.failure
        passed = [told for event in events for told in self._calls.pass_on(event)]
        # An answer that was cut off has a text that is kept, and no call that is run.
        return passed + self._calls.release() if self.failure is not None else passed


def _is_message(item: Item) -> bool:
    return item.get("type") == "message"
