"""Chat Completions for the model inside: tools in words, and a schema that each answer must fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from spindle.model.body import Growth
from spindle.model.wires.chat.wire import ChatWire
from spindle.model.wires.forced.steps import step_schema
from spindle.model.wires.forced.words import StepsInWords
from spindle.model.wires.wire import Asking, Decoder, Terms
from spindle.protocol.request import Request


class ForcedWire:
    """For the requests of one thread. `measured` is told how long each answer took, and may have something to say."""

    name = "chat"
    dialect = "forced"
    path = "/chat/completions"
    PAST = ("_chat", "_words", "_schema")

    def __init__(self, measured: Callable[[dict[str, Any]], str | None] = lambda timings: None) -> None:
        self._chat = ChatWire()
        self._words = StepsInWords()
        self._measured = measured
        self._schema: tuple[bytes, bool, dict[str, Any] | None, dict[str, Any]] = (b"", False, None, {})
        """Tools, whether they may be called, the schema of the final answer; and what follows from them."""

    def encode(self, request: Request, terms: Terms) -> bytes | bytearray:
        given = (request.text or {}).get("format")
        final = given["schema"] if given is not None else None
        schema = self._step_schema(request.tools, request.tool_choice != "none", final)
        worded = self._words.apply(request)
        # The chat wire has a place for a schema; what stands in it is ours.
        text = (
            {"format": {"name": "step", "strict": True, "schema": schema}} if terms.capabilities.json_schema else None
        )
        return self._chat.encode(msgspec.structs.replace(worded, text=text), terms)

    @property
    def growth(self) -> Growth:
        return self._chat.growth

    def decoder(self, asking: Asking) -> Decoder:
        from spindle.model.wires.forced.decoder import ForcedDecoder  # nothing of it is needed to ask

        return ForcedDecoder(asking, self._measured)

    def _step_schema(self, tools: bytes, may_call: bool, final: dict[str, Any] | None) -> dict[str, Any]:
        known = (tools, may_call, final)
        if self._schema[:3] != known:
            listed = self._words.listed(tools) if may_call else ()
            self._schema = (*known, step_schema(listed, final))
        return self._schema[3]
