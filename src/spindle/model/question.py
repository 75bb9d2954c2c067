"""One question on its way to a server: it may have to be put in simpler words, and says what was learned by that."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from spindle.errors import ModelError, StreamDropped
from spindle.model.call_ids import CallIds
from spindle.model.capabilities import default_capabilities
from spindle.model.client import Completed, Created, ItemDone, ModelEvent, Notice, OpaqueRefused
from spindle.model.endpoint import Endpoint
from spindle.model.sending import RequestWatch, Sending
from spindle.model.wires.wire import Asking, Decoder, Terms
from spindle.protocol.clock import Clock
from spindle.protocol.provenance import ModelOrigin
from spindle.protocol.request import Request

if TYPE_CHECKING:
    from spindle.model.server_words import ServerWords

_QUICKLY_SEEN_BYTES = 1 << 18
_LOOK_LATER_S = 0.05


class Question:
    """A request for one server."""

    def __init__(self, endpoint: Endpoint, request: Request, clock: Clock, watch: RequestWatch | None = None) -> None:
        self.endpoint = endpoint
        self.watch = watch
        """Who is told of what is sent."""
        self.request = request
        """As the thread asks it; what is sent may be simpler."""
        self._clock = clock
        self._sent: Request = request
        self._terms: Terms | None = None
        self._sent_bytes = 0
        self._answer_bytes = 0
        self._origin: ModelOrigin | None = None
        self._lessons: dict[str, bool | int] = {}
        self._is_told = False
        self._has_dropped = False
        self.remark = ""
        """What else a person should know of the way it was put."""

    def now(self) -> float:
        """Unix seconds."""
        return self._clock.now()

    # ---- asking ------------------------------------------------------------------------------------

    def put(self) -> Request:
        """The request as it is sent, on the terms that are known by now."""
        endpoint = self.endpoint
        if self.watch is not None:
            self.watch.before_body()
        self._terms = terms = endpoint.terms(self.request)
        sent = endpoint.without_opaque(self.request) if endpoint.drops_opaque else self.request
        if terms.capabilities != default_capabilities(endpoint.wire.name):
            sent = endpoint.lowered(sent, terms.capabilities)
        self._sent = sent
        return sent

    @property
    def sent(self) -> Request:
        """What was last `put`."""
        return self._sent

    def encode(self) -> bytes | bytearray:
        """The body of what was last `put`."""
        assert self._terms is not None
        body = self.endpoint.wire.encode(self._sent, self._terms)
        self._sent_bytes = len(body)
        if self.watch is not None:
            self.watch.sent(Sending.to(self.endpoint, self._terms, self.request, body))
            # Once the body is on its way. Of a long new one, as after a resume, only the beginning is by then.
            is_long = len(body) - self.endpoint.wire.growth.same_bytes > _QUICKLY_SEEN_BYTES
            asyncio.get_running_loop().call_later(_LOOK_LATER_S if is_long else 0, self.watch.look)
        return body

    def decoder(self, headers: Mapping[str, str]) -> Decoder:
        """What reads the answer."""
        assert self._terms is not None
        taken = self.endpoint.shown_calls.ids(self.request.items)
        new_id = self._clock.uuid7
        asking = Asking(
            request=self._sent,
            terms=self._terms,
            new_id=new_id,
            call_ids=CallIds(taken, new_id),
            headers=headers,
        )
        decoder = self.endpoint.wire.decoder(asking)
        knows_how = self._terms.capabilities.tools and not self.request.facts.is_unproven
        if knows_how or self.request.tool_choice == "none":
            return decoder
        from spindle.model.text_calls.reading import CallsInText, ForgivingDecoder  # only for such models

        return ForgivingDecoder(decoder, CallsInText(self.request.tools, asking))

    # ---- what the answer lacks ---------------------------------------------------------------------

    def completed(self, event: ModelEvent) -> ModelEvent:
        """The event with what only the asking side knows: where an item comes from, and a count that is missing."""
        match event:
            case Created(response_id=response_id):
                if self.watch is not None:
                    self.watch.answered(response_id)
                return event
            case ItemDone():
                if self.watch is not None:
                    self.watch.answered()  # not every server says that it begins
                if self._origin is None:
                    self._origin = self.endpoint.origin(self.request.model)
                if self.endpoint.wire.name != "responses":
                    self._answer_bytes += _size(event)
                return msgspec.structs.replace(event, origin=self._origin)
            case Completed(usage=None) if self.endpoint.wire.name != "responses":
                from spindle.model.estimate import estimated_usage  # only for servers that do not count

                usage = estimated_usage(self._sent_bytes, self._answer_bytes)
                return msgspec.structs.replace(event, usage=usage, counts_cached=False)
            case _:
                return event

    # ---- what a refusal teaches --------------------------------------------------------------------

    def learns(self, status: int, words: ServerWords, failure: ModelError | StreamDropped) -> bool:
        """True when the refusal tells how to ask better, and asking again at once makes sense."""
        from spindle.model import lessons  # only after a refusal

        is_refusal = isinstance(failure, ModelError) or status in lessons.CRASHES
        if not is_refusal or failure.info == "context_window_exceeded":
            return False
        if self.drops_opaque(words):
            return True
        assert self._terms is not None
        endpoint = self.endpoint
        if self._terms.capabilities.thinking and lessons.wants_thinking(words):
            return endpoint.leave_thinking_out(self.request)
        refused = lessons.Refused(
            status, words, endpoint.provider, endpoint.wire.name, self._sent, self._terms.capabilities
        )
        learned = {flag: to for flag, to in lessons.lessons_of(refused).items() if flag not in self._lessons}
        if not learned or len(self._lessons) + len(learned) > lessons.MOST_IN_ONE_CALL:
            return False
        self._lessons.update(learned)
        endpoint.learn(self.request, learned, endpoint.cleaned(words.text), self._clock.now())
        return True

    def has_stale_key(self, status: int, words: ServerWords) -> bool:
        """Whether a newer key could help. With 403: only a sign-in, and only if the server itself answered."""
        if status != 403:
            return status == 401
        from spindle.model.refusals import is_about_plan  # only after a refusal

        is_login = self.endpoint.credential.origin().is_login
        return is_login and not words.is_page and not is_about_plan(words)

    def drops_opaque(self, words: ServerWords) -> bool:
        """True when the server cannot read what it is said to have written: it is not shown that again."""
        from spindle.model.lessons import has_opaque, is_about_opaque  # only after a refusal

        if self.endpoint.drops_opaque or not is_about_opaque(words) or not has_opaque(self._sent):
            return False
        self.endpoint.drops_opaque = self._has_dropped = True
        return True

    def notices(self) -> Iterator[ModelEvent]:
        """What people and the record are to be told, once."""
        if self._has_dropped:
            self._has_dropped = False
            yield OpaqueRefused(self.endpoint.origin(self.request.model))
        if self._lessons and not self._is_told:
            self._is_told = True
            from spindle.model.lessons import notice  # only after a refusal

            yield Notice(notice(self.endpoint.provider, self._lessons))
        if self.remark:
            yield Notice(self.remark)
            self.remark = ""


def _size(done: ItemDone) -> int:
    from spindle.protocol.items import encode_json  # only where it may have to be estimated

    return len(encode_json(done.item))
