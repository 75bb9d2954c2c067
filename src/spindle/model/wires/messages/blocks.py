"""Items and their parts as content blocks of the Messages API: texts, pictures, calls and what they gave. Pure.

A block is JSON from the moment it is made: it is the unit that the prefix rule compares, and is never encoded again.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from spindle.model.wires.item_parts import NO_OUTPUT, call_arguments, call_name, picture_url, texts_of
from spindle.protocol.items import Item, encode_json, encode_payload

PICTURE_UNREADABLE = "[picture left out: it cannot be sent in this form]"

PICTURE_WEIGHT = 6400
"""What a picture counts for where the length of a conversation is estimated from its bytes."""

_MEDIA_TYPES = {
    "image/png": "image/png",
    "image/jpeg": "image/jpeg",
    "image/jpg": "image/jpeg",
    "image/gif": "image/gif",
    "image/webp": "image/webp",
}
_CACHE_MARK = b',"cache_control":{"type":"ephemeral"}}'


class Block(msgspec.Struct, frozen=True):
    """One content block and whose message it belongs to."""

    is_user: bool
    data: bytes
    """A JSON object."""
    kind: Literal["shown", "call", "thinking"] = "shown"
    weight: int = 0
    """How much it adds to the length of the conversation, in bytes of text."""


def marked(data: bytes) -> bytes:
    """The block as the last one that the server's cache is to hold."""
    return data[:-1] + _CACHE_MARK


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def user_block(block: dict[str, Any]) -> Block:
    data = encode_payload(block)
    return Block(True, data, weight=_weight(block, data))


def said_block(text: str) -> Block:
    data = encode_payload(text_block(text))
    return Block(False, data, weight=len(data))


def thinking_block(block: dict[str, Any]) -> Block:
    """Thinking, as the server sent it."""
    data = encode_payload(block)
    return Block(False, data, "thinking", len(data))


def call_block(item: Item, call_id: str) -> Block:
    """A call. Its arguments stand as the model wrote them, if they are an object."""
    arguments = call_arguments(item).encode()
    data = b'{"type":"tool_use","id":%s,"name":%s,"input":%s}' % (
        encode_json(call_id),
        encode_json(call_name(item)),
        arguments,
    )
    return Block(False, data, "call", len(data))


def result_block(output: Any, call_id: str, *, is_error: bool) -> Block:
    """What a call gave: a text as it is, parts as blocks."""
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": call_id}
    if isinstance(output, list):
        block["content"] = shown_blocks(output) or NO_OUTPUT
    else:
        text = output if isinstance(output, str) else encode_payload(output).decode()
        block["content"] = text if text.strip() else NO_OUTPUT
    if is_error:
        block["is_error"] = True
    return user_block(block)


def shown_blocks(content: Any) -> list[dict[str, Any]]:
    """A block for each part of a message, or of an output, that says anything; the server refuses blank ones."""
    blocks: list[dict[str, Any]] = []
    for part in content if isinstance(content, list) else [{"text": content}]:
        if isinstance(part, dict) and part.get("type") == "input_image":
            blocks.append(_picture(picture_url(part) or ""))
        else:
            blocks += map(text_block, texts_of([part]))
    return blocks


def _picture(url: str) -> dict[str, Any]:
    if url.startswith(("https://", "http://")):
        return {"type": "image", "source": {"type": "url", "url": url}}
    head, _, data = url.partition(",")
    kind, *parameters = head.removeprefix("data:").split(";")
    media_type = _MEDIA_TYPES.get(kind.strip().lower())
    if not head.startswith("data:") or media_type is None or "base64" not in parameters or not data:
        return text_block(PICTURE_UNREADABLE)
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


def _weight(block: dict[str, Any], data: bytes) -> int:
    held = block.get("content")
    parts = [block, *held] if isinstance(held, list) else [block]
    pictures = [part["source"] for part in parts if part["type"] == "image"]
    bare = len(data) - sum(len(source.get("data", "")) for source in pictures)
    return bare + PICTURE_WEIGHT * len(pictures)
