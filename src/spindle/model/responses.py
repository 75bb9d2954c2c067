"""The client for servers that speak the Responses API over HTTP and server-sent events.

One call of `stream` is one question: it may be sent several times before an answer begins (`request_max_retries`,
silent), and once it has begun is never repeated here; that is the turn's decision.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from spindle.errors import ConfigError, ModelError, SpindleError, StreamDropped
from spindle.model import failures, sse
from spindle.model.body import GrowingBody
from spindle.model.client import Compacted, ModelEvent, RateLimits, TurnState
from spindle.model.connection import ConnectFailed, PeerClosed, TimedOut, TransportError
from spindle.model.credential import Credential
from spindle.model.headers import (
    Identity,
    environment_headers,
    is_true,
    merged,
    provider_headers,
    rate_limits,
    session_headers,
)
from spindle.model.http import CONNECT_TIMEOUT_S, HttpClient, Response
from spindle.model.provider import Provider
from spindle.model.retry import backoff_s
from spindle.model.tls import TlsFiles
from spindle.model.url import Url, join_url, parse_url
from spindle.protocol.clock import Clock
from spindle.protocol.items import Item, encode_json
from spindle.protocol.request import Request

if TYPE_CHECKING:
    from spindle.model.advice import Asked
    from spindle.model.decoder import Decoder
    from spindle.model.server_words import ServerWords

__all__ = ["Identity", "ResponsesClient"]

ERROR_BODY_MAX_BYTES = 64 * 1024
ERROR_BODY_TIMEOUT_S = 10.0
MODEL_LIST_MAX_BYTES = 1024 * 1024
MODEL_LIST_TIMEOUT_S = 3.0
SILENT_WAIT_S = 5.0
"""The longest pause between two tries of one request; a server that asks for more has it announced."""
_DECODER = "spindle.model.decoder"
SECRET_MIN_CHARS = 4
"""Shorter values are not taken out of error texts: they would tear ordinary words apart."""


class ResponsesClient:
    """A `ModelClient` for one thread and one provider."""

    def __init__(
        self,
        provider: Provider,
        credential: Credential,
        identity: Identity,
        clock: Clock,
        *,
        environ: Mapping[str, str] | None = None,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        sse_event_max_bytes: int = sse.EVENT_MAX_BYTES,
        catalog_path: str | None = None,
    ) -> None:
        """`catalog_path` names the catalogue whose models are offered to a person who asked for an unknown one."""
        self._provider = provider
        self._credential = credential
        self._identity = identity
        self._clock = clock
        self._environ = os.environ if environ is None else environ
        self._sse_event_max_bytes = sse_event_max_bytes
        self._catalog_path = catalog_path
        self._body = GrowingBody()
        self.before_retry: Callable[[], None] = lambda: None
        """Asked before a request that the server has answered in vain is made once more; may object by raising."""
        tls = TlsFiles(ca_file=provider.ca_file, client_cert=provider.client_cert, client_key=provider.client_key)
        self._http = HttpClient(tls=tls, environ=environ, connect_timeout_s=connect_timeout_s)

    async def stream(self, request: Request, turn_state: TurnState | None = None) -> AsyncGenerator[ModelEvent, None]:
        idle_s = self._provider.idle_timeout_s
        loop = asyncio.get_running_loop()
        if _DECODER not in sys.modules:
            loop.call_soon(_load_decoder)  # once the request is on its way: the server takes longer than this
        try:
            response = await self._open(self._body.encode(request), request.model, turn_state)
            try:
                decoder_class = _load_decoder()
                if (snapshot := rate_limits(response.headers)) is not None:
                    yield RateLimits(snapshot)
                frames = sse.SseDecoder(self._sse_event_max_bytes)
                includes_reasoning = is_true(response.headers.get("x-reasoning-included", ""))
                decoder = decoder_class(self._clock.uuid7, reasoning_included=includes_reasoning)
                deadline = loop.time() + idle_s
                begun = b"" if is_event_stream(response) else await self._beginning(response, deadline, request.model)
                while not decoder.is_over:
                    data = begun or await _next_chunk(response, deadline, idle_s)
                    begun = b""
                    for event in _read_events(data, frames, decoder, response):
                        yield event
                    if frames.made_progress:
                        # Counted from here: the time a reader spends on an event is not the server's silence.
                        deadline = loop.time() + idle_s
            finally:
                response.close()
        except ConfigError as error:
            raise ModelError(self._cleaned(str(error))) from error
        except failures.ResponseFailed as failed:
            raise self._clean(await self._failed(failed.error, request.model)) from failed
        except (ModelError, StreamDropped) as error:
            self._clean(error)
            raise

    async def compact(self, request: Request) -> list[Item]:
        body = b'{"model":%s,"input":[%s],"instructions":%s}' % (
            encode_json(request.model),
            b",".join(request.input),
            request.instructions,
        )
        reply = await self.post_json("/responses/compact", body)
        items = reply.get("output") if isinstance(reply, dict) else None
        from spindle.model.wellformed import is_well_formed  # it describes answers, and there is one now

        items = items if isinstance(items, list) else []
        items = [item for item in items if isinstance(item, dict) and is_well_formed(item)]
        if not any(map(_stands_for_work, items)):
            raise ModelError("the server's compaction holds neither a compacted thread nor a message")
        from spindle.model.decoder import read_usage  # the same

        compacted = Compacted(items)
        compacted.usage = read_usage(reply.get("usage"))
        return compacted

    async def warm(self) -> None:
        try:
            await self._http.warm(parse_url(self._provider.base_url, "base_url"))
        except SpindleError:
            pass  # the first request meets the same trouble, and can tell about it

    async def aclose(self) -> None:
        await self._http.aclose()

    async def post_json(self, path: str, body: bytes) -> Any:
        """`POST {base_url}{path}` and read a plain JSON answer. Raises `ModelError`."""
        return await self._json("POST", path, body, self._provider.idle_timeout_s)

    # ---- asking --------------------------------------------------------------------------------------

    def _url(self, path: str) -> Url:
        return parse_url(join_url(self._provider.base_url, path, self._provider.query_params), "base_url")

    async def _open(self, body: bytearray, model: str, turn_state: TurnState | None) -> Response:
        """Ask until an answer begins, within the budget for one request."""
        url = self._url("/responses")
        may_refresh = True
        retries = 0
        is_answered = False
        while True:
            if is_answered:
                self.before_retry()
                is_answered = False
            try:
                response = await self._send(url, body, turn_state)
                is_answered = True
                if 200 <= response.status < 300:
                    return self._accept(response, turn_state)
                failure = await self._refusal(response, url, model)
                if response.status == 401 and may_refresh:
                    may_refresh = False
                    if await self._credential.refresh():
                        continue
                if response.status < 500 or isinstance(failure, ModelError):
                    raise failure
            except (ConnectFailed, PeerClosed) as error:
                failure = failures.no_connection(error, self._provider)
                if error.is_final:
                    raise failure from error
            retries += 1
            asked_s = failure.delay_s if isinstance(failure, StreamDropped) else None
            # A long wait is not for here, where nobody is told of it.
            if retries > self._provider.request_retries or (asked_s or 0) > SILENT_WAIT_S:
                raise failure
            await asyncio.sleep(backoff_s(retries, self._clock) if asked_s is None else asked_s)

    async def _send(self, url: Url, body: bytearray, turn_state: TurnState | None) -> Response:
        idle_s = self._provider.idle_timeout_s
        fixed = {"accept": "text/event-stream", "content-type": "application/json"}
        if turn_state is not None and turn_state.value:
            fixed["x-codex-turn-state"] = turn_state.value
        headers = merged(
            fixed,
            session_headers(self._identity),
            provider_headers(self._provider, self._identity, self._environ),
            self._credential.authorization(),
        )
        try:
            return await self._http.request("POST", url, headers, body, timeout_s=idle_s)
        except (ConnectFailed, PeerClosed):
            raise
        except TimedOut as error:
            raise failures.timed_out("idle timeout waiting for the server's answer", idle_s) from error
        except TransportError as error:
            raise failures.disconnected(str(error)) from error

    def _accept(self, response: Response, turn_state: TurnState | None) -> Response:
        state = response.headers.get("x-codex-turn-state")
        if state and turn_state is not None and turn_state.value is None:
            turn_state.value = state
        return response

    # ---- what a failure means: everything below is loaded and done only after one -----------------------

    async def _refusal(self, response: Response, url: Url, model: str) -> ModelError | StreamDropped:
        """What an answer with a status other than 2xx means."""
        from spindle.model import refusals  # only after a failure

        words = await _read_words(response)
        asked = await self._asked(url, response.status, words, model)
        return refusals.from_status(response.status, response.headers, words, asked, self._clock.now())

    async def _beginning(self, response: Response, deadline: float, model: str) -> bytes:
        """The first bytes of an answer that does not call itself an event stream; some are one all the same."""
        data = await _next_chunk(response, deadline, self._provider.idle_timeout_s)
        if data.lstrip()[:1] not in (b"<", b"{", b"["):
            return data
        from spindle.model import refusals  # only after a failure

        words = await _read_words(response, data)
        asked = await self._asked(self._url("/responses"), 0, words, model)
        kind = response.headers.get("content-type", "").partition(";")[0].strip()
        raise refusals.from_wrong_kind(kind, words, asked, self._clock.now())

    async def _failed(self, error: Mapping[str, Any], model: str) -> ModelError | StreamDropped:
        """The server says in its stream that the response failed."""
        from spindle.model import refusals  # only after a failure
        from spindle.model.server_words import json_words  # only after a failure

        words = json_words(error)
        asked = await self._asked(self._url("/responses"), 0, words, model)
        return refusals.from_failed_response(words, asked, self._clock.now())

    async def _asked(self, url: Url, status: int, words: ServerWords, model: str) -> Asked:
        from spindle.model.advice import Asked  # only after a failure
        from spindle.model.refusals import is_about_model  # only after a failure

        offers = await self._offers() if is_about_model(status, words, model) else ()
        provider, key = self._provider, self._credential.origin()
        return Asked(url=str(url), model=model, provider=provider, key=key, offers=offers)

    async def _offers(self) -> tuple[str, ...]:
        """The models that the server lists; those of the catalogue if it lists none and is OpenAI's."""
        from spindle.model.catalog import Catalog  # only after a failure
        from spindle.model.server_words import model_names  # only after a failure

        names: tuple[str, ...] = ()
        with suppress(SpindleError):  # it is only for advice
            names = model_names(await self._json("GET", "/models", b"", MODEL_LIST_TIMEOUT_S, MODEL_LIST_MAX_BYTES))
        if not names and (self._provider.is_openai or self._provider.requires_openai_auth):
            with suppress(SpindleError):
                names = tuple(model.slug for model in Catalog.load(self._catalog_path).named)
        return names

    # ---- the rest ------------------------------------------------------------------------------------

    async def _json(
        self, method: str, path: str, body: bytes, timeout_s: float | None, max_bytes: int | None = None
    ) -> Any:
        from spindle.model.plain_json import request_json  # the way to a turn's answer does not need it

        headers = merged(
            {"accept": "*/*", **({"content-type": "application/json"} if body else {})},
            provider_headers(self._provider, self._identity, self._environ),
            self._credential.authorization(),
        )
        try:
            return await request_json(
                self._http,
                method,
                self._url(path),
                headers,
                body,
                timeout_s=timeout_s,
                max_bytes=max_bytes,
                now=self._clock.now(),
            )
        except ModelError as error:
            self._clean(error)
            raise
        except ConfigError as error:
            raise ModelError(self._cleaned(str(error))) from error

    def _clean(self, error: ModelError | StreamDropped) -> ModelError | StreamDropped:
        """Take every secret out of what the error says; a server may echo what we sent."""
        error.args = tuple(self._cleaned(text) if isinstance(text, str) else text for text in error.args)
        if isinstance(error, StreamDropped):
            error.final, error.advice = self._cleaned(error.final), self._cleaned(error.advice)
        return error

    def _cleaned(self, text: str) -> str:
        from spindle.policy.secrets import is_telling  # only after a failure

        from_variables = environment_headers(self._provider, self._environ).values()
        in_address = [value for name, value in self._provider.query_params.items() if is_telling(name)]
        given = (*from_variables, *self._provider.http_headers.values(), *in_address)
        for secret in (*self._credential.secrets(), *given):
            if len(secret) >= SECRET_MIN_CHARS:
                text = text.replace(secret, "[redacted]")
        return text


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


def _load_decoder() -> type[Decoder]:
    from spindle.model.decoder import Decoder  # nothing of it is needed to ask

    return Decoder


def is_event_stream(response: Response) -> bool:
    return response.headers.get("content-type", "").lstrip().lower().startswith("text/event-stream")


async def _next_chunk(response: Response, deadline: float, idle_s: float) -> bytes:
    try:
        return await response.chunk(deadline)
    except TimedOut as error:
        raise failures.timed_out("idle timeout waiting for SSE", idle_s) from error
    except TransportError as error:
        raise failures.disconnected(str(error)) from error


def _stands_for_work(item: Item) -> bool:
    """Something a model can go on from: a compacted thread, or what somebody said."""
    if item.get("type") in ("compaction", "compaction_summary"):
        return bool(item["encrypted_content"])
    return item.get("type") == "message" and item.get("role") in ("user", "assistant")


def _read_events(data: bytes, frames: sse.SseDecoder, decoder: Decoder, response: Response) -> Iterator[ModelEvent]:
    """What one piece of the body (b"" is its end) means. Events that came before an error are not lost to it."""
    try:
        for frame in frames.feed(data) if data else frames.finish():
            events = decoder.feed(frame)
            if decoder.is_over:
                # Now, because nobody may ask for more after the last event.
                response.release()
            yield from events
            if decoder.is_over:
                return
    except (ModelError, StreamDropped, failures.ResponseFailed):
        # The server ended the response in order; only its content is bad news.
        response.release()
        raise
    except sse.BadUtf8 as error:
        raise failures.disconnected(str(error)) from error
    except sse.EventTooLarge as error:
        raise ModelError(str(error)) from error
    if not data:
        if decoder.last_error is not None:
            raise failures.ResponseFailed(decoder.last_error)
        raise failures.closed_early()
