"""A request as the body of Chat Completions. The messages are made in `conversation`, answers are read in `decoder`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spindle.model.body import GrowingBody, Growth
from spindle.model.provider import Provider
from spindle.model.url import parse_url
from spindle.model.wires.chat.conversation import Conversation
from spindle.model.wires.functions import function_tools
from spindle.model.wires.wire import Asking, Decoder, Terms
from spindle.protocol.items import decode_own, encode_json, encode_payload
from spindle.protocol.request import Request, VisibleItem

if TYPE_CHECKING:
    from spindle.model.wires.functions import FunctionTool

_OPENAI = "api.openai.com"
_CHOICES = ("auto", "none", "required")


class ChatWire:
    """The Chat Completions dialect, for the requests of one thread."""

    name = "chat"
    dialect = "chat"
    path = "/chat/completions"
    PAST = ("_body", "_conversation", "_items", "_tools")

    def __init__(self) -> None:
        self._body = GrowingBody()
        self._conversation = Conversation()
        self._replays_reasoning = False
        self._items: list[VisibleItem] = []
        """What the conversation is made of."""
        self._tools: tuple[bytes, bytes] = (b"[]", b"")
        """The tools of the last request, and what they were encoded to."""

    def encode(self, request: Request, terms: Terms) -> bytearray:
        conversation = self._grown(request.items, terms.capabilities.replay_reasoning)
        system = "\n\n".join(text for text in (decode_own(request.instructions), *conversation.lead) if text.strip())
        messages = conversation.messages
        if system:
            messages.insert(0, encode_payload({"role": "system", "content": system}))
        head = b'{"model":%s,"messages":[' % encode_payload(request.model)
        return self._body.join(head, messages, b"]" + self._settings(request, terms) + b"}")

    @property
    def growth(self) -> Growth:
        return self._body.growth

    def decoder(self, asking: Asking) -> Decoder:
        from spindle.model.wires.chat.decoder import ChatDecoder  # nothing of it is needed to ask

        return ChatDecoder(asking)

    def _grown(self, items: list[VisibleItem], replays_reasoning: bool) -> Conversation:
        """The conversation of these items; only what is new is encoded, if it begins as the last one did."""
        known = self._items
        if replays_reasoning != self._replays_reasoning or items[: len(known)] != known:
            self._conversation, known = Conversation(replays_reasoning=replays_reasoning), []
        self._items, self._replays_reasoning = items, replays_reasoning
        for visible in items[len(known) :]:
            self._conversation.take(visible.item)
        return self._conversation

    def _settings(self, request: Request, terms: Terms) -> bytes:
        """Everything behind the messages."""
        can, facts, is_openai = terms.capabilities, request.facts, _is_openai(terms.provider)
        if request.tools != self._tools[0]:
            self._tools = request.tools, encode_json([_function(tool) for tool in function_tools(request.tools)])
        tools = self._tools[1]
        settings: dict[str, Any] = {}
        if len(tools) > len("[]"):
            if can.tool_choice_none or request.tool_choice != "auto":  # which is what a server does anyway
                settings["tool_choice"] = _tool_choice(request.tool_choice)
            if can.parallel:
                settings["parallel_tool_calls"] = request.parallel_tool_calls
        else:
            tools = b""
        settings["stream"] = True
        if can.stream_options:
            settings["stream_options"] = {"include_usage": True}
        if (schema := (request.text or {}).get("format")) is not None:
            settings["response_format"] = _response_format(schema)
        if facts.effort and can.effort:
            settings["reasoning_effort"] = facts.effort
        if facts.max_output_tokens:
            # OpenAI's own newer models refuse the old name; most other servers know no other.
            is_new = is_openai or can.max_completion_tokens
            settings["max_completion_tokens" if is_new else "max_tokens"] = facts.max_output_tokens
        if is_openai:
            settings["prompt_cache_key"] = request.prompt_cache_key
        return (b',"tools":' + tools if tools else b"") + b"," + encode_json(settings)[1:-1]


def make_wire() -> ChatWire:
    return ChatWire()


def _is_openai(provider: Provider) -> bool:
    return parse_url(provider.base_url, "base_url").host.lower() == _OPENAI


def _function(tool: FunctionTool) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    function["parameters"] = tool.parameters
    if tool.strict:
        function["strict"] = True
    return {"type": "function", "function": function}


def _tool_choice(choice: str) -> str | dict[str, Any]:
    return choice if choice in _CHOICES else {"type": "function", "function": {"name": choice}}


def _response_format(schema: dict[str, Any]) -> dict[str, Any]:
    named = {"name": schema.get("name") or "output", "strict": schema.get("strict", True), "schema": schema["schema"]}
    return {"type": "json_schema", "json_schema": named}
