"""A request made simpler for a server that cannot do all. Loaded only for such servers.

What every wire would have to do alike is done here, on the items: pictures become words, a schema becomes a demand.
Calls and outputs of tools for free text become those of functions where the wire itself knows both kinds.
"""

from __future__ import annotations

from typing import Any

import msgspec

from spindle.model.capabilities import Capabilities
from spindle.model.wires.functions import free_text_arguments, function_tools
from spindle.protocol.items import Item, Part, encode_json
from spindle.protocol.request import Request, VisibleItem

IMAGE_LEFT_OUT = "[picture left out: the server of this model takes text only]"
_SCHEMA_DEMAND = (
    "Answer with one JSON value and nothing else: no words around it, no code fence. "
    "It must fit this JSON Schema:\n{schema}"
)


def is_lowered(capabilities: Capabilities, wire: str) -> bool:
    """Whether requests must be made simpler before the wire gets them."""
    everywhere = capabilities.images and capabilities.json_schema and capabilities.tool_choice_none
    if wire != "responses":
        return not everywhere
    own = capabilities.custom_tools and capabilities.hosted_tools and capabilities.parallel
    return not (everywhere and own and capabilities.developer_role)


class Lowering:
    """For the requests of one thread: an item that was made simpler stays the same object."""

    def __init__(self) -> None:
        self._capabilities: Capabilities | None = None
        self._wire = ""
        self._whole: list[VisibleItem] = []
        self._simple: list[VisibleItem] = []
        self._demanding: tuple[VisibleItem, str, VisibleItem] | None = None
        """The message that last held a demand: as it was, the demand, and with it."""

    def apply(self, request: Request, capabilities: Capabilities, wire: str) -> Request:
        """The same request for a server with these capabilities. Equal arguments give equal requests."""
        changes: dict[str, Any] = {"items": self._items(request.items, capabilities, wire)}
        if not capabilities.tool_choice_none and request.tool_choice == "none":
            changes["tool_choice"] = "auto"
        if not capabilities.json_schema and (shape := (request.text or {}).get("format")) is not None:
            rest = {name: value for name, value in (request.text or {}).items() if name != "format"}
            changes["text"] = rest or None
            changes["items"] = self._demanded(changes["items"], shape["schema"])
        if wire == "responses":
            if not capabilities.parallel:
                changes["parallel_tool_calls"] = None
            if not (capabilities.custom_tools and capabilities.hosted_tools):
                changes["tools"] = _tools(request.tools, capabilities)
        return msgspec.structs.replace(request, **changes)

    def _items(self, items: list[VisibleItem], capabilities: Capabilities, wire: str) -> list[VisibleItem]:
        known = len(self._whole)
        is_longer = len(items) >= known and (not known or items[known - 1] is self._whole[-1])
        if capabilities != self._capabilities or wire != self._wire or not is_longer:
            self._simple, known = [], 0
        self._capabilities, self._wire, self._whole = capabilities, wire, items
        self._simple += [_simple(visible, capabilities, wire) for visible in items[known:]]
        return self._simple.copy()

    def _demanded(self, items: list[VisibleItem], schema: Any) -> list[VisibleItem]:
        """With the demand for JSON in the last text of the user."""
        demand = _SCHEMA_DEMAND.format(schema=encode_json(schema).decode())
        for index in reversed(range(len(items))):
            visible = items[index]
            if visible.item.get("type") == "message" and visible.item.get("role") == "user":
                known = self._demanding
                if known is None or known[0] is not visible or known[1] != demand:
                    content = [*visible.item["content"], {"type": "input_text", "text": demand}]
                    known = visible, demand, _replaced(visible, {**visible.item, "content": content})
                    self._demanding = known
                items[index] = known[2]
                break
        return items


def _tools(tools: bytes, capabilities: Capabilities) -> bytes:
    from spindle.protocol.items import decode_own  # seldom

    if capabilities.custom_tools:
        return encode_json([tool for tool in decode_own(tools) if tool.get("type") in ("function", "custom")])
    functions = {tool.name: tool for tool in function_tools(tools) if tool.is_free_text}
    lowered: list[dict[str, Any]] = []
    for tool in decode_own(tools):
        function = functions.get(tool.get("name", "")) if tool.get("type") == "custom" else None
        if function is not None:
            shape = {"name": function.name, "description": function.description, "strict": False}
            lowered.append({"type": "function", **shape, "parameters": function.parameters})
        elif tool.get("type") == "function" or capabilities.hosted_tools:
            lowered.append(tool)
    return encode_json(lowered)


def _simple(visible: VisibleItem, capabilities: Capabilities, wire: str) -> VisibleItem:
    item = visible.item
    if not capabilities.images and b'"input_image"' in visible.raw:
        item = _without_images(item)
    if wire == "responses":
        if not capabilities.custom_tools:
            item = _as_function(item)
        if not capabilities.developer_role and item.get("role") == "developer":
            item = _as_user(item)
    return visible if item is visible.item else _replaced(visible, item)


def _replaced(visible: VisibleItem, item: Item) -> VisibleItem:
    return VisibleItem.of(item, visible.origin, visible.opaque)


def _without_images(item: Item) -> Item:
    for field in ("content", "output"):
        if isinstance(parts := item.get(field), list):
            return {**item, field: [_without_image(part) for part in parts]}
    return item


def _without_image(part: Part) -> Part:
    is_picture = isinstance(part, dict) and part.get("type") == "input_image"
    return {"type": "input_text", "text": IMAGE_LEFT_OUT} if is_picture else part


def _as_function(item: Item) -> Item:
    match item.get("type"):
        case "custom_tool_call":
            call = {"type": "function_call", "name": item["name"], "arguments": free_text_arguments(item["input"])}
            return {**call, "call_id": item["call_id"]}
        case "custom_tool_call_output":
            return {**item, "type": "function_call_output"}
        case _:
            return item


def _as_user(item: Item) -> Item:
    texts = [part.get("text", "") for part in item["content"] if isinstance(part, dict)]
    text = "<developer>\n" + "\n\n".join(texts) + "\n</developer>"
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
