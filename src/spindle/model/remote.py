"""The client of model servers over HTTP and server-sent events, whatever their dialect.

One call of `stream` is one question: it may be sent several times before an answer begins (`request_max_retries`,
silent), and once it has begun is never repeated here; that is the turn's decision. What a body and an answer look like
is the wire's business (`wires/`); what the server can do, and who asks, the endpoint's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from spindle.errors import ConfigError, ModelError, SpindleError, StreamDropped
from spindle.model import failures, sse
from spindle.model.client import ModelEvent, Notice, RateLimits, TurnState
from spindle.model.connection import ConnectFailed, PeerClosed, TimedOut, TransportError
from spindle.model.endpoint import Endpoint
from spindle.model.headers import rate_limits
from spindle.model.http import Response
from spindle.model.question import Question
from spindle.model.reading import Reading, is_event_stream, next_chunk
from spindle.model.retry import backoff_s, parse_retry_after
from spindle.model.sending import RequestWatch, Sending
from spindle.model.url import Url
from spindle.model.wires import load_decoder
from spindle.protocol.clock import Clock
from spindle.protocol.items import Item
from spindle.protocol.request import Request

if TYPE_CHECKING:
    from spindle.model.advice import Asked
    from spindle.model.server_words import ServerWords

ERROR_BODY_MAX_BYTES = 64 * 1024
ERROR_BODY_TIMEOUT_S = 10.0
SILENT_WAIT_S = 5.0
"""The longest pause between two tries of one request; a server that asks for more has it announced."""


class SendGate(Protocol):
    """Asked before each sending of a question, the repeated ones too, and told at once of those in vain."""

    async def before_send(self, provider_id: str) -> None:
        """Wait until it may be sent; may object by raising."""
        ...

    def in_vain(self, status: int | None, retry_after_s: float | None) -> None:
        """The server refused; None: it was not reached."""
        ...


class RemoteModel:
    """A `ModelClient` for one thread. Its server can change between two questions."""

    def __init__(self, endpoint: Endpoint, clock: Clock, *, sse_event_max_bytes: int = sse.EVENT_MAX_BYTES) -> None:
        self.endpoint = endpoint
        self._clock = clock
        self._sse_event_max_bytes = sse_event_max_bytes
        self._left: list[Endpoint] = []
        self.before_retry: Callable[[], None] = lambda: None
        """Asked before a request that the server has answered in vain is made once more; may object by raising."""
        self.watch: RequestWatch | None = None
        """Is told of every body that is sent."""
        self.gate: SendGate | None = None

    def use(self, endpoint: Endpoint) -> None:
        """Later questions go to this server."""
        if endpoint is not self.endpoint:
            self._left.append(self.endpoint)
            self.endpoint = endpoint

    async def stream(self, request: Request, turn_state: TurnState | None = None) -> AsyncGenerator[ModelEvent, None]:
        endpoint, loop = self.endpoint, asyncio.get_running_loop()
        question = Question(endpoint, request, self._clock, watch := self.watch)
        loop.call_soon(load_decoder, endpoint.wire.name)  # once the request is on its way
        try:
            for message in endpoint.announcements(request.model):
                yield Notice(message)
            try:
                response = await self._open(question, turn_state)
            except SpindleError:
                for notice in question.notices():
                    yield notice
                raise
            try:
                for notice in question.notices():
                    yield notice
                if (snapshot := rate_limits(response.headers)) is not None:
                    yield RateLimits(snapshot)
                reading = Reading(response, question, self._sse_event_max_bytes)
                if not is_event_stream(response):
                    reading.begun = await self._beginning(response, reading.deadline, question)
                while not reading.is_over:
                    for event in await reading.more():
                        yield event
            finally:
                response.close()
        except ConfigError as error:
            raise ModelError(endpoint.cleaned(str(error))) from error
        except failures.ResponseFailed as failed:
            error = await self._failed(failed.error, question)
            for notice in question.notices():
                yield notice
            raise endpoint.clean(error) from failed
        except (ModelError, StreamDropped) as error:
            endpoint.clean(error)
            raise
        finally:
            if watch is not None:
                watch.answered()  # or nobody waits for it any more

    async def compact(self, request: Request) -> list[Item]:
        endpoint = self.endpoint
        if endpoint.wire.name != "responses":
            raise ModelError(f"{endpoint.provider.name} cannot compact a thread itself")
        from spindle.model.wires.responses.wire import compaction_body  # this very wire, which is loaded

        body, growth = compaction_body(request)
        watch = self.watch
        if watch is not None:
            watch.before_body()
            watch.sent(Sending.to(endpoint, endpoint.terms(request), request, body, growth))
        try:
            reply = await self.post_json("/responses/compact", bytes(body))
        finally:
            if watch is not None:
                watch.answered()
        from spindle.model.compacted import read_compaction  # it describes answers, and there is one now

        return read_compaction(reply)

    async def warm(self) -> None:
        try:
            await self.endpoint.warm()
        except SpindleError:
            pass  # the first request meets the same trouble, and can tell about it

    async def aclose(self) -> None:
        for endpoint in (*self._left, self.endpoint):
            await endpoint.aclose()

    async def post_json(self, path: str, body: bytes) -> Any:
        """`POST {base_url}{path}` and read a plain JSON answer. Raises `ModelError`."""
        timeout_s = self.endpoint.provider.idle_timeout_s
        return await self.endpoint.json("POST", path, body, timeout_s=timeout_s, now=self._clock.now())

    # ---- asking --------------------------------------------------------------------------------------

    async def _open(self, question: Question, turn_state: TurnState | None) -> Response:
        """Ask until an answer begins, within the budget for one request."""
        await question.endpoint.prepare()
        provider = question.endpoint.provider
        may_refresh = True
        retries = 0
        is_answered = False
        while True:
            if is_answered:
                self.before_retry()
                is_answered = False
            try:
                await question.endpoint.ready(question.request.model)
                if self.gate is not None:
                    await self.gate.before_send(provider.id)
                # Encoded each time: what a refusal teaches changes the body, and else it is the one before.
                body = question.encode()
                url = question.endpoint.url(question.endpoint.wire.path)
                response = await self._send(question, url, body, turn_state)
                is_answered = True
                if 200 <= response.status < 300:
                    return _accept(response, turn_state)
                if self.gate is not None:
                    self.gate.in_vain(response.status, _asked_pause(response, self._clock.now()))
                words = await _read_words(response)
                if may_refresh and question.has_stale_key(response.status, words):
                    may_refresh = False
                    if await question.endpoint.credential.refresh():
                        continue
                failure = await self._refusal(response, words, url, question)
                if isinstance(failure, ModelError) and question.learns(response.status, words, failure):
                    continue
                if response.status < 500 or isinstance(failure, ModelError):
                    raise failure
            except (ConnectFailed, PeerClosed) as error:
                if self.gate is not None:
                    self.gate.in_vain(None, None)
                failure = failures.no_connection(error, provider)
                if error.is_final:
                    raise failure from error
            retries += 1
            asked_s = failure.delay_s if isinstance(failure, StreamDropped) else None
            # A long wait is not for here, where nobody is told of it.
            if retries > provider.request_retries or (asked_s or 0) > SILENT_WAIT_S:
                raise failure
            await asyncio.sleep(backoff_s(retries, self._clock) if asked_s is None else asked_s)

    async def _send(
        self, question: Question, url: Url, body: bytes | bytearray, turn_state: TurnState | None
    ) -> Response:
        endpoint, watch = question.endpoint, question.watch
        idle_s = endpoint.provider.idle_timeout_s
        try:
            headers = endpoint.question_headers(turn_state)
            if watch is not None:
                asyncio.get_running_loop().call_soon(watch.look)  # once the body is on its way
            return await endpoint.http.request("POST", url, headers, body, timeout_s=idle_s)
        except PeerClosed:
            raise
        except (ConnectFailed, ModelError, ConfigError):  # there is no server, or no key for it
            if watch is not None:
                watch.unsent()
            raise
        except TimedOut as error:
            raise failures.timed_out("idle timeout waiting for the server's answer", idle_s) from error
        except TransportError as error:
            raise failures.disconnected(str(error)) from error

    # ---- what a failure means: everything below is loaded and done only after one -----------------------

    async def _beginning(self, response: Response, deadline: float, question: Question) -> bytes:
        """The first bytes of an answer that does not call itself an event stream; some are one all the same."""
        idle_s = question.endpoint.provider.idle_timeout_s
        data = await next_chunk(response, deadline, idle_s)
        if data.lstrip()[:1] not in (b"<", b"{", b"["):
            return data
        if question.endpoint.wire.name == "chat":
            from spindle.model.wires.chat.whole import whole_answer  # most servers stream

            data = await _rest(response, data, self._sse_event_max_bytes, idle_s)
            if (frame := whole_answer(data)) is not None:
                return frame
        from spindle.model import refusals  # only after a failure

        words = await _read_words(response, data)
        asked = await self._asked(0, words, question)
        kind = response.headers.get("content-type", "").partition(";")[0].strip()
        raise refusals.from_wrong_kind(kind, words, asked, self._clock.now())

    async def _refusal(
        self, response: Response, words: ServerWords, url: Url, question: Question
    ) -> ModelError | StreamDropped:
        """What an answer with a status other than 2xx means."""
        from spindle.model import refusals  # only after a failure

        asked = await self._asked(response.status, words, question, url)
        return refusals.from_status(response.status, response.headers, words, asked, self._clock.now())

    async def _failed(self, error: Mapping[str, Any], question: Question) -> ModelError | StreamDropped:
        """The server says in its stream that the response failed."""
        from spindle.model import refusals  # only after a failure
        from spindle.model.server_words import json_words  # only after a failure

        words = json_words(error)
        if question.drops_opaque(words):
            return StreamDropped("the server could not read what it wrote earlier", delay_s=0.0)
        asked = await self._asked(0, words, question)
        return refusals.from_failed_response(words, asked, self._clock.now())

    async def _asked(self, status: int, words: ServerWords, question: Question, url: Url | None = None) -> Asked:
        from spindle.model.advice import Asked  # only after a failure
        from spindle.model.refusals import is_about_model  # only after a failure

        endpoint, model = question.endpoint, question.request.model
        offers = await endpoint.offers(self._clock.now()) if is_about_model(status, words, model) else ()
        return Asked(
            url=str(url or endpoint.url(endpoint.wire.path)),
            path=endpoint.wire.path,
            model=model,
            provider=endpoint.provider,
            key=endpoint.credential.origin(),
            offers=offers,
        )


async def _rest(response: Response, begun: bytes, max_bytes: int, timeout_s: float) -> bytes:
    """A body to its end, or as far as it comes."""
    try:
        return begun + await response.read(max_bytes, timeout_s)
    except TransportError:
        return begun


async def _read_words(response: Response, begun: bytes = b"") -> ServerWords:
    """What an answer that is not a stream says in its body; `begun` is what was already read of it."""
    from spindle.model.server_words import read_words  # only after a failure

    try:
        body = begun + await response.read(ERROR_BODY_MAX_BYTES, ERROR_BODY_TIMEOUT_S)
        response.release()
    except TransportError:
        body = begun
    finally:
        response.close()
    return read_words(body, response.headers)


def _asked_pause(response: Response, now: float) -> float | None:
    """How long the server that refused wants to be left alone, as far as its headers tell."""
    return parse_retry_after(response.headers.get("retry-after"), now, response.headers.get("date"))


def _accept(response: Response, turn_state: TurnState | None) -> Response:
    state = response.headers.get("x-codex-turn-state")
    if state and turn_state is not None and turn_state.value is None:
        turn_state.value = state
    return response
