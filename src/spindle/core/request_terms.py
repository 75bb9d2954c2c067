"""What requests are made from apart from the thread, as lines of its record: only what has changed since the last line.

The terms are a flat mapping from names to JSON. The list of tools is complete, because it is nowhere else in the
record; the base text is there only if it is not that of the thread's first line. `body.…` are the members of the body
that hold no part of the conversation, long ones as checksums, so that a difference can be named.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from spindle import __version__
from spindle.core.request_log import Made
from spindle.model.capabilities import Capabilities, default_capabilities
from spindle.model.provider import Provider
from spindle.model.sending import Sending
from spindle.protocol.items import decode_own, encode_json, encode_kept, encode_payload, json_reader
from spindle.protocol.settings import ThreadSettings
from spindle.thread.entry import Record
from spindle.thread.history import History
from spindle.thread.payloads import TERMS

BODY = "body."
_LONG_CHARS = 80
_DEPTH = 3

OF_SETTINGS = ("model", "effort", "summary", "verbosity", "service_tier")
"""What of a thread's settings shapes a request."""
_OF_PROVIDER = ("id", "name")


class TermsLine(msgspec.Struct, omit_defaults=True):
    """The payload of a line."""

    first: bool = False
    """A process begins: it has shown nobody anything yet."""
    set: dict[str, msgspec.Raw] = {}
    unset: list[str] = []
    masked: list[str] = []
    """Terms that hold a secret: they are not in the record."""


read_line = json_reader(TermsLine)


def applied(terms: dict[str, bytes], raw: bytes) -> dict[str, bytes]:
    """The terms after a line. Raises msgspec.DecodeError."""
    line = read_line(raw)
    gone = {*line.unset, *line.masked}
    new = {name: value for name, value in terms.items() if name not in gone}
    return new | {name: bytes(value) for name, value in line.set.items()}


def past(lines: Sequence[Record], thread_id: str) -> tuple[dict[str, bytes], int]:
    """The terms that a record has told, and how many requests of this very thread it holds."""
    terms: dict[str, bytes] = {}
    number = 0
    for line in lines:
        try:
            if line.kind == TERMS:
                terms = applied(terms, line.raw)
            elif terms.get("thread_id") == encode_payload(thread_id):
                number += 1
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass  # a damaged line, or one of another version: what it said is told again
    return terms, number


def change(
    old: dict[str, bytes], new: dict[str, bytes], mask: Callable[..., bytes] | None, *, is_first: bool
) -> bytes | None:
    """The line that leads from one to the other; None when nothing has changed."""
    changed = {name: value for name, value in new.items() if old.get(name) != value}
    unset = [name for name in old if name not in new]
    masked = [] if mask is None else [name for name, value in changed.items() if mask(value) != value]
    if not (is_first or changed or unset):
        return None
    given = {name: msgspec.Raw(value) for name, value in changed.items() if name not in masked}
    return encode_payload(TermsLine(is_first, given, unset, masked))


def terms_of(
    thread_id: str, made: Made, sending: Sending, history: History, before: dict[str, bytes]
) -> dict[str, bytes]:
    """The terms of a request. `before` are those of the request before it."""
    settings, provider, audience = made.settings, made.provider, made.audience
    named = {name: getattr(provider, name) for name in _OF_PROVIDER}
    shown_to = None if audience.origin is None else _filled(audience.origin)
    values: dict[str, Any] = {
        "version": __version__,
        "thread_id": thread_id,
        "settings": {name: value for name in OF_SETTINGS if (value := getattr(settings, name)) is not None},
        "traits": _filled(made.traits),
        "provider": named | {"base_url": provider.public_base_url},
        "shown_to": shown_to or {"wire": audience.wire},
        "wire": sending.wire.dialect,
        "base_url": sending.base_url,
        "capabilities": _filled(sending.capabilities, default_capabilities(sending.wire.name)),
        "drops_opaque": sending.drops_opaque,
        "schema": made.schema,
        "summary": made.summary and {"message": made.summary.message, "keeps_tools": made.summary.keeps_tools},
    }
    terms = {name: encode_kept(value) for name, value in values.items() if value not in (None, False, {})}
    terms["tools"] = made.tools
    mask, text = history.mask, history.base_instructions
    is_recorded = text is not None and encode_json(text) == made.instructions
    if not is_recorded or (mask is not None and mask(made.instructions) != made.instructions):
        terms["instructions"] = made.instructions
    if sending.kind == "question" and made.summary is None:
        return terms | outline(decode_own(sending.growth.head + sending.growth.rest))
    # Of what is asked once in a while, no outline is kept: that of the other requests goes on from here.
    return terms | {name: value for name, value in before.items() if name.startswith(BODY)}


def _filled(value: msgspec.Struct, usual: msgspec.Struct | None = None) -> dict[str, Any]:
    """The fields of a record that are not as usual."""
    if usual is None:
        defaults = {field.name: field.default for field in msgspec.structs.fields(value)}
    else:
        defaults = msgspec.structs.asdict(usual)
    given = {}
    for name, said in msgspec.structs.asdict(value).items():
        if said == defaults[name]:
            continue
        given[name] = _filled(said) if isinstance(said, msgspec.Struct) else said
    return given


def settings_in(terms: dict[str, Any]) -> ThreadSettings:
    return ThreadSettings(cwd="", model_provider=terms["provider"]["id"], **terms["settings"])


def provider_in(terms: dict[str, Any]) -> Provider:
    return Provider(**terms["provider"])


def capabilities_in(terms: dict[str, Any], wire: str) -> Capabilities:
    return msgspec.structs.replace(default_capabilities(wire), **terms.get("capabilities", {}))


# ---- bodies in outline ---------------------------------------------------------------------------------


def outline(body: dict[str, Any]) -> dict[str, bytes]:
    """A body without its conversation: each member as JSON, with checksums in the place of what is long."""
    return {BODY + name: encode_kept(_outlined(value, _DEPTH - 1)) for name, value in body.items()}


def _outlined(value: Any, depth: int) -> Any:
    if (isinstance(value, str) and len(value) <= _LONG_CHARS) or not isinstance(value, str | list | dict):
        return value
    if not depth or isinstance(value, str):
        from binascii import crc32  # with the first answer

        return f"crc32:{crc32(encode_payload(value)):08x}"
    if isinstance(value, list):
        return [_outlined(part, depth - 1) for part in value]
    return {name: _outlined(part, depth - 1) for name, part in value.items()}
