"""What went wrong: from a server's words to our two kinds of error, ask again (`StreamDropped`) or not (`ModelError`).

The whole table is here and nowhere else. Texts are cut, but not cleaned of secrets: the client does that for all.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import msgspec

from spindle.errors import ErrorInfo, ImageRejected, ModelError, StreamDropped
from spindle.model.retry import parse_retry_after, parse_try_again
from spindle.protocol.items import decode_foreign

BODY_SHOWN_CHARS = 2000

CONTEXT_FULL = (
    "The conversation ran out of room in the model's context window. "
    "Start a new thread, or shorten this one by compaction, and try again."
)
QUOTA_SPENT = "The quota of this account is used up. Check its plan and billing, then try again."

DISCONNECTED: ErrorInfo = {"response_stream_disconnected": {"http_status_code": None}}
NO_CONNECTION: ErrorInfo = {"http_connection_failed": {"http_status_code": None}}

_IMAGE_COMPLAINTS = ("image data", "valid image", "invalid image", "unsupported image", "image format", "image file")


def disconnected(reason: str, *, delay_s: float | None = None) -> StreamDropped:
    """The answer began and broke off."""
    return StreamDropped(f"stream disconnected before completion: {reason}", info=DISCONNECTED, delay_s=delay_s)


def no_connection(reason: str) -> StreamDropped:
    return StreamDropped(f"Connection failed: {reason}", info=NO_CONNECTION)


def from_status(
    status: int, headers: Mapping[str, str], body: bytes, url: str, now: float
) -> ModelError | StreamDropped:
    """The error that an answer with a status other than 2xx means."""
    error = _error_object(body)
    text = _shown(body)
    said = error.get("message") if isinstance(error.get("message"), str) else None
    line = f"{status} {_reason_phrase(status)}"
    request_id = headers.get("x-request-id") or headers.get("x-oai-request-id")
    suffix = f", request id: {request_id}" if request_id else ""
    wait_s = parse_retry_after(headers.get("retry-after"), now, headers.get("date"))
    unexpected = f"unexpected status {line}: {_cut(said or text)}, url: {url}{suffix}"

    if status == 400:
        return _bad_request(error, text, (text or unexpected) + (suffix if text else ""))
    if status == 401:
        return StreamDropped(unexpected, info="unauthorized")
    if status == 429:
        if error.get("type") in ("usage_limit_reached", "usage_not_included"):
            return ModelError(_usage_text(error, said, now), "usage_limit_exceeded")
        return StreamDropped(
            f"{line}: {_cut(said or text)}{suffix}" if said or text else line + suffix,
            delay_s=wait_s,
            info={"response_too_many_failed_attempts": {"http_status_code": 429}},
            final=f"exceeded retry limit, last status: {line}{suffix}",
        )
    if 300 <= status < 400:
        place = headers.get("location", "another address")
        return ModelError(
            f"{url} answered {line} and points to {place}; redirects are not followed, so set base_url accordingly",
            {"http_connection_failed": {"http_status_code": status}},
        )
    if status in (500, 502, 503, 504):
        return StreamDropped(
            unexpected,
            delay_s=wait_s,
            info="internal_server_error",
            final=f"The model service is under high demand; try again later (last status: {line}{suffix}).",
        )
    return StreamDropped(
        unexpected,
        delay_s=wait_s,
        info={"response_stream_connection_failed": {"http_status_code": status}},
    )


def from_failed_response(error: Mapping[str, Any]) -> ModelError | StreamDropped:
    """The error that a `response.failed` event means; `error` is its `response.error`."""
    code = error.get("code")
    message = error.get("message")
    said = _cut(message) if isinstance(message, str) and message else "the server gave no reason"
    match code:
        case "context_length_exceeded":
            return ModelError(CONTEXT_FULL, "context_window_exceeded")
        case "insufficient_quota":
            return ModelError(QUOTA_SPENT, "usage_limit_exceeded")
        case "usage_not_included":
            return ModelError(said, "usage_limit_exceeded")
        case "invalid_prompt":
            return ModelError(said, "bad_request")
        case "rate_limit_exceeded":
            return StreamDropped(f"rate limit exceeded: {said}", delay_s=parse_try_again(said), info=DISCONNECTED)
        case _:
            return disconnected(said)


def incomplete(reason: str) -> ModelError:
    return ModelError(f"Incomplete response returned, reason: {reason}")


def _bad_request(error: Mapping[str, Any], text: str, shown: str) -> ModelError:
    code = error.get("code")
    if code == "context_length_exceeded":
        return ModelError(CONTEXT_FULL, "context_window_exceeded")
    lower = text.lower()
    if (isinstance(code, str) and "image" in code) or any(words in lower for words in _IMAGE_COMPLAINTS):
        return ImageRejected(shown, "bad_request")
    return ModelError(shown, "bad_request")


def _usage_text(error: Mapping[str, Any], said: str | None, now: float) -> str:
    if error.get("type") == "usage_not_included":
        return _cut(said) if said else "This account's plan does not include the use of this model."
    resets_at, resets_in = error.get("resets_at"), error.get("resets_in_seconds")
    if not isinstance(resets_at, (int, float)) and isinstance(resets_in, (int, float)):
        resets_at = now + resets_in
    text = "The usage limit of this account is reached."
    if isinstance(resets_at, (int, float)):
        try:
            text += time.strftime(" Try again after %Y-%m-%d %H:%M UTC.", time.gmtime(resets_at))
        except (OverflowError, ValueError, OSError):
            pass
    return text


def _error_object(body: bytes) -> Mapping[str, Any]:
    """`error` of a JSON body; some servers put its fields, or a bare text, at the top."""
    try:
        value = decode_foreign(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
    if not isinstance(value, dict):
        return {}
    error = value.get("error", value)
    if isinstance(error, str):
        return {"message": error}
    return error if isinstance(error, dict) else {}


def _shown(body: bytes) -> str:
    return _cut(body.decode("utf-8", "replace").strip())


def _cut(text: str) -> str:
    return text if len(text) <= BODY_SHOWN_CHARS else text[:BODY_SHOWN_CHARS] + "…"


def _reason_phrase(status: int) -> str:
    from http import HTTPStatus  # only when something failed

    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"
