"""Events of a Responses stream that most answers do not have: failures, complaints, allowances.

Loaded with the first of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from spindle.model.client import ModelEvent, RateLimits
from spindle.model.failures import ResponseFailed, incomplete
from spindle.model.headers import rate_limits
from spindle.model.wires.responses.decoder import ResponseEvent, ResponsesDecoder, event_type
from spindle.protocol.items import MAX_FOREIGN_DEPTH, json_reader


class _ErrorEvent(msgspec.Struct):
    message: str | None = None
    code: str | None = None
    error: dict[str, Any] | None = None


class _LimitsEvent(msgspec.Struct):
    """What the headers of an answer say over HTTP."""

    rate_limits: dict[str, Any] | None = None
    credits: dict[str, Any] | None = None


def read_seldom(decoder: ResponsesDecoder, frame: bytes) -> list[ModelEvent]:
    """The events that such a frame means, as `ResponsesDecoder.feed` gives them."""
    shape, read = _READERS[event_type(frame)]
    try:
        event = shape(frame)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    return read(decoder, event)


def _failed(decoder: ResponsesDecoder, event: ResponseEvent) -> list[ModelEvent]:
    error = (event.response or {}).get("error")
    raise ResponseFailed(error if isinstance(error, dict) else {})


def _incomplete(decoder: ResponsesDecoder, event: ResponseEvent) -> list[ModelEvent]:
    details = (event.response or {}).get("incomplete_details")
    reason = details.get("reason") if isinstance(details, dict) else None
    raise incomplete(reason if isinstance(reason, str) else "unknown")


def _complaint(decoder: ResponsesDecoder, event: _ErrorEvent) -> list[ModelEvent]:
    said = {"message": event.message, "code": event.code}
    decoder.last_error = event.error or {name: value for name, value in said.items() if value} or decoder.last_error
    return []


def _rate_limits(decoder: ResponsesDecoder, event: _LimitsEvent) -> list[ModelEvent]:
    snapshot = rate_limits(_as_headers(event))
    return [] if snapshot is None else [RateLimits(snapshot)]


def _as_headers(event: _LimitsEvent) -> dict[str, str]:
    """The account's allowance as the headers of an answer tell it."""
    told: list[tuple[str, Any]] = [(f"credits-{name}", value) for name, value in (event.credits or {}).items()]
    for window, counts in (event.rate_limits or {}).items():
        told += [(f"{window}-{name}", value) for name, value in counts.items()] if isinstance(counts, dict) else []
    return {f"x-codex-{name.replace('_', '-')}": str(value) for name, value in told if value is not None}


_response = json_reader(ResponseEvent, MAX_FOREIGN_DEPTH)
_error = json_reader(_ErrorEvent, MAX_FOREIGN_DEPTH)
_Reader = tuple[Callable[[bytes], Any], Callable[[ResponsesDecoder, Any], list[ModelEvent]]]
_READERS: dict[bytes, _Reader] = {
    b"response.failed": (_response, _failed),
    b"response.incomplete": (_response, _incomplete),
    b"error": (_error, _complaint),
    b"": (_error, _complaint),
    b"codex.rate_limits": (json_reader(_LimitsEvent, MAX_FOREIGN_DEPTH), _rate_limits),
}
