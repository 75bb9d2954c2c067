"""The Responses API: a request is sent in the words it is made of."""

from __future__ import annotations

from spindle.model.body import GrowingBody, Growth
from spindle.model.headers import answering_model, is_true
from spindle.model.wires.wire import Asking, Decoder, Terms
from spindle.protocol.items import encode_json
from spindle.protocol.request import Request


class ResponsesWire:
    """`POST {base_url}/responses`."""

    name = "responses"
    dialect = "responses"
    path = "/responses"
    PAST = ("_body",)

    def __init__(self) -> None:
        self._body = GrowingBody()

    def encode(self, request: Request, terms: Terms) -> bytearray:
        return self.join(request)

    def join(self, request: Request) -> bytearray:
        """The same: this dialect asks nobody about terms."""
        return self._body.encode(request)

    @property
    def growth(self) -> Growth:
        return self._body.growth

    def decoder(self, asking: Asking) -> Decoder:
        from spindle.model.wires.responses.decoder import ResponsesDecoder  # nothing of it is needed to ask

        includes_reasoning = is_true(asking.headers.get("x-reasoning-included", ""))
        return ResponsesDecoder(
            asking.new_id,
            asking.call_ids,
            reasoning_included=includes_reasoning,
            model=answering_model(asking.headers),
        )


def compaction_body(request: Request) -> tuple[bytearray, Growth]:
    """The body of `/responses/compact`, which is no part of the conversation."""
    body = GrowingBody()
    head = b'{"model":%s,"input":[' % encode_json(request.model)
    return body.join(head, request.input, b'],"instructions":%s}' % request.instructions), body.growth
