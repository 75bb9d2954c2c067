"""The client for servers that speak the Responses API over HTTP and server-sent events.

One call of `stream` is one question: it may be sent several times before an answer begins (`request_max_retries`,
silent), and once it has begun is never repeated here; that is the turn's decision.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Iterator, Mapping
from typing import Any

import msgspec

from spindle.errors import ConfigError, ModelError, SpindleError, StreamDropped
from spindle.model import failures, sse
from spindle.model.body import GrowingBody
from spindle.model.client import ModelEvent, RateLimits, TurnState
from spindle.model.connection import ConnectFailed, PeerClosed, TimedOut, TransportError
from spindle.model.credential import Credential
from spindle.model.decoder import Decoder
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
from spindle.model.wellformed import is_well_formed
from spindle.protocol.clock import Clock
from spindle.protocol.items import Item, decode_foreign, encode_json
from spindle.protocol.request import Request

__all__ = ["Decoder", "Identity", "ResponsesClient", "get_json"]

ERROR_BODY_MAX_BYTES = 64 * 1024
ERROR_BODY_TIMEOUT_S = 10.0
JSON_MAX_BYTES = 64 * 1024 * 1024
JSON_TIMEOUT_S = 10.0
SILENT_WAIT_S = 5.0
"""The longest pause between two tries of one request; a server that asks for more has it announced."""
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
    ) -> None:
        self._provider = provider
        self._credential = credential
        self._identity = identity
        self._clock = clock
        self._environ = os.environ if environ is None else environ
        self._sse_event_max_bytes = sse_event_max_bytes
        self._body = GrowingBody()
        tls = TlsFiles(ca_file=provider.ca_file, client_cert=provider.client_cert, client_key=provider.client_key)
        self._http = HttpClient(tls=tls, environ=environ, connect_timeout_s=connect_timeout_s)

    async def stream(self, request: Request, turn_state: TurnState | None = None) -> AsyncGenerator[ModelEvent, None]:
        idle_s = self._provider.idle_timeout_s
        loop = asyncio.get_running_loop()
        try:
            response = await self._open(self._body.encode(request), turn_state)
            try:
                if (snapshot := rate_limits(response.headers)) is not None:
                    yield RateLimits(snapshot)
                frames = sse.SseDecoder(self._sse_event_max_bytes)
                includes_reasoning = is_true(response.headers.get("x-reasoning-included", ""))
                decoder = Decoder(self._clock.uuid7, reasoning_included=includes_reasoning)
                deadline = loop.time() + idle_s
                while not decoder.is_over:
                    data = await _next_chunk(response, deadline)
                    for event in _read_events(data, frames, decoder, response):
                        yield event
                    if frames.made_progress:
                        # Counted from here: the time a reader spends on an event is not the server's silence.
                        deadline = loop.time() + idle_s
            finally:
                response.close()
        except ConfigError as error:
            raise ModelError(self._cleaned(str(error))) from error
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
        items = items if isinstance(items, list) else []
        items = [item for item in items if isinstance(item, dict) and is_well_formed(item)]
        if not any(map(_stands_for_work, items)):
            raise ModelError("the server's compaction holds neither a compacted thread nor a message")
        return items

    async def warm(self) -> None:
        try:
            await self._http.warm(parse_url(self._provider.base_url, "base_url"))
        except SpindleError:
            pass  # the first request meets the same trouble, and can tell about it

    async def aclose(self) -> None:
        await self._http.aclose()

    async def get_json(self, path: str, *, timeout_s: float = JSON_TIMEOUT_S) -> Any:
        """`GET {base_url}{path}` with the provider's headers, e.g. "/models". Raises `ModelError`."""
        return await self._json("GET", path, b"", timeout_s)

    async def post_json(self, path: str, body: bytes, *, timeout_s: float | None = None) -> Any:
        """`POST {base_url}{path}` and read a plain JSON answer. Raises `ModelError`."""
        return await self._json("POST", path, body, timeout_s or self._provider.idle_timeout_s)

    # ---- asking --------------------------------------------------------------------------------------

    def _url(self, path: str) -> Url:
        return parse_url(join_url(self._provider.base_url, path, self._provider.query_params), "base_url")

    async def _open(self, body: bytearray, turn_state: TurnState | None) -> Response:
        """Ask until an answer begins, within the budget for one request."""
        url = self._url("/responses")
        may_refresh = True
        retries = 0
        while True:
            try:
                response = await self._send(url, body, turn_state)
                if 200 <= response.status < 300:
                    return self._accept(response, turn_state)
                failure = await self._refusal(response, url)
                if response.status == 401 and may_refresh:
                    may_refresh = False
                    if await self._credential.refresh():
                        continue
                if response.status < 500:
                    raise failure
            except (ConnectFailed, PeerClosed) as error:
                failure = failures.no_connection(str(error))
            retries += 1
            asked_s = failure.delay_s if isinstance(failure, StreamDropped) else None
            # A long wait is not for here, where nobody is told of it.
            if retries > self._provider.request_retries or (asked_s or 0) > SILENT_WAIT_S:
                raise failure
            await asyncio.sleep(backoff_s(retries, self._clock) if asked_s is None else asked_s)

    async def _send(self, url: Url, body: bytearray, turn_state: TurnState | None) -> Response:
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
            return await self._http.request("POST", url, headers, body, timeout_s=self._provider.idle_timeout_s)
        except (ConnectFailed, PeerClosed):
            raise
        except TimedOut as error:
            raise failures.disconnected("idle timeout waiting for the server's answer") from error
        except TransportError as error:
            raise failures.disconnected(str(error)) from error

    def _accept(self, response: Response, turn_state: TurnState | None) -> Response:
        state = response.headers.get("x-codex-turn-state")
        if state and turn_state is not None and turn_state.value is None:
            turn_state.value = state
        return response

    async def _refusal(self, response: Response, url: Url) -> ModelError | StreamDropped:
        try:
            body = await response.read(ERROR_BODY_MAX_BYTES, ERROR_BODY_TIMEOUT_S)
            response.release()
        except TransportError:
            body = b""
        finally:
            response.close()
        return failures.from_status(response.status, response.headers, body, str(url), self._clock.now())

    # ---- the rest ------------------------------------------------------------------------------------

    async def _json(self, method: str, path: str, body: bytes, timeout_s: float) -> Any:
        headers = merged(
            {"accept": "*/*", **({"content-type": "application/json"} if body else {})},
            provider_headers(self._provider, self._identity, self._environ),
            self._credential.authorization(),
        )
        try:
            return await _json(self._http, method, self._url(path), headers, body, timeout_s, self._clock.now())
        except ModelError as error:
            self._clean(error)
            raise
        except ConfigError as error:
            raise ModelError(self._cleaned(str(error))) from error

    def _clean(self, error: ModelError | StreamDropped) -> None:
        """Take every secret out of what the error says; a server may echo what we sent."""
        error.args = tuple(self._cleaned(text) if isinstance(text, str) else text for text in error.args)
        if isinstance(error, StreamDropped):
            error.final = self._cleaned(error.final)

    def _cleaned(self, text: str) -> str:
        from_variables = environment_headers(self._provider, self._environ).values()
        for secret in (*self._credential.secrets(), *from_variables, *self._provider.http_headers.values()):
            if len(secret) >= SECRET_MIN_CHARS:
                text = text.replace(secret, "[redacted]")
        return text


async def get_json(url: str, *, headers: Mapping[str, str] | None = None, timeout_s: float = JSON_TIMEOUT_S) -> Any:
    """One GET on a connection of its own. Raises `ModelError` when there is no JSON to be had within `timeout_s`."""
    http = HttpClient(connect_timeout_s=timeout_s)
    try:
        return await _json(http, "GET", parse_url(url), {"accept": "*/*", **(headers or {})}, b"", timeout_s, 0.0)
    finally:
        await http.aclose()


async def _json(
    http: HttpClient, method: str, url: Url, headers: Mapping[str, str], body: bytes, timeout_s: float, now: float
) -> Any:
    try:
        response = await http.request(method, url, headers, body, timeout_s=timeout_s)
        try:
            reply = await response.read(JSON_MAX_BYTES, timeout_s)
        finally:
            response.close()
    except TransportError as error:
        raise ModelError(f"Connection failed: {error}", failures.NO_CONNECTION) from error
    if not 200 <= response.status < 300:
        failure = failures.from_status(response.status, response.headers, reply, str(url), now)
        raise ModelError(str(failure), failure.info)
    try:
        return decode_foreign(reply)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ModelError(f"{url} did not answer with JSON: {error}") from error


async def _next_chunk(response: Response, deadline: float) -> bytes:
    try:
        return await response.chunk(deadline)
    except TimedOut as error:
        raise failures.disconnected("idle timeout waiting for SSE") from error
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
    except (ModelError, StreamDropped):
        # The server ended the response in order; only its content is bad news.
        response.release()
        raise
    except sse.BadUtf8 as error:
        raise failures.disconnected(str(error)) from error
    except sse.EventTooLarge as error:
        raise ModelError(str(error)) from error
    if not data:
        raise failures.disconnected(_why_unfinished(response, decoder))


def _why_unfinished(response: Response, decoder: Decoder) -> str:
    if decoder.last_error:
        return decoder.last_error
    kind = response.headers.get("content-type", "").partition(";")[0].strip()
    if kind and kind != "text/event-stream":
        return f"stream closed before response.completed (the server answered with {kind})"
    return "stream closed before response.completed"
