"""The content of a prompt as an editor sends it → the input of a turn. Pure."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote, urlsplit

from spindle.frontends.json_rpc import INVALID_PARAMS, RpcError
from spindle.protocol.origin import defused
from spindle.protocol.quote import visible

_MAX_CHARACTERS = 8 << 20
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


def input_of(blocks: list[dict[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
    """What the person wrote, mentions included, and what was attached to it, as items of an input."""
    text = last = ""
    attached: list[dict[str, Any]] = []
    for block in blocks:
        match block.get("type"):
            case "text":
                text = _followed(text, _text(block, "text"), after=last)
            case "resource_link":
                text = _joined(text, defused(visible(path_of(_text(block, "uri")))))
            case "image":
                attached.append(_image(block))
            case "resource":
                attached.append(_resource(block.get("resource")))
            case kind:
                raise RpcError(f"a prompt cannot hold content of type {str(kind)[:100]!r}", INVALID_PARAMS)
        last = str(block.get("type"))
    if len(text) > _MAX_CHARACTERS:
        raise RpcError(f"the prompt is longer than {_MAX_CHARACTERS >> 20} million characters", INVALID_PARAMS)
    if not text.strip() and not attached:
        raise RpcError("the prompt is empty", INVALID_PARAMS)
    return text, attached


def items_of(text: str, attached: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Pictures and files first, then what is to be done with them."""
    return [*attached, {"type": "text", "text": text}] if text else attached


def path_of(uri: str) -> str:
    """The path of a file, and any other address as it is."""
    parts = urlsplit(uri)
    return unquote(parts.path) if parts.scheme == "file" else uri


def _joined(text: str, word: str) -> str:
    return f"{text} {word}" if text and not text[-1].isspace() and text[-1] not in "([{'\"`@" else text + word


def _followed(text: str, more: str, *, after: str) -> str:
    """Two texts are two paragraphs; words behind a mention do not run into it."""
    if after == "text" and text[-1:].strip() and more[:1].strip():
        return f"{text}\n{more}"
    return f"{text} {more}" if after == "resource_link" and more[:1].isalnum() else text + more


def _text(block: dict[str, Any], name: str) -> str:
    found = block.get(name)
    if not isinstance(found, str):
        raise RpcError(f"content of type {block.get('type')!r} needs `{name}`", INVALID_PARAMS)
    if "\0" in found:
        raise RpcError(f"`{name}` of the prompt holds a NUL character", INVALID_PARAMS)
    return found


def _image(block: dict[str, Any]) -> dict[str, Any]:
    data, kind = _text(block, "data"), _text(block, "mimeType")
    if not kind.startswith("image/") or _BASE64.fullmatch(data) is None:
        # A server would refuse it, and with it every later request of the thread.
        raise RpcError(
            f"an image needs `data` in base64 and a `mimeType` like image/png, not {kind[:100]!r}", INVALID_PARAMS
        )
    return {"type": "image", "image_url": f"data:{kind};base64,{data}"}


def _resource(resource: Any) -> dict[str, Any]:
    """A file that the editor sends along; its words are not the person's."""
    about = resource if isinstance(resource, dict) else {}
    name = path_of(_text({"type": "resource", **about}, "uri"))
    if isinstance(text := about.get("text"), str):
        return {"type": "text", "text": f"Content of {defused(visible(name))}:\n{defused(text)}\n\n"}
    kind, blob = about.get("mimeType"), about.get("blob")
    if isinstance(blob, str) and isinstance(kind, str) and kind.startswith("image/") and _BASE64.fullmatch(blob):
        return {"type": "image", "image_url": f"data:{kind};base64,{blob}"}
    return {"type": "text", "text": f"(The file {defused(visible(name))} was attached; it is not text.)\n\n"}
