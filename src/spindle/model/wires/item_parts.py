"""What every wire but Responses needs of an item: its texts and pictures, and the name and arguments of a call.

Items may come from records that anybody wrote, so nothing is taken for granted but that an item is a mapping.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from spindle.model.wires.functions import FREE_TEXT, free_text_arguments
from spindle.protocol.items import MAX_FOREIGN_DEPTH, Item, decode_json, encode_payload

NO_OUTPUT = "(no output)"
"""Stands for an output without any text: servers refuse empty ones."""
CONTINUED = "(continued)"
"""What a person is taken to have said where a conversation has to begin with a person, and none spoke."""
CONTINUE = "(continue)"
"""The same where it has to end with one."""

_NAME_MAX_CHARS = 64
_NO_NAME = "unknown_tool"


def developer_block(text: str) -> str:
    """A later word of the developer's, for servers that know developers only at the beginning, or not at all."""
    return f"<developer>\n{text}\n</developer>"


def texts_of(content: Any) -> list[str]:
    """The texts of a message or an output, whatever they are called, without blank ones."""
    parts = [{"text": content}] if isinstance(content, str) else content if isinstance(content, list) else ()
    texts = (part.get("text", part.get("refusal")) for part in parts if isinstance(part, dict))
    return [text for text in texts if isinstance(text, str) and text.strip()]


def picture_url(part: Any) -> str | None:
    """The address of a picture, which is the picture itself in a `data:` URL; None for any other part."""
    if not isinstance(part, dict) or part.get("type") != "input_image":
        return None
    url = part.get("image_url")
    if isinstance(url, dict):
        url = url.get("url")
    return url if isinstance(url, str) and url else None


def pictures_of(content: Any) -> list[str]:
    """The addresses of all pictures in a message or an output."""
    found = (picture_url(part) for part in content) if isinstance(content, list) else ()
    return [url for url in found if url is not None]


def reasoning_text(item: Item) -> str:
    """The readable text of a reasoning item: what the model thought or, where it is kept to itself, the summary."""
    return "\n\n".join(texts_of(item.get("content")) or texts_of(item.get("summary")))


def call_name(call: Item) -> str:
    """The name of the tool that was called, as every server takes it."""
    if call.get("type") == "local_shell_call":
        return "shell"
    name, server = call.get("name"), call.get("namespace")
    name = name if isinstance(name, str) else ""
    if isinstance(server, str) and server.rstrip("_"):
        name = f"{server.rstrip('_')}__{name}"
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:_NAME_MAX_CHARS] or _NO_NAME


def call_arguments(call: Item) -> str:
    """The arguments of a call of any kind, as the text of a JSON object.

    Servers refuse anything else, or crash on it; what is no such text becomes a member of one.
    """
    match call.get("type"):
        case "custom_tool_call":
            text = call.get(FREE_TEXT)
            return free_text_arguments(text if isinstance(text, str) else "")
        case "local_shell_call":
            return _shell_arguments(call.get("action"))
        case _:
            given = call.get("arguments")
            raw = given if isinstance(given, str) else encode_payload(given).decode()
            return raw if _is_object(raw) else encode_payload({"invalid_arguments": raw}).decode()


def _shell_arguments(action: Any) -> str:
    """A local shell call's action, in the words of the `shell` tool."""
    action = action if isinstance(action, dict) else {}
    given = {
        "command": action.get("command"),
        "workdir": action.get("working_directory"),
        "timeout_ms": action.get("timeout_ms"),
    }
    return encode_payload({name: value for name, value in given.items() if value is not None}).decode()


def _is_object(text: str) -> bool:
    try:
        return isinstance(decode_json(text, MAX_FOREIGN_DEPTH), dict)
    except (msgspec.DecodeError, UnicodeError):
        return False
