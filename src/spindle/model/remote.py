"""The client of model servers over HTTP and server-sent events, or WebSockets (`websocket/`), whatever their dialect.

One call of `stream` is one question: it may be sent several times before an answer begins (`asking_again`), and once it
has begun is never repeated here; that is the turn's decision. What a body and an answer look like is the business of
the wire (`wires/`); what the server can do, and who asks, that of the endpoint.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import TYPE_CHECKING, Any

from spindle.errors import ConfigError, ModelError, SpindleError
from spindle.model import sse
from spindle.model.client import Completed, Created, ItemDone, ModelEvent, Notice, RateLimits, TurnState
from spindle.model.connection import ConnectFailed, PeerClosed
from spindle.model.endpoint import Endpoint
from spindle.model.headers import rate_limits
from spindle.model.http import Response
from spindle.model.question import Question
from spindle.model.sending import RequestWatch, SendGate
from spindle.model.wires import load_decoder
from spindle.protocol.clock import Clock
from spindle.protocol.items import Item
from spindle.protocol.request import Request

if TYPE_CHECKING:
    from spindle.model.websocket.answer import SocketAnswer
    from spindle.model.websocket.line import Line

    Answer = Response | SocketAnswer

END_PATIENCE_S = 10.0
"""How long a server may take to hang up after its model has stopped."""

_TO_COMPLETE = (ItemDone, Created, Completed)


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

    async def stream(self, request: Request, turn_state: TurnState | None = None) -> AsyncGenerator[ModelEvent, None]:
        endpoint, watch = self.endpoint, self.watch
        question = Question(endpoint, request, self._clock, watch)
        response = decoder = again = None
        asyncio.get_running_loop().call_soon(load_decoder, endpoint.wire.name)  # once the request is on its way
        try:
            for message in endpoint.announcements(request.model):
                yield Notice(message)
            await endpoint.prepare()
            while True:
                await endpoint.ready(request.model)
                if self.gate is not None:
                    await self.gate.before_send(endpoint.provider.id)
                try:
                    response = in_vain = await self._send(question, turn_state)
                    if 200 <= response.status < 300:
                        break
                except (ConnectFailed, PeerClosed) as error:
                    in_vain = error
                from spindle.model.asking_again import AskingAgain  # only after a failure

                again = again or AskingAgain(question, self._clock, self.gate, self.before_retry)
                await again.after(in_vain)
            if turn_state is not None:
                turn_state.value = turn_state.value or response.headers.get("x-codex-turn-state")
            for notice in question.notices():
                yield notice
            if (snapshot := rate_limits(response.headers)) is not None:
                yield RateLimits(snapshot)
            body = _Body(response, question, self._sse_event_max_bytes, self._end_patience_s)
            decoder = question.decoder(response.headers)
            while not (decoder.is_over or body.is_read):
                for frame in await body.more(has_stopped=decoder.has_stopped):
                    events = decoder.feed(frame)
                    if decoder.is_over:
                        response.release()  # now, because nobody may ask for more after the last event
                    for event in events:
                        yield question.completed(event) if isinstance(event, _TO_COMPLETE) else event
                    if decoder.is_over:
                        break
            for event in () if decoder.is_over else decoder.finish():
                yield question.completed(event)
            if decoder.failure is not None:
                raise decoder.failure
        except SpindleError as error:
            from spindle.model.unanswered import what_became  # only after a failure

            events, failure = await what_became(error, question, response, decoder)
            for event in events:
                yield event
            if failure is error:
                raise
            if failure is not None:
                raise failure from error
        finally:
            if response is not None:
                response.close()
            if watch is not None:
                watch.answered()  # or nobody waits for it any more

    async def _send(self, question: Question, turn_state: TurnState | None) -> Answer:
        """Put the question once."""
        # Anew each time: what a refusal teaches changes the request, and else it is the one before.
        question.put()
        endpoint = question.endpoint
        if (line := self._line(endpoint)) is not None and (answer := await _say(question, line)) is not None:
            return answer
        url = endpoint.url(endpoint.wire.path)
        try:
            headers, body = endpoint.question_headers(turn_state), question.encode()
            return await endpoint.http.request("POST", url, headers, body, timeout_s=endpoint.provider.idle_timeout_s)
        except (ConnectFailed, ModelError, ConfigError):  # there is no server, or no key for it
            if question.watch is not None:
                question.watch.unsent()
            raise

    # ---- what else it can do -------------------------------------------------------------------------

    def use(self, endpoint: Endpoint) -> None:
        """Later questions go to this server."""
        if endpoint is not self.endpoint:
            self._left.append(self.endpoint)
            self.endpoint = endpoint

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

    def _line(self, endpoint: Endpoint) -> Line | None:
        return endpoint.line(self._clock, self._sse_event_max_bytes)


async def _say(question: Question, line: Line) -> SocketAnswer | None:
    """Put the question over a WebSocket; None where that is not the way."""
    if question.watch is not None:
        question.encode()  # the record has it whole, though the server is told only what is new
    answer = await line.ask(question.sent, question.endpoint.provider.idle_timeout_s)
    question.remark = line.reason() or question.remark
    return answer


class _Body:
    """The body of an answer as it arrives: the events in it, and how long they are waited for."""

    def __init__(self, response: Answer, question: Question, event_max_bytes: int, end_patience_s: float) -> None:
        self._response = response
        self._question = question
        self._event_max_bytes = event_max_bytes
        self._frames = sse.SseDecoder(event_max_bytes) if isinstance(response, Response) else response.frames()
        self._time = asyncio.get_running_loop().time
        self._idle_s = question.endpoint.provider.idle_timeout_s
        self._deadline = self._time() + self._idle_s
        self._end_patience_s = end_patience_s
        self._end_by: float | None = None
        """When to hang up, since the model has stopped."""
        self._has_begun = response.is_framed
        self.is_read = False

    async def more(self, *, has_stopped: bool) -> Iterable[bytes]:
        """The events that the next piece of the body makes whole. `has_stopped`: the model has, so its end is near."""
        if self._frames.made_progress:
            # Counted from here: the time a reader spends on an event is not the server's silence.
            self._deadline = self._time() + self._idle_s
        if has_stopped:
            self._end_by = self._end_by or self._time() + self._end_patience_s
            self._deadline = min(self._deadline, self._end_by)
        data = await self._response.chunk(self._deadline)
        if not self._has_begun:
            data = await self._begin(data)
        self.is_read = not data
        return self._frames.feed(data) if data else self._frames.finish()

    async def _begin(self, data: bytes) -> bytes:
        """The first piece, as that of an event stream, whatever it is."""
        self._has_begun = True
        kind = self._response.headers.get("content-type", "").lstrip().lower()
        # A brace or an angle bracket: JSON or a page, whatever it is said to be.
        if data[:1] not in (b"{", b"<", b"[") and kind.startswith("text/event-stream"):
            return data
        from spindle.model.unanswered import beginning  # most servers stream

        return await beginning(self._response, data, self._question, self._event_max_bytes)
