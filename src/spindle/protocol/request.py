"""One request to a model: the parts in their fixed order, already serialised where they are re-used."""

from __future__ import annotations

from typing import Any

import msgspec

from spindle.protocol.items import encode_json


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A sample's question. `input` holds one serialised item per entry and is never re-encoded."""

    model: str
    instructions: bytes
    """The base text as a JSON string."""
    input: list[bytes]
    tools: bytes
    """The tool list as a JSON array, the same bytes for the whole thread."""
    tool_choice: str = "auto"
    parallel_tool_calls: bool = True
    reasoning: dict[str, str] | None = None
    store: bool = False
    include: tuple[str, ...] = ()
    prompt_cache_key: str
    text: dict[str, Any] | None = None
    service_tier: str | None = None

    def encode(self) -> bytes:
        """The body for the Responses endpoint. Equal requests give equal bytes."""
        head, rest = self.frame()
        return head + b",".join(self.input) + rest

    def frame(self) -> tuple[bytes, bytes]:
        """What stands before the first and after the last item of the input."""
        tail: dict[str, Any] = {
            "tool_choice": self.tool_choice,
            "parallel_tool_calls": self.parallel_tool_calls,
            "reasoning": self.reasoning,
            "store": self.store,
            "stream": True,
            "include": self.include,
            "prompt_cache_key": self.prompt_cache_key,
        }
        if self.text:
            tail["text"] = self.text
        if self.service_tier:
            tail["service_tier"] = self.service_tier
        head = b'{"model":%s,"instructions":%s,"input":[' % (encode_json(self.model), self.instructions)
        return head, b'],"tools":%s,%s' % (self.tools, encode_json(tail)[1:])


class TokenUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What one response, or a whole thread, cost."""

    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_output_tokens: int = 0
    total_tokens: int = 0

    def __add__(self, other: TokenUsage) -> TokenUsage:
        return TokenUsage(
            input_tokens=self.input_tokens + other.input_tokens,
            cached_input_tokens=self.cached_input_tokens + other.cached_input_tokens,
            cache_write_input_tokens=self.cache_write_input_tokens + other.cache_write_input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            reasoning_output_tokens=self.reasoning_output_tokens + other.reasoning_output_tokens,
            total_tokens=self.total_tokens + other.total_tokens,
        )
