"""A request without function calling: tools are described in the instructions, calls and results are messages.

In the thread they stay ordinary calls and outputs. `reading` finds the calls in what a model answers.
"""

from __future__ import annotations

import os
import re
from functools import cache
from typing import Any

import msgspec

from spindle.model.wires.functions import FunctionTool, function_tools
from spindle.model.wires.item_parts import NO_OUTPUT, call_arguments, call_name, pictures_of, texts_of
from spindle.protocol.items import (
    Item,
    assistant_message,
    call_id_of,
    decode_own,
    encode_payload,
    is_call,
    is_external,
    is_output,
    user_message,
)
from spindle.protocol.request import Request, VisibleItem

_NO_TOOLS = b"[]"
_HEADING = re.compile(r"(?m)^[ \t]*#")
"""A server describes its own tool, and none beside it."""
_RESULT_TAG = re.compile(r"<(?=\s*(?:/\s*)?(?:tool_result|developer|permissions\s+instructions)\b)", re.IGNORECASE)
"""What would end a result, or speak in our name behind it. Other tags stay: files are full of them, and are edited."""


class ToolsInWords:
    """For the requests of one thread: what was put into words stays the same object."""

    def __init__(self) -> None:
        self._given: list[VisibleItem] = []
        self._told: list[VisibleItem] = []
        self._names: dict[str, str] = {}
        """The tools of the calls so far, by the ids of the calls."""
        self._instructions: tuple[bytes, bytes, bytes] = (b"", _NO_TOOLS, b"")
        """Base text, tools, and both as one text."""

    def apply(self, request: Request) -> Request:
        """The same request in words. Equal requests give equal ones."""
        return msgspec.structs.replace(
            request,
            instructions=self._instructed(request.instructions, request.tools),
            items=self._items(request.items),
            tools=_NO_TOOLS,
            tool_choice="auto",
        )

    def _instructed(self, base: bytes, tools: bytes) -> bytes:
        if self._instructions[:2] != (base, tools):
            listed = self.listed(tools)
            told = "\n\n".join((decode_own(base), self.form, *map(_described, listed))) if listed else decode_own(base)
            self._instructions = base, tools, encode_payload(told)
        return self._instructions[2]

    def _items(self, items: list[VisibleItem]) -> list[VisibleItem]:
        known = len(self._given)
        if items[:known] != self._given:
            known = 0
            self.restart()
        self._given = items
        self._told += [self._in_words(visible) for visible in items[known:]]
        return self._told.copy()

    def restart(self) -> None:
        """What was said so far no longer counts."""
        self._told, self._names = [], {}

    def _in_words(self, visible: VisibleItem) -> VisibleItem:
        item = visible.item
        if is_call(item):
            self._names[call_id_of(item)] = call_name(item)
            return VisibleItem.of(assistant_message(self.call_text(item)), visible.origin)
        if is_output(item):
            return VisibleItem.of(self.result(item, self._names.get(call_id_of(item), "unknown")))
        if is_external(item):
            from spindle.context.external import as_message  # few threads have one

            return VisibleItem.of(as_message(item, item.get("output")))
        told = self.message(item)
        return visible if told is item else VisibleItem.of(told, visible.origin)

    # ---- the form of calls; models that a grammar holds to another one have another -----------------

    def listed(self, tools: bytes) -> list[FunctionTool]:
        """The tools as models are told of them."""
        return function_tools(tools)

    @property
    def form(self) -> str:
        """What models are told about it."""
        return _form()

    def call_text(self, call: Item) -> str:
        """A call in that form."""
        named = encode_payload({"name": call_name(call)})[:-1].decode()
        return f'```json\n{named},"arguments":{call_arguments(call)}}}\n```'

    def result(self, output: Item, tool: str) -> Item:
        """What a call gave, as a message."""
        return _result_message(output, tool)

    def message(self, item: Item) -> Item:
        """Anything that is neither a call nor an output: the same object, if it stays as it is."""
        return item


def _result_message(output: Item, tool: str) -> Item:
    """What a call gave. Nothing in it can end the block it stands in, or begin another."""
    given = output.get("output")
    text = _RESULT_TAG.sub(r"\\u{3C}", "\n".join(texts_of(given))) or NO_OUTPUT
    message = user_message(f"<tool_result name={tool}>\n{text}\n</tool_result>")
    message["content"] += [{"type": "input_image", "image_url": url} for url in pictures_of(given)]
    return message


def _described(tool: FunctionTool) -> str:
    """A tool and its arguments; a line for each is easier on small models than a schema."""
    properties = tool.parameters.get("properties")
    required = tool.parameters.get("required") or ()
    lines = [tool.description] if tool.description else []
    for name, schema in properties.items() if isinstance(properties, dict) else ():
        lines.append(f"- {name} ({_kind(schema)}{', required' if name in required else ''}){_explained(schema)}")
    return f"## {tool.name}\n" + _HEADING.sub(r"\\\g<0>", "\n".join(lines)) if lines else f"## {tool.name}"


def _kind(schema: Any) -> str:
    kind = schema.get("type") if isinstance(schema, dict) else None
    return kind if isinstance(kind, str) else "any"


def _explained(schema: Any) -> str:
    if not isinstance(schema, dict):
        return ""
    words = schema.get("description")
    told = f": {words}" if isinstance(words, str) and words else ""
    if not schema.keys() - {"type", "description"}:
        return told
    shape = {name: value for name, value in schema.items() if name != "description"}
    return f"{told} JSON schema: {encode_payload(shape).decode()}"


@cache
def _form() -> str:
    with open(f"{os.path.dirname(__file__)}/form.md", encoding="utf-8") as file:
        return file.read().rstrip()
