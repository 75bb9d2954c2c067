"""An answer in one piece: some servers do not stream, whatever they are asked."""

from __future__ import annotations

import msgspec

from spindle.protocol.items import decode_foreign, encode_payload


def whole_answer(body: bytes) -> bytes | None:
    """The event stream that says the same; None if the body is something else, an error for instance."""
    try:
        answer = decode_foreign(body)
    except (msgspec.DecodeError, UnicodeError):
        return None
    if not isinstance(answer, dict) or not isinstance(answer.get("choices"), list):
        return None
    return b"data: %s\n\ndata: [DONE]\n\n" % encode_payload(answer)
