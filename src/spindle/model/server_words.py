"""What a server says when it does not answer: the one sentence inside a JSON body, a web page, or plain text.

Loaded only when something failed. The server is not trusted: nothing that comes out of here is long, spans lines, or
drives a terminal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from spindle.protocol.items import decode_foreign
from spindle.protocol.quote import readable, without_terminal_codes

SHOWN_CHARS = 1000
_READ_CHARS = 8 * SHOWN_CHARS
"""More than this is not even looked at: escaping makes text longer, and nobody reads it."""
_PAGE_CHARS = 16 * 1024
_MAX_DEPTH = 8
_MAX_ENTRIES = 3
_MAX_MODELS = 500

_TEXT_KEYS = (
    *("message", "detail", "error_description", "error_message", "errorMessage", "msg", "Message"),
    *("description", "reason", "error", "errors", "title"),
)
"""Where servers put the sentence, the most telling place first."""
_CODE_KEYS = ("code", "type", "status", "error", "error_code")


class ServerWords(msgspec.Struct, frozen=True, kw_only=True):
    """What an answer without a stream says."""

    text: str = ""
    """One line, fit to be shown; "" when there is nothing to read."""
    codes: frozenset[str] = frozenset()
    """Every name the server gives the failure (`code`, `type`, `status`), in lower case."""
    fields: Mapping[str, Any] = {}
    """The plain values of the error object, such as `resets_at`."""
    is_page: bool = False
    """The body is a web page; no model server writes those."""
    is_cloudflare: bool = False


def read_words(body: bytes, headers: Mapping[str, str]) -> ServerWords:
    """What `body`, or its beginning, says."""
    start = body[:64].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith(b"<"):
        return _page_words(body.decode("utf-8", "replace"), headers)
    value = _decoded(body)
    words = ServerWords() if value is None else json_words(value)
    if words.text or words.codes or value in ({}, [], ""):
        return words
    return msgspec.structs.replace(words, text=one_line(body.decode("utf-8", "replace")))


def json_words(value: Any) -> ServerWords:
    """What a decoded body, or the error object of an event, says."""
    codes: set[str] = set()
    fields: dict[str, Any] = {}
    text = _sentence(value, codes, fields, 0)
    return ServerWords(text=one_line(text), codes=frozenset(codes), fields=fields)


def one_line(text: str) -> str:
    """Text of a server made harmless: one line, no terminal codes, nothing hidden, not too long."""
    shown = " ".join(readable(without_terminal_codes(text[:_READ_CHARS])).split())
    return shown if len(shown) <= SHOWN_CHARS else shown[:SHOWN_CHARS] + "…"


def model_names(listed: Any) -> tuple[str, ...]:
    """The models of a `GET /models` answer: `{"data":[{"id"}]}` as usual, `{"models":[{"slug"}]}` as in catalogues."""
    rows = (listed.get("data") or listed.get("models")) if isinstance(listed, dict) else None
    names: list[str] = []
    for row in rows[:_MAX_MODELS] if isinstance(rows, list) else ():
        name = next((row[key] for key in ("id", "slug", "name") if key in row), None) if isinstance(row, dict) else row
        if isinstance(name, str) and 0 < len(name) <= 100:
            names.append(one_line(name))
    return tuple(names)


# ---- JSON ------------------------------------------------------------------------------------------


def _decoded(body: bytes | str) -> Any:
    try:
        return decode_foreign(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _sentence(value: Any, codes: set[str], fields: dict[str, Any], depth: int) -> str:
    """The sentence inside `value`; what it is called and its plain values are noted on the way."""
    if depth > _MAX_DEPTH:
        return ""
    if isinstance(value, str):
        # Gateways wrap the answer of the server behind them, as text.
        inner = _decoded(value) if value.lstrip()[:1] in ("{", "[") else None
        return (_sentence(inner, codes, fields, depth + 1) if isinstance(inner, (dict, list)) else "") or value
    if isinstance(value, list):
        texts = [_sentence(entry, codes, fields, depth + 1) for entry in value[:_MAX_ENTRIES]]
        return "; ".join(filter(None, texts))
    if not isinstance(value, dict):
        return ""
    for name, entry in value.items():
        if isinstance(entry, (str, int, float)):
            fields[name] = entry
            if name in _CODE_KEYS and isinstance(entry, str) and " " not in entry and len(entry) <= 64:
                codes.add(entry.lower())
    error = value.get("error")
    has_object = isinstance(error, (dict, list))
    if has_object and (text := _sentence(error, codes, fields, depth + 1)):
        return text
    for name in _TEXT_KEYS:
        if has_object and name == "error":
            continue  # looked into above; twice at each depth would be very often
        if (text := _sentence(value.get(name), codes, fields, depth + 1)) and text != value.get("type"):
            return _with_place(value, text) + _behind(value, codes, depth)
    return ""


def _with_place(value: dict[str, Any], text: str) -> str:
    """`model: field required`, where a validator says which field it means."""
    place = value.get("loc")
    if not isinstance(place, list):
        return text
    names = [str(name) for name in place[:6] if name != "body" and isinstance(name, (str, int))]
    return f"{'.'.join(names)}: {text}" if names else text


def _behind(value: dict[str, Any], codes: set[str], depth: int) -> str:
    """What the server behind a gateway said, where the gateway passes it on."""
    metadata = value.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    text = _sentence(raw, codes, {}, depth + 1)
    return f" ({text})" if text else ""


# ---- pages -----------------------------------------------------------------------------------------


def _page_words(page: str, headers: Mapping[str, str]) -> ServerWords:
    from html import unescape  # only for pages, and only after a failure

    start, found = page[:_PAGE_CHARS], None
    for tag in ("title", "h1", "Message"):
        pattern = rf"<{tag}\b[^>]{{0,200}}>(.{{1,500}}?)</{tag}\s{{0,9}}>"
        if found := re.search(pattern, start, re.IGNORECASE | re.DOTALL):
            break
    text = unescape(re.sub(r"<[^>]{0,200}>", " ", found[1])) if found else ""
    # Not by the name alone: pages of others load scripts from there.
    is_theirs = "cloudflare" in headers.get("server", "").lower() or "cf-ray" in headers or "cf-error" in page
    return ServerWords(text=one_line(text), is_page=True, is_cloudflare=is_theirs)
