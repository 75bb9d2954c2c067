"""What a thread's record says about each request that was sent, so that it can be built again and compared.

A line `spindle_request` holds the number of a request, the SHA-256 and the length of its body, and the id of the
response. It is in the record where the thread was when the request was made: before the first item of the answer.
What else a request was made from (tools, settings, what is known of the server) is in lines `spindle_terms`, each with
what has changed since the previous one (`request_terms`). `lookback/replay.py` reads both.

Nothing is serialised for this, and of a long body only the new part is read.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import msgspec

from spindle.context.visible import Audience
from spindle.model.client import Created, ItemDone, ModelClient, ModelEvent, TurnState
from spindle.model.provider import Provider
from spindle.model.sending import Sending
from spindle.prompt.build import ModelTraits
from spindle.protocol.items import Item, encode_payload
from spindle.protocol.request import Request
from spindle.protocol.settings import ThreadSettings
from spindle.thread.history import History
from spindle.thread.payloads import REQUEST, TERMS


class SummaryOrder(msgspec.Struct, frozen=True, kw_only=True):
    """How a request for a summary differs from the one that would continue the thread."""

    message: Item
    """What asks for the summary; it comes last."""
    keeps_tools: bool
    max_input_tokens: int | None = None
    attempt: int = 1
    """Each attempt shows less of the thread."""


class Made(msgspec.Struct, frozen=True):
    """What a request was made from, beside the thread."""

    settings: ThreadSettings
    traits: ModelTraits
    provider: Provider
    audience: Audience
    instructions: bytes
    tools: bytes
    schema: dict[str, Any] | None = None
    summary: SummaryOrder | None = None


class RequestLog:
    """A `RequestWatch` that writes to the record of a thread."""

    PAST = ("_known", "_terms")
    """What is packed while the thread rests (`core/resting.py`)."""

    def __init__(self, history: History, thread_id: str) -> None:
        self.made: Made | None = None
        """What the next request is made from."""
        self._history = history
        self._thread_id = thread_id
        self._pending: tuple[Sending, Made] | None = None
        """What was sent and is not yet in the record."""
        self._digest = ""
        self._kept = 0
        """How many of its pieces the last line told already."""
        self._wire: object = None
        """Which wire made the last body."""
        self._state: Any = None
        self._reach = 0
        """How many bytes of its last body `_state` has seen: those that the next one shares."""
        self._known: tuple[Any, ...] | None = None
        """What the terms were last made from; None while this process has written none."""
        self._terms: dict[str, bytes] = {}
        self._number = 0

    def before_body(self) -> None:
        self.answered()

    def sent(self, sending: Sending) -> None:
        if self._history.writer is not None and self.made is not None:
            self._pending, self._digest = (sending, self.made), ""

    def look(self) -> None:
        """Take the digest of a body: of what is new in it, if it continues the one before."""
        if self._pending is None or self._digest:
            return
        sending = self._pending[0]
        if sending.kind == "compaction":
            self._kept = 0
            self._digest = sha256(sending.body).hexdigest()
            return
        growth, start = sending.growth, self._reach
        if sending.wire is not self._wire or growth.same_bytes < start:
            self._state, start = sha256(), 0
        self._kept = growth.kept if sending.wire is self._wire else 0
        with memoryview(sending.body) as body:
            settled = growth.settled_bytes
            self._state.update(body[start:settled])
            whole = self._state.copy()
            whole.update(body[settled:])
        self._wire, self._reach, self._digest = sending.wire, settled, whole.hexdigest()

    def unsent(self) -> None:
        self._pending = self._wire = None
        self._reach = 0

    def answered(self, response_id: str | None = None) -> None:
        if self._pending is None:
            return
        self.look()
        (sending, made), self._pending = self._pending, None
        self._tell_terms(sending, made)
        self._number += 1
        from binascii import crc32  # with the first answer

        parts = b"".join([b"%08x" % crc32(piece) for piece in sending.growth.pieces(self._kept)])
        said = self._number, self._digest.encode(), len(sending.body), encode_payload(response_id)
        line = b'{"number":%d,"sha256":"%s","bytes":%d,"response_id":%s' % said
        if sending.kind == "compaction":
            line += b',"kind":"compaction"'
        elif (order := made.summary) is not None:
            given = {"attempt": order.attempt, "max_input_tokens": order.max_input_tokens}
            line += b',"kind":"summary","summary":%s' % encode_payload(given)
        self._history.append_unmasked(REQUEST, line + b',"from":%d,"parts":"%s"}' % (self._kept, parts))

    def _tell_terms(self, sending: Sending, made: Made) -> None:
        is_usual = sending.kind == "question" and made.summary is None
        growth = sending.growth
        terms = sending.capabilities, sending.base_url, sending.drops_opaque, sending.wire.dialect
        known = (made, *terms, *((growth.head, growth.rest) if is_usual else ()))
        if known == self._known:
            return
        from spindle.core.request_terms import change, past, terms_of  # with the first answer, and when they change

        is_first = self._known is None
        self._known = known
        if is_first:
            self._terms, self._number = past(self._history.request_lines, self._thread_id)
        new = terms_of(self._thread_id, made, sending, self._history, self._terms)
        line = change(self._terms, new, self._history.mask, is_first=is_first)
        self._terms = new
        if line is not None:
            self._history.append_unmasked(TERMS, line)


class RecordedClient:
    """A model that a program brought along: its requests are recorded as a Responses server would get them."""

    def __init__(self, client: ModelClient, log: RequestLog, provider: Provider) -> None:
        from spindle.model.capabilities import default_capabilities  # servers have an endpoint that knows
        from spindle.model.wires import make_wire  # the same

        self.inner = client
        self._log = log
        self.wire = make_wire("responses")
        self._base_url = provider.public_base_url
        self._capabilities = default_capabilities("responses")

    async def stream(self, request: Request, turn_state: TurnState | None = None) -> AsyncGenerator[ModelEvent, None]:
        self._note(request)
        try:
            async with aclosing(self.inner.stream(request, turn_state)) as events:
                async for event in events:
                    if isinstance(event, Created):
                        self._log.answered(event.response_id)
                    elif isinstance(event, ItemDone):
                        self._log.answered()
                    yield event
        finally:
            self._log.answered()

    async def compact(self, request: Request) -> list[Item]:
        self._note(request, is_compaction=True)
        try:
            return await self.inner.compact(request)
        finally:
            self._log.answered()

    async def warm(self) -> None:
        await self.inner.warm()

    async def aclose(self) -> None:
        await self.inner.aclose()

    def _note(self, request: Request, *, is_compaction: bool = False) -> None:
        from spindle.model.wires.responses.wire import ResponsesWire, compaction_body  # only for such models

        wire = self.wire
        assert isinstance(wire, ResponsesWire)
        self._log.before_body()
        if is_compaction:
            body, growth = compaction_body(request)
        else:
            body = wire.join(request)
            growth = wire.growth
        self._log.sent(
            Sending(
                request=request,
                body=body,
                growth=growth,
                wire=wire,
                base_url=self._base_url,
                capabilities=self._capabilities,
                kind="compaction" if is_compaction else "question",
            )
        )


def sha256(data: bytes | bytearray = b"") -> Any:
    """A running digest: where TLS is loaded, that of OpenSSL, which is several times as fast."""
    if "_ssl" in sys.modules:
        from _hashlib import openssl_sha256  # next to nothing: most of it is there

        return openssl_sha256(data, usedforsecurity=False)
    if sys.version_info >= (3, 12):
        from _sha2 import sha256 as own  # of the standard library; `hashlib` would load OpenSSL
    else:
        from _sha256 import sha256 as own  # the same  # pyright: ignore[reportMissingImports]
    return own(data)
