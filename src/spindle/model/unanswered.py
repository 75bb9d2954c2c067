"""A question that was not answered by a stream, or not to its end: what the server said instead, and what that means.

Loaded only then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from spindle.errors import ConfigError, ModelError, SpindleError, StreamDropped
from spindle.model import failures, refusals, sse
from spindle.model.advice import Asked
from spindle.model.client import ModelEvent
from spindle.model.connection import TimedOut, TransportError
from spindle.model.question import Question
from spindle.model.server_words import ServerWords, json_words, read_words
from spindle.model.url import Url

if TYPE_CHECKING:
    from spindle.model.remote import Answer
    from spindle.model.wires.wire import Decoder

ERROR_BODY_MAX_BYTES = 64 * 1024
ERROR_BODY_TIMEOUT_S = 10.0


async def what_became(
    error: SpindleError, question: Question, response: Answer | None, decoder: Decoder | None
) -> tuple[list[ModelEvent], SpindleError | None]:
    """What is still to be told of a question that was given up with `error`, and what it failed with, if it has failed.

    `response` is the last answer that came, `decoder` what was reading it.
    """
    if response is not None:
        if isinstance(error, ModelError | StreamDropped | failures.ResponseFailed):
            response.release()  # the server ended the response in order; only its content is bad news
        response.close()
    if isinstance(error, TransportError) and (rest := _rest_of_whole(decoder)):
        # Some servers never say that they have ended; what they said may be whole all the same.
        return [question.completed(event) for event in rest], None
    failure = await _failure(error, question, response if decoder is not None else None)
    if isinstance(failure, ModelError | StreamDropped):
        question.endpoint.clean(failure)
    return [*question.notices()], failure


async def _failure(error: SpindleError, question: Question, begun: Answer | None) -> SpindleError:
    """The error as callers of a client know it; `begun` is the answer that had begun."""
    match error:
        case ConfigError():
            return ModelError(str(error))
        case failures.ResponseFailed():
            return await failed_answer(error.error, question)
        case TimedOut():
            awaited = "the server's answer" if begun is None else "websocket" if begun.is_framed else "SSE"
            return failures.timed_out(f"idle timeout waiting for {awaited}", question.endpoint.provider.idle_timeout_s)
        case TransportError() | sse.BadUtf8():
            return failures.disconnected(str(error))
        case sse.EventTooLarge():
            return ModelError(str(error))
        case _:
            return error


def _rest_of_whole(decoder: Decoder | None) -> list[ModelEvent]:
    """What is left to tell of an answer that broke off after its end; nothing if it broke off before."""
    if decoder is None:
        return []
    try:
        events = decoder.finish()
    except SpindleError:
        return []
    return [] if decoder.failure is not None else events


async def beginning(response: Answer, data: bytes, question: Question, max_bytes: int) -> bytes:
    """How an answer that may be no event stream begins, as one; `data` is what came first of it."""
    idle_s = question.endpoint.provider.idle_timeout_s
    start = data.lstrip()[:1]
    if start not in (b"<", b"{", b"["):
        return data
    if start == b"{":
        from spindle.model.wires.whole import whole_answer  # few answer in one piece

        data = await _rest(response, data, max_bytes, idle_s)
        if (stream := whole_answer(question.endpoint.wire.name, data)) is not None:
            return stream
    words = await read_answer(response, data)
    asked = await _asked(0, words, question)
    kind = response.headers.get("content-type", "").partition(";")[0].strip()
    raise refusals.from_wrong_kind(kind, words, asked, question.now())


async def refusal(response: Answer, words: ServerWords, url: Url, question: Question) -> ModelError | StreamDropped:
    """What an answer with a status other than 2xx means."""
    asked = await _asked(response.status, words, question, url)
    return refusals.from_status(response.status, response.headers, words, asked, question.now())


async def failed_answer(error: Mapping[str, Any], question: Question) -> ModelError | StreamDropped:
    """The server says in its stream that the response failed."""
    words = json_words(error)
    if question.drops_opaque(words):
        return StreamDropped("the server could not read what it wrote earlier", delay_s=0.0)
    asked = await _asked(0, words, question)
    return refusals.from_failed_response(words, asked, question.now())


async def read_answer(response: Answer, begun: bytes = b"") -> ServerWords:
    """What an answer that is not a stream says in its body; `begun` is what was already read of it."""
    try:
        body = begun + await response.read(ERROR_BODY_MAX_BYTES, ERROR_BODY_TIMEOUT_S)
        response.release()
    except TransportError:
        body = begun
    finally:
        response.close()
    return read_words(body, response.headers)


async def _rest(response: Answer, begun: bytes, max_bytes: int, timeout_s: float) -> bytes:
    """A body to its end, or as far as it comes."""
    try:
        return begun + await response.read(max_bytes, timeout_s)
    except TransportError:
        return begun


async def _asked(status: int, words: ServerWords, question: Question, url: Url | None = None) -> Asked:
    endpoint, model = question.endpoint, question.request.model
    is_about_model = refusals.is_about_model(status, words, model)
    offers = await endpoint.offers(question.now()) if is_about_model else ()
    return Asked(
        url=str(url or endpoint.url(endpoint.wire.path)),
        path=endpoint.wire.path,
        model=model,
        provider=endpoint.provider,
        key=endpoint.credential.origin(),
        offers=offers,
    )
