"""An answer in one piece: some servers do not stream, whatever they are asked. It is made into the stream that says the
same, so that there is one reader of answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from spindle.protocol.items import decode_foreign, encode_payload

Json = dict[str, Any]


def whole_answer(wire: str, body: bytes) -> bytes | None:
    """The event stream that says the same; None if the body is something else, an error for instance."""
    try:
        answer = decode_foreign(body)
    except (msgspec.DecodeError, UnicodeError):
        return None
    if not isinstance(answer, dict):
        return None
    parts = answer.get({"chat": "choices", "messages": "content"}.get(wire, "output"))
    if not isinstance(parts, list):
        return None
    events = {"chat": _chat, "messages": _messages}.get(wire, _responses)(answer, parts)
    return b"".join(b"data: %s\n\n" % encode_payload(event) for event in events) + b"data: [DONE]\n\n"


def _chat(answer: Json, choices: list[Any]) -> Iterator[Json]:
    yield answer


def _messages(answer: Json, blocks: list[Any]) -> Iterator[Json]:
    yield {"type": "message_start", "message": {**answer, "content": []}}
    for index, block in enumerate(blocks):
        yield {"type": "content_block_start", "index": index, "content_block": block}
    stop = {name: answer.get(name) for name in ("stop_reason", "stop_details")}
    yield {"type": "message_delta", "delta": stop, "usage": answer.get("usage")}
    yield {"type": "message_stop"}


def _responses(answer: Json, items: list[Any]) -> Iterator[Json]:
    for item in items:
        yield {"type": "response.output_item.done", "item": item}
    status = answer.get("status")
    yield {"type": f"response.{status if status in ('failed', 'incomplete') else 'completed'}", "response": answer}
