"""Parts of items as content blocks of the Messages API: texts, pictures, calls and what they gave. Pure.

A block is JSON from the moment it is made: it is the unit that the prefix rule compares, and is never encoded again.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from spindle.protocol.items import Item, decode_foreign, encode_json, encode_payload

NO_OUTPUT = "(no output)"
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
_NAME_CHARS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
_NAME_MAX_CHARS = 64

_CACHE_MARK = b',"cache_control":{"type":"ephemeral"}}'


class Block(msgspec.Struct, frozen=True):
    """One content block and whose message it belongs to."""

    is_user: bool
    data: bytes
    """A JSON object."""
    kind: Literal["shown", "call", "thinking"] = "shown"
    weight: int = 0
    """How much it adds to the length of the conversation, in bytes of text."""


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
    data = b'{"type":"tool_use","id":%s,"name":%s,"input":%s}' % (
        encode_json(call_id),
        encode_json(called_name(item)),
        _arguments(item),
    )
    return Block(False, data, "call", len(data))


def marked(data: bytes) -> bytes:
    """The block as the last one that the server's cache is to hold."""
    return data[:-1] + _CACHE_MARK


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def texts_of(content: Any) -> list[str]:
    """The texts of a message that say anything; the server refuses empty ones."""
    return [text for text in map(_text_of, _parts(content)) if text is not None]


def shown_blocks(content: Any) -> list[dict[str, Any]]:
    """A block for each part of a message, or of an output, that has something to show."""
    blocks: list[dict[str, Any]] = []
    for part in _parts(content):
        if isinstance(part, dict) and part.get("type") == "input_image":
            blocks.append(_picture(part.get("image_url")))
        elif (text := _text_of(part)) is not None:
            blocks.append(text_block(text))
    return blocks


def tool_result(output: Any, call_id: str, *, is_error: bool) -> dict[str, Any]:
    """What a call gave: a text as it is, parts as blocks."""
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": call_id}
    if isinstance(output, list):
        block["content"] = shown_blocks(output) or NO_OUTPUT
    else:
        text = output if isinstance(output, str) else encode_payload(output).decode()
        block["content"] = text if text.strip() else NO_OUTPUT
    if is_error:
        block["is_error"] = True
    return block


def sendable_name(name: Any) -> str:
    """The name of a tool as servers take it: models make names up, and those are in the record too."""
    given = name if isinstance(name, str) else ""
    clean = "".join(char if char in _NAME_CHARS else "_" for char in given[:_NAME_MAX_CHARS])
    return clean or "unknown"


def called_name(item: Item) -> str:
    """The tool that an item calls, under the name that is sent."""
    return "shell" if item.get("type") == "local_shell_call" else sendable_name(item.get("name"))


def _arguments(item: Item) -> bytes:
    match item.get("type"):
        case "custom_tool_call":
            return encode_payload({"input": item.get("input", "")})
        case "local_shell_call":
            return encode_payload(_shell_arguments(item.get("action")))
        case _:
            return _object(item.get("arguments"))


def _object(arguments: Any) -> bytes:
    """The text of a JSON object as it is; anything else wrapped in one, because a server would refuse it."""
    if not isinstance(arguments, str):
        return encode_payload(arguments if isinstance(arguments, dict) else {"invalid_arguments": arguments})
    try:
        raw = arguments.encode()
        if isinstance(decode_foreign(raw), dict):
            return raw
    except (msgspec.DecodeError, UnicodeError):
        pass
    return encode_payload({"invalid_arguments": arguments})


def _shell_arguments(action: Any) -> dict[str, Any]:
    given = action if isinstance(action, dict) else {}
    named = {"command": given.get("command"), "workdir": given.get("working_directory")}
    named["timeout_ms"] = given.get("timeout_ms")
    return {name: value for name, value in named.items() if value is not None}


def _parts(content: Any) -> list[Any]:
    if isinstance(content, str):
        return [{"text": content}]
    return content if isinstance(content, list) else []


def _text_of(part: Any) -> str | None:
    if not isinstance(part, dict):
        return None
    text = part.get("text", part.get("refusal"))
    return text if isinstance(text, str) and text.strip() else None


def _picture(url: Any) -> dict[str, Any]:
    if isinstance(url, dict):
        url = url.get("url")
    if not isinstance(url, str):
        return text_block(PICTURE_UNREADABLE)
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
