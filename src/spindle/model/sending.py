"""A body on its way to a model server, for whoever keeps a record of what was sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

if TYPE_CHECKING:
    from spindle.model.body import Growth
    from spindle.model.capabilities import Capabilities
    from spindle.model.endpoint import Endpoint
    from spindle.model.wires.wire import Terms, Wire
    from spindle.protocol.request import Request


class Sending(msgspec.Struct, frozen=True, kw_only=True):
    """One body, and on which terms it was made. The body is valid until the next one is made."""

    request: Request
    body: bytes | bytearray
    growth: Growth
    wire: Wire
    """Compared by identity: what `growth` says is about the bodies of one wire."""
    base_url: str
    """Of the server, without a password in it."""
    capabilities: Capabilities
    drops_opaque: bool = False
    """The server could not read its own opaque parts, and is asked without them."""
    kind: Literal["question", "compaction"] = "question"

    @classmethod
    def to(
        cls, endpoint: Endpoint, terms: Terms, request: Request, body: bytes | bytearray, growth: Growth | None = None
    ) -> Sending:
        """What goes to an endpoint; `growth` is for a body that is not part of the conversation."""
        return cls(
            request=request,
            body=body,
            growth=growth or endpoint.wire.growth,
            wire=endpoint.wire,
            base_url=terms.provider.public_base_url,
            capabilities=terms.capabilities,
            drops_opaque=endpoint.drops_opaque,
            kind="question" if growth is None else "compaction",
        )


class RequestWatch(Protocol):
    """Is told of every body that is sent for a thread, of retries too."""

    def before_body(self) -> None:
        """Another body is about to be made: the last one is not valid any longer."""
        ...

    def sent(self, sending: Sending) -> None:
        """A body is sent."""
        ...

    def look(self) -> None:
        """There is time to look at it: it is on its way."""
        ...

    def unsent(self) -> None:
        """No server was reached with it."""
        ...

    def answered(self, response_id: str | None = None) -> None:
        """A server has answered, whatever it said; or nobody waits for its answer any more. Later calls are nothing."""
        ...


class SendGate(Protocol):
    """Asked before each sending of a question, the repeated ones too, and told at once of those in vain."""

    async def before_send(self, provider_id: str) -> None:
        """Wait until it may be sent; may object by raising."""
        ...

    def in_vain(self, status: int | None, retry_after_s: float | None) -> None:
        """The server refused; None: it was not reached."""
        ...
