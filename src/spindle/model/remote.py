"""The client of model servers over HTTP and server-sent events, or WebSockets (`websocket/`), whatever their dialect.

One call of `stream` is one question: it may be sent several times before an answer begins (`request_max_retries`,
silent), and once it has begun is never repeated here; that is the turn's decision. What a body and an answer look like
is the wire's business (`wires/`); what the server can do, and who asks, the endpoint's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Any, Protocol

from spindle.errors import ConfigError, ModelError, SpindleError, StreamDropped
from spindle.model import failures, sse
from spindle.model.client import ModelEvent, Notice, RateLimits, TurnState
from spindle.model.connection import ConnectFailed, PeerClosed, TimedOut, TransportError
from spindle.model.endpoint import Endpoint
from spindle.model.headers import rate_limits
from spindle.model.http import Response
from spindle.model.question import Question
from spindle.model.reading import Answer, Reading
from spindle.model.retry import backoff_s, parse_retry_after
from spindle.model.sending import RequestWatch
from spindle.model.url import Url
from spindle.model.wires import load_decoder
from spindle.protocol.clock import Clock
from spindle.protocol.items import Item
from spindle.protocol.request import Request

if TYPE_CHECKING:
    from spindle.model.websocket.answer import SocketAnswer
    from spindle.model.websocket.line import Line

SILENT_WAIT_S = 5.0
"""The longest pause between two tries of one request; a server that asks for more has it announced."""

END_PATIENCE_S = 10.0
"""How long a server may take to hang up after its model has stopped."""


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

    def __init__(
        self,
        endpoint: Endpoint,
        clock: Clock,
        *,
        sse_event_max_bytes: int = sse.EVENT_MAX_BYTES,
        end_patience_s: float = END_PATIENCE_S,
    ) -> None:
        self.endpoint = endpoint
        self._clock = clock
        self._sse_event_max_bytes = sse_event_max_bytes
        self._end_patience_s = end_patience_s
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
                reading = Reading(response, question, self._sse_event_max_bytes, self._end_patience_s)
                while not reading.is_over:
                    for event in await reading.more():
                        yield event
            finally:
                response.close()
        except ConfigError as error:
            raise ModelError(endpoint.cleaned(str(error))) from error
        except failures.ResponseFailed as failed:
            from spindle.model.unanswered import failed_answer  # only after a failure

            error = await failed_answer(failed.error, question)
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
        from spindle.model.compacting import compact_by_server  # few threads get that long

        return await compact_by_server(self, request)

    async def warm(self) -> None:
        try:
            line = self._line(self.endpoint)
            await (self.endpoint.warm() if line is None else line.warm())
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

    async def _open(self, question: Question, turn_state: TurnState | None) -> Answer:
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
                # Put anew each time: what a refusal teaches changes the request, and else it is the one before.
                question.put()
                url = question.endpoint.url(question.endpoint.wire.path)
                response = await self._say(question) or await self._send(question, url, turn_state)
                is_answered = True
                if 200 <= response.status < 300:
                    return _accept(response, turn_state)
                if self.gate is not None:
                    self.gate.in_vain(response.status, _asked_pause(response, self._clock.now()))
                from spindle.model import unanswered  # only after a failure

                words = await unanswered.read_answer(response)
                if response.starts_over:
                    continue
                if may_refresh and question.has_stale_key(response.status, words):
                    may_refresh = False
                    if await question.endpoint.credential.refresh():
                        continue
                failure = await unanswered.refusal(response, words, url, question)
                if question.learns(response.status, words, failure):
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

    def _line(self, endpoint: Endpoint) -> Line | None:
        return endpoint.line(self._clock, self._sse_event_max_bytes)

    async def _say(self, question: Question) -> SocketAnswer | None:
        """Put the question over a WebSocket; None where that is not the way."""
        if (line := self._line(question.endpoint)) is None:
            return None
        if question.watch is not None:
            question.encode()  # the record has it whole, though the server is told only what is new
            asyncio.get_running_loop().call_soon(question.watch.look)
        answer = await line.ask(question.sent, question.endpoint.provider.idle_timeout_s)
        question.remark = line.reason() or question.remark
        return answer

    async def _send(self, question: Question, url: Url, turn_state: TurnState | None) -> Response:
        endpoint, watch = question.endpoint, question.watch
        idle_s = endpoint.provider.idle_timeout_s
        try:
            headers = endpoint.question_headers(turn_state)
            body = question.encode()
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


def _asked_pause(response: Answer, now: float) -> float | None:
    """How long the server that refused wants to be left alone, as far as its headers tell."""
    return parse_retry_after(response.headers.get("retry-after"), now, response.headers.get("date"))


def _accept(response: Answer, turn_state: TurnState | None) -> Answer:
    state = response.headers.get("x-codex-turn-state")
    if state and turn_state is not None and turn_state.value is None:
        turn_state.value = state
    return response
