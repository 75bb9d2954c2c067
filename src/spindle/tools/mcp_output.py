"""What an MCP server answered, for the model and for people. The answer is hostile input: any part may be anything."""

from __future__ import annotations

from typing import Any

from spindle.protocol.items import Part, encode_payload
from spindle.protocol.quote import readable, reveal, without_terminal_codes

IMAGE_MAX_CHARS = 28_000_000
EVENT_MAX_BYTES = 1024 * 1024
_IMAGE_KINDS = ("image/png", "image/jpeg", "image/gif", "image/webp")


def model_output(result: dict[str, Any], seconds: float, *, accepts_images: bool) -> str | list[Part]:
    """Structured content as JSON; else text as text; with a picture a list of parts; else the JSON of all of it."""
    structured = result.get("structuredContent")
    if structured is not None:
        return visible_json(structured)
    content = result.get("content")
    blocks = content if isinstance(content, list) else []
    texts = [_text_of(block) for block in blocks]
    if all(text is not None for text in texts):
        joined = "\n".join(text for text in texts if text is not None)
        return f"Wall time: {seconds:.4f} seconds\nOutput:\n{_plain(joined)}"
    if any(_is_image(block) for block in blocks):
        return [_part(block, accepts_images) for block in blocks]
    return visible_json(blocks)


def shown_result(result: dict[str, Any]) -> dict[str, Any]:
    """The answer as events carry it: as it came, unless it is too long for that."""
    if len(encode_payload(result)) <= EVENT_MAX_BYTES:
        return result
    output = model_output(result, 0.0, accepts_images=False)
    text = output if isinstance(output, str) else "\n".join(part.get("text", "") for part in output)
    cut = text.encode("utf-8", "replace")[:EVENT_MAX_BYTES].decode("utf-8", "ignore")
    return {"content": [{"type": "text", "text": f"{cut}…"}], "isError": result.get("isError") is True}


def _text_of(block: Any) -> str | None:
    if isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str):
        return block["text"]
    return None


def _is_image(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "image" and isinstance(block.get("data"), str)


def _part(block: Any, accepts_images: bool) -> Part:
    text = _text_of(block)
    if text is not None:
        return {"type": "input_text", "text": _plain(text)}
    if not _is_image(block):
        return {"type": "input_text", "text": visible_json(block)}
    kind, data = block.get("mimeType"), block["data"]
    if not accepts_images:
        return {"type": "input_text", "text": "[a picture, which this model cannot see]"}
    if kind not in _IMAGE_KINDS or len(data) > IMAGE_MAX_CHARS or not _is_base64(data):
        return {"type": "input_text", "text": "[a picture that cannot be shown]"}
    return {"type": "input_image", "image_url": f"data:{kind};base64,{data}"}


def _is_base64(data: str) -> bool:
    return data.isascii() and data.rstrip("=").replace("+", "0").replace("/", "0").isalnum()


def _plain(text: str) -> str:
    """Without colours, and with what could not be seen as escapes. Line ends stay: it may be a file."""
    return reveal(without_terminal_codes(text))[0]


def visible_json(value: Any) -> str:
    """JSON that means the same, with what could not be seen in it as escapes."""
    return readable(encode_payload(value).decode(), mark=_escaped)


def _escaped(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
