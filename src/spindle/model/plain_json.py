"""Questions to a server whose answer is plain JSON, no stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from spindle.errors import ModelError
from spindle.model.connection import TransportError
from spindle.model.failures import NO_CONNECTION
from spindle.model.http import HttpClient
from spindle.model.url import Url
from spindle.protocol.items import decode_foreign

JSON_MAX_BYTES = 64 * 1024 * 1024
JSON_TIMEOUT_S = 10.0


async def request_json(
    http: HttpClient,
    method: str,
    url: Url,
    headers: Mapping[str, str],
    body: bytes,
    *,
    timeout_s: float | None = None,
    max_bytes: int | None = None,
    now: float = 0.0,
) -> Any:
    """Ask once and read a plain JSON answer. Raises `ModelError`; `now` is the time of day."""
    timeout_s = timeout_s or JSON_TIMEOUT_S
    try:
        response = await http.request(method, url, headers, body, timeout_s=timeout_s)
        try:
            reply = await response.read(max_bytes or JSON_MAX_BYTES, timeout_s)
        finally:
            response.close()
    except TransportError as error:
        raise ModelError(f"Connection failed: {error}", NO_CONNECTION, advice=error.advice) from error
    if not 200 <= response.status < 300:
        from spindle.model.advice import Asked  # only when something failed
        from spindle.model.refusals import from_status  # the same
        from spindle.model.server_words import read_words  # the same

        words = read_words(reply, response.headers)
        failure = from_status(response.status, response.headers, words, Asked(url=str(url)), now)
        raise ModelError(str(failure), failure.info)
    try:
        return decode_foreign(reply)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ModelError(f"{url} did not answer with JSON: {error}") from error
