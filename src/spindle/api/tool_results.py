"""What a Python function returned → what the model reads: text, JSON, pictures."""

from __future__ import annotations

import os
from typing import Any

import msgspec

from spindle.protocol.items import Part, encode_payload, without_surrogates
from spindle.tools.images import ImageError, load_image, read_image

Output = str | list[Part]
_NO_EYES = "[a picture, which this model cannot see]"


class Image:
    """A picture that a tool shows to the model.

    Return one, or a list of texts and pictures, from a function that is a tool.

    Args:
        source: the path of a PNG, JPEG, GIF or WebP file (relative to the folder the program runs in), or its bytes
    """

    __slots__ = ("source",)

    def __init__(self, source: str | os.PathLike[str] | bytes) -> None:
        if not isinstance(source, str | os.PathLike | bytes | bytearray | memoryview):
            raise TypeError(f"an Image is made of a path or of bytes, not of {type(source).__name__}")
        self.source: str | bytes = os.fspath(source) if isinstance(source, str | os.PathLike) else bytes(source)

    def __repr__(self) -> str:
        inside = repr(self.source) if isinstance(self.source, str) else f"<{len(self.source)} bytes>"
        return f"Image({inside})"


def model_output(value: Any, *, accepts_images: bool) -> Output:
    """Text as it is, None as nothing, pictures as parts, everything else as JSON. May read files."""
    if isinstance(value, str):
        return without_surrogates(str(value))
    if value is None:
        return ""
    if isinstance(value, Image):
        return [_part(value, accepts_images)]
    if isinstance(value, list | tuple) and any(isinstance(entry, Image) for entry in value):
        return [_part(entry, accepts_images) for entry in value]
    return _json(value)


def shown_text(output: Output) -> str:
    """The output for people: its texts, a line each; a picture is named, not shown."""
    if isinstance(output, str):
        return output
    return "\n".join(part.get("text", "[image]") for part in output)


def _part(entry: Any, accepts_images: bool) -> Part:
    if not isinstance(entry, Image):
        text = model_output(entry, accepts_images=accepts_images)
        assert isinstance(text, str)  # a list inside the list has become JSON
        return {"type": "input_text", "text": text}
    if not accepts_images:
        return {"type": "input_text", "text": _NO_EYES}
    source = entry.source
    try:
        loaded = read_image(source) if isinstance(source, str) else load_image(source, "an image of a tool")
    except ImageError as error:
        raise ImageError(f"{entry!r}: {error}") from error
    return {"type": "input_image", "image_url": loaded.url}


def _json(value: Any) -> str:
    try:
        return msgspec.json.encode(value, enc_hook=_plain).decode()
    except UnicodeEncodeError:
        return encode_payload(msgspec.to_builtins(value, enc_hook=_plain, str_keys=True)).decode()
    except RecursionError as error:
        raise ValueError("what it returned is nested too deep, or contains itself") from error


def _plain(value: Any) -> Any:
    """What msgspec does not know by itself, as something that it knows."""
    if isinstance(value, Image):
        raise TypeError("a picture can be returned by itself or in a list, not inside of other values")
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    dump = getattr(value, "model_dump", None)  # a model of pydantic's
    if callable(dump):
        return dump(mode="json")
    if isinstance(value, BaseException):
        return f"{type(value).__name__}: {value}"
    raise TypeError(f"what it returned has a value of type {type(value).__name__}, which cannot be written as JSON")
