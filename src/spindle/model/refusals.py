"""What a server's refusal means: from its words to our two kinds of error, ask again (`StreamDropped`) or not.

The whole table is here and nowhere else. What a body says is read in `server_words`, what a person can do about it is
written in `advice`; all three are loaded only when a server refused. Texts are cut and harmless, but not cleaned of
secrets: the client does that for all. Failures below the level of answers are in `failures`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from http import HTTPStatus

import msgspec

from spindle.errors import ErrorInfo, ImageRejected, ModelError, StreamDropped, WindowFull
from spindle.model import advice
from spindle.model.advice import Asked
from spindle.model.failures import DISCONNECTED, disconnected
from spindle.model.retry import asked_wait, parse_try_again
from spindle.model.server_words import ServerWords, one_line
from spindle.model.window_words import is_overflow, named_window

CONTEXT_FULL = (
    "The conversation ran out of room in the model's context window. "
    "Start a new thread, or shorten this one by compaction, and try again."
)
QUOTA_SPENT = "The quota of this account is used up"
USAGE_LIMIT = "The usage limit of this account is reached"

_QUOTA_CODES = frozenset(
    ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "insufficient_credits", "billing_error")
)
_MODEL_CODES = frozenset(
    ("model_not_found", "model_not_available", "unknown_model", "invalid_model", "deploymentnotfound")
)
_KEY_CODES = frozenset(("invalid_api_key", "invalid_authentication", "authentication_error", "unauthorized"))
_LIMIT_CODES = frozenset(("usage_limit_reached", "usage_not_included"))
_RATE_CODES = frozenset(("rate_limit_exceeded", "rate_limit_error"))

_QUOTA_WORDS = (
    *("exceeded your current quota", "insufficient balance", "insufficient credit", "insufficient funds"),
    *("credit balance is too low", "out of credits", "requires more credits", "billing hard limit"),
    *("have any credits", "余额不足"),
)
_IMAGE_WORDS = (
    *("image data", "valid image", "invalid image", "unsupported image", "image format", "image file"),
    *("process image", "image exceeds", "image dimensions", "image does not match"),
)
_NO_MODEL = re.compile(
    r"\bmodels?\b.{0,200}?\b(?:not found|does not exist|not exist|is not (?:a )?(?:valid|available|supported)|unknown)"
    r"|\b(?:unknown|invalid|no such|unsupported) model\b|\bnot a valid model\b",
    re.IGNORECASE,
)

_ONLY_NO_MODEL = re.compile(
    r"\W*(?:(?:the|this|that|requested|provided|specified|given|selected)\s+)*model(?:\s+(?:identifier|name|id))?\s+"
    r"(?:is\s+|was\s+|does\s+)?(?:not\s+(?:exist|found|available|supported|valid)|invalid|unknown|unsupported)\W*"
    r"|\W*(?:unknown|invalid|no such|unsupported) model(?: identifier| name| id)?\W*"
    r"|.*\bLLM Provider NOT provided\b.*",
    re.IGNORECASE,
)
"""A sentence that says nothing but this, so that it need not name the model. The last words are those of LiteLLM."""
_BAD_KEY = re.compile(
    r"\b(?:invalid|incorrect|wrong|expired) api[ _-]?key\b"
    r"|\bapi[ _-]?key\b[^.]{0,40}?\b(?:not valid|invalid|incorrect|expired)\b",
    re.IGNORECASE,
)

_FINAL_STATUSES = frozenset((400, 401, 402, 403, 404, 405, 407, 410, 413, 414, 415, 422, 431, 451))
"""Asking again would bring the same answer; every other status may pass."""

_PHRASES = {
    413: "Payload Too Large",
    422: "Unprocessable Entity",
    520: "Unknown Error of the Server behind Cloudflare",
    521: "Web Server Is Down",
    522: "Connection Timed Out",
    523: "Origin Is Unreachable",
    524: "A Timeout Occurred",
    525: "TLS Handshake Failed",
    526: "Invalid TLS Certificate",
    529: "Overloaded",
}
"""Statuses that Python has no name for, or another one in each version."""


class _Answer(msgspec.Struct, frozen=True):
    """An answer with a status other than 2xx."""

    status: int
    words: ServerWords
    asked: Asked
    request_id: str
    """`, request id: ID`, or ""."""

    @property
    def line(self) -> str:
        try:
            return f"{self.status} {_PHRASES.get(self.status) or HTTPStatus(self.status).phrase}"
        except ValueError:
            return f"{self.status} Unknown"

    @property
    def said(self) -> str:
        """What the server says beyond its status line; "" for nothing."""
        if not self.words.is_page:
            return self.words.text or ", ".join(sorted(self.words.codes))
        owner = "a page of Cloudflare" if self.words.is_cloudflare else "a web page"
        title = self.words.text
        is_new = title and title.lower() not in (self.line.lower(), self.line.partition(" ")[2].lower())
        return f"{owner}, “{title}”" if is_new else owner

    @property
    def details(self) -> str:
        return f"{self.line}{_after(self.said)}{self.request_id}"

    @property
    def unexpected(self) -> str:
        """The form in which Codex tells of a status. Programs read it, so the server is quoted exactly."""
        said = self.said or "no reason given"
        return f"unexpected status {self.line}: {said}, url: {self.asked.url}{self.request_id}"

    @property
    def info(self) -> ErrorInfo:
        return {"http_connection_failed": {"http_status_code": self.status}}


def from_status(
    status: int, headers: Mapping[str, str], words: ServerWords, asked: Asked, now: float
) -> ModelError | StreamDropped:
    """The error that an answer with a status other than 2xx means."""
    answer = _Answer(status, words, asked, _request_id(headers))
    wait_s = asked_wait(headers, now)
    if wait_s is None and status == 429:
        wait_s = parse_try_again(words.text)
    if (known := _by_meaning(status, words, asked, answer.details, now, wait_s)) is not None:
        return known
    if 300 <= status < 400:
        place = one_line(headers.get("location", "")) or "another address"
        fact = f"{asked.url} answered {answer.line} and points to {place}"
        return ModelError(fact, answer.info, advice=advice.for_redirect(asked))
    if status in _FINAL_STATUSES:
        return _refused(answer)
    if status == 429:
        return StreamDropped(
            answer.details,
            delay_s=wait_s,
            info={"response_too_many_failed_attempts": {"http_status_code": 429}},
            final=f"exceeded retry limit, last status: {answer.line}{answer.request_id}{_after(answer.said)}",
            advice=advice.SLOW_DOWN,
        )
    if status >= 500:
        last = f"last status: {answer.details}, url: {asked.url}"
        return StreamDropped(
            answer.unexpected,
            delay_s=wait_s,
            info="internal_server_error",
            final=f"The model service is under high demand; try again later ({last})",
        )
    return StreamDropped(answer.unexpected, delay_s=wait_s, info=answer.info)


def from_failed_response(words: ServerWords, asked: Asked, now: float) -> ModelError | StreamDropped:
    """The error that a `response.failed` event, or an `error` event, means."""
    said = words.text or "the server gave no reason"
    wait_s = parse_try_again(said)
    if "invalid_prompt" in words.codes:
        return ModelError(said, "bad_request")
    if (known := _by_meaning(0, words, asked, words.text, now, wait_s)) is not None:
        return known
    if words.codes & _RATE_CODES:
        fact = f"rate limit exceeded: {said}"
        return StreamDropped(fact, delay_s=wait_s, info=DISCONNECTED, advice=advice.SLOW_DOWN)
    return disconnected(said)


def from_wrong_kind(kind: str, words: ServerWords, asked: Asked, now: float) -> ModelError | StreamDropped:
    """The error that an answer of 200 means whose body is no event stream but a page or plain JSON."""
    if words.is_page:
        return ModelError(
            f"{asked.url} answered with a web page instead of an event stream{_after(words.text)}",
            {"http_connection_failed": {"http_status_code": 200}},
            advice=advice.CLOUDFLARE if words.is_cloudflare else advice.PAGE,
        )
    if (known := _by_meaning(0, words, asked, words.text, now, None)) is not None:
        return known
    said = words.text or "stream closed before response.completed"
    return disconnected(f"{said} (the server answered with {kind or 'a body'} instead of an event stream)")


def is_about_plan(words: ServerWords) -> bool:
    """The account is known, and may not do this, or no more of it."""
    return bool(words.codes & _LIMIT_CODES)


def is_about_model(status: int, words: ServerWords, model: str) -> bool:
    """The server does not have this model, or not for this account. `status` 0 is an event's."""
    if words.codes & _MODEL_CODES:
        return True
    if status not in (400, 403, 404, 422):
        return False
    says_so, is_named = _NO_MODEL.search(words.text) is not None, _is_named(model, words.text)
    if status == 404:
        return says_so or is_named
    # In another status the sentence may be about anything else that the model lacks.
    return (says_so and is_named) or _ONLY_NO_MODEL.fullmatch(words.text) is not None


def _is_named(model: str, text: str) -> bool:
    """The text has the name as a word of its own, not as a part of a path or of a longer name."""
    return bool(model) and re.search(rf"(?<![\w/-]){re.escape(model)}(?![\w/-])", text, re.IGNORECASE) is not None


# ---- rows ------------------------------------------------------------------------------------------


def _by_meaning(
    status: int, words: ServerWords, asked: Asked, details: str, now: float, wait_s: float | None
) -> ModelError | None:
    """The failures that have a name of their own, however the server tells them; `status` 0 is an event's."""
    lower = words.text.lower()
    if status != 413 and is_overflow(status, words):
        return WindowFull(CONTEXT_FULL, named_window(words))
    if status not in (0, 429) and status not in _FINAL_STATUSES:
        return None
    if is_about_plan(words):
        return _usage_limit(words, asked, now)
    # A server that says when to come back is only busy, whatever it calls that.
    is_spent = wait_s is None and any(text in lower for text in _QUOTA_WORDS)
    if status == 402 or words.codes & _QUOTA_CODES or is_spent:
        fact = f"{QUOTA_SPENT} ({details.removesuffix('.')})" if details else QUOTA_SPENT
        return ModelError(fact, "usage_limit_exceeded", advice=advice.for_quota(asked))
    if status == 0 and words.codes & _MODEL_CODES:
        fact = details or f"the server does not have the model {asked.model}"
        return ModelError(fact, "bad_request", advice=advice.for_model(asked))
    if status == 0 and words.codes & _KEY_CODES:
        return ModelError(details or "the server refused the key", "unauthorized", advice=advice.for_key(asked))
    return None


def _refused(answer: _Answer) -> ModelError:
    """A status that asking again would not change."""
    words, asked, unexpected, info = answer.words, answer.asked, answer.unexpected, answer.info
    if words.is_page and answer.status not in (404, 405, 407, 413):
        next_step = advice.CLOUDFLARE if words.is_cloudflare else advice.PAGE
        return ModelError(unexpected, "unauthorized" if answer.status == 401 else info, advice=next_step)
    if is_about_model(answer.status, words, asked.model):
        return ModelError(unexpected, "bad_request" if answer.status == 400 else info, advice=advice.for_model(asked))
    if answer.status in (400, 403) and (words.codes & _KEY_CODES or _BAD_KEY.search(words.text)):
        return ModelError(unexpected, "unauthorized", advice=advice.for_key(asked))
    match answer.status:
        case 400:
            return _bad_request(answer)
        case 401:
            return ModelError(unexpected, "unauthorized", advice=advice.for_key(asked))
        case 403:
            is_region = any("country" in code or "region" in code for code in words.codes)
            return ModelError(unexpected, info, advice=advice.REGION if is_region else advice.for_forbidden(asked))
        case 404 | 405 | 410:
            return ModelError(unexpected, info, advice=advice.for_path(asked))
        case 407:
            return ModelError(unexpected, info, advice=advice.PROXY_SIGN_IN)
        case 413:
            fact = f"The request is too large for the server: {answer.details}"
            return WindowFull(fact, named_window(words), advice=advice.TOO_LARGE)
        case 422:
            return ModelError(unexpected, "bad_request")
        case 451:
            return ModelError(unexpected, info, advice=advice.REGION)
        case _:
            return ModelError(unexpected, info)


def _bad_request(answer: _Answer) -> ModelError:
    words = answer.words
    reason = answer.said or f"no reason given, url: {answer.asked.url}"
    fact = f"The server refused the request ({answer.line}{answer.request_id}): {reason}"
    lower = words.text.lower()
    if any("image" in code for code in words.codes) or any(text in lower for text in _IMAGE_WORDS):
        return ImageRejected(fact, "bad_request")
    return ModelError(fact, "bad_request")


def _usage_limit(words: ServerWords, asked: Asked, now: float) -> ModelError:
    if "usage_not_included" in words.codes:
        fact = words.text or "This account's plan does not include the use of this model"
        return ModelError(fact, "usage_limit_exceeded", advice=advice.for_plan(asked))
    plan = words.fields.get("plan_type")
    text = USAGE_LIMIT + (f" (plan: {plan})" if isinstance(plan, str) and plan.isalnum() and len(plan) < 20 else "")
    resets_at, resets_in = words.fields.get("resets_at"), words.fields.get("resets_in_seconds")
    if not isinstance(resets_at, (int, float)) and isinstance(resets_in, (int, float)):
        resets_at = now + resets_in
    when = local_moment(resets_at, now) if isinstance(resets_at, (int, float)) else ""
    text += f"; it resets at {when}" if when else ""
    return ModelError(text, "usage_limit_exceeded", advice=advice.for_usage_limit(asked, tells_when=bool(when)))


# ---- words -----------------------------------------------------------------------------------------


def local_moment(moment: float, now: float) -> str:
    """`2027-01-15 10:00 CET, in 1 h 30 min`; "" for what is no time."""
    try:
        text = time.strftime("%Y-%m-%d %H:%M %Z", time.localtime(moment)).strip()
    except (OverflowError, ValueError, OSError):
        return ""
    minutes = max(0, round((moment - now) / 60))
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    amounts = ((days, "d"), (hours, "h"), (0 if days else minutes, "min"))
    left = " ".join(f"{amount} {unit}" for amount, unit in amounts if amount)
    return f"{text}, in {left}" if left else text


def _after(text: str) -> str:
    return f": {text}" if text else ""


def _request_id(headers: Mapping[str, str]) -> str:
    found = headers.get("x-request-id") or headers.get("x-oai-request-id") or headers.get("request-id")
    return f", request id: {one_line(found)[:200]}" if found else ""
