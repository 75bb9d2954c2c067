"""A question that was not answered by a stream: what the server said instead, and what that means.

Loaded only then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spindle.errors import ModelError, StreamDropped
from spindle.model import refusals
from spindle.model.advice import Asked
from spindle.model.connection import TransportError
from spindle.model.question import Question
from spindle.model.reading import Answer
from spindle.model.server_words import ServerWords, json_words, read_words
from spindle.model.url import Url

ERROR_BODY_MAX_BYTES = 64 * 1024
ERROR_BODY_TIMEOUT_S = 10.0


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
