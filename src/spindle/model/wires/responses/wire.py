"""The Responses API: a request is sent in the words it is made of."""

from __future__ import annotations

from spindle.model.body import GrowingBody
from spindle.model.headers import is_true
from spindle.model.wires.wire import Asking, Decoder, Terms
from spindle.protocol.request import Request


class ResponsesWire:
    """`POST {base_url}/responses`."""

    name = "responses"
    path = "/responses"

    def __init__(self) -> None:
        self._body = GrowingBody()

    def encode(self, request: Request, terms: Terms) -> bytearray:
        return self._body.encode(request)

    def decoder(self, asking: Asking) -> Decoder:
        from spindle.model.wires.responses.decoder import ResponsesDecoder  # nothing of it is needed to ask

        includes_reasoning = is_true(asking.headers.get("x-reasoning-included", ""))
        return ResponsesDecoder(asking.new_id, asking.call_ids, reasoning_included=includes_reasoning)
