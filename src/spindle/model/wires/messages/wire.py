"""The Messages wire: what a request looks like as a whole. See `conversation` for items, `body` for cache marks."""

from __future__ import annotations

from typing import Any

from spindle.model.body import Growth
from spindle.model.url import parse_url
from spindle.model.wires.messages.blocks import marked, text_block
from spindle.model.wires.messages.body import GrowingBody
from spindle.model.wires.messages.conversation import Conversation
from spindle.model.wires.messages.settings import max_tokens, output_config, thinking
from spindle.model.wires.messages.tools import encode_choice, encode_tools, past_tools
from spindle.model.wires.wire import Asking, Decoder, Terms
from spindle.protocol.items import decode_own, encode_json, encode_payload
from spindle.protocol.request import Request, VisibleItem

VENDOR_HOST = "api.anthropic.com"


class MessagesWire:
    """The requests of one thread. Remembers how it encoded the last one."""

    name = "messages"
    dialect = "messages"
    path = "/messages"
    PAST = ("_body", "_conversation", "_items", "_tools", "_head")

    def __init__(self) -> None:
        self._conversation = Conversation()
        self._items: list[VisibleItem] = []
        """What the conversation holds."""
        self._body = GrowingBody()
        self._tools = (b"", b"")
        """The list of tools as it came, and as it is sent."""
        self._head: tuple[Any, bytes] = (None, b"")
        """What the beginning of the last body was made of, and that beginning."""

    def encode(self, request: Request, terms: Terms) -> bytearray:
        self._follow(request.items)
        conversation, capabilities = self._conversation, terms.capabilities
        tools = self._encode_tools(request.tools) if capabilities.tools else b""
        choice = request.tool_choice
        if not tools and (tools := past_tools(conversation.called)):
            choice = "none"
        head = self._encode_head(request, tools)
        rest: dict[str, Any] = {}
        is_parallel = request.parallel_tool_calls or not capabilities.parallel
        if tools and (wanted := encode_choice(choice, is_parallel=is_parallel)) is not None:
            rest["tool_choice"] = wanted
        most = max_tokens(request.facts, capabilities, len(head) + conversation.weight)
        rest["max_tokens"] = most
        is_vendor = parse_url(terms.provider.base_url, "base_url").host == VENDOR_HOST
        if capabilities.thinking and (way := thinking(request, most, is_vendor=is_vendor)) is not None:
            rest["thinking"] = way
        if (config := output_config(request, capabilities)) is not None:
            rest["output_config"] = config
        rest["stream"] = True
        return self._body.encode(head, conversation.blocks, conversation.tail(), b"]," + encode_json(rest)[1:])

    @property
    def growth(self) -> Growth:
        return self._body.growth

    def decoder(self, asking: Asking) -> Decoder:
        from spindle.model.wires.messages.decoder import MessagesDecoder  # nothing of it is needed to ask

        return MessagesDecoder(asking)

    def _follow(self, items: list[VisibleItem]) -> None:
        """Take in what is new; begin anew where the items do not begin with those of the last request."""
        known = len(self._items)
        # Quick, though it looks like a deep comparison: the same objects are known to be equal.
        if items[:known] != self._items:
            self._conversation, known = Conversation(), 0
            self._head = None, b""
            self._body.restart()
        self._conversation.take(items[known:])
        self._items = items

    def _encode_head(self, request: Request, tools: bytes) -> bytes:
        lead = self._conversation.lead
        key = request.model, request.instructions, len(lead), tools
        if key != self._head[0]:
            self._head = key, _head(request.model, [decode_own(request.instructions), *lead], tools)
        return self._head[1]

    def _encode_tools(self, specs: bytes) -> bytes:
        if specs != self._tools[0]:
            self._tools = specs, encode_tools(specs)
        return self._tools[1]


def _head(model: str, texts: list[str], tools: bytes) -> bytes:
    """What stands before the messages: the same bytes in all requests of a thread."""
    system = [encode_payload(text_block(text)) for text in texts if text.strip()]
    parts = [b'{"model":' + encode_json(model)]
    if system:
        system[-1] = marked(system[-1])
        parts.append(b'"system":[%s]' % b",".join(system))
    elif tools:
        tools = marked(tools[:-1]) + b"]"  # the mark of the system text would cover them
    if tools:
        parts.append(b'"tools":' + tools)
    parts.append(b'"messages":[')
    return b",".join(parts)
