"""Pictures as a model takes them: files become data URLs, a person's input becomes message parts.

Small pictures of the usual kinds pass unchanged, judged by their headers; only larger or rarer ones need Pillow.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from spindle.errors import SpindleError
from spindle.protocol.items import Part
from spindle.protocol.origin import defused_name
from spindle.protocol.quote import visible

MAX_WIDTH, MAX_HEIGHT = 2048, 768
MAX_FILE_BYTES = 32 * 1024 * 1024
MAX_PIXELS = 80_000_000
"""Above it a picture is refused rather than unpacked."""
MAX_UNSCALED_BYTES = 8 * 1024 * 1024
"""How large a picture may be that should be scaled down but cannot."""


class ImageError(SpindleError):
    """A file cannot be shown to the model as a picture."""


class LoadedImage(msgspec.Struct, frozen=True):
    """A data URL, and what a person should know about it."""

    url: str
    warning: str | None = None


class InputParts(msgspec.Struct, frozen=True):
    """The content of a user message, and what could not become part of it."""

    parts: list[Part]
    warnings: list[str]


# ---- a person's input --------------------------------------------------------------------------------


def input_parts(
    items: Sequence[Mapping[str, Any]], cwd: str, may_read: Callable[[str], bool] = lambda path: True
) -> InputParts:
    """Message parts for input items, in their order. Skills and mentions add nothing by themselves.

    `may_read`: what commands may read; a link to anything else could be the agent's.
    """
    parts: list[Part] = []
    warnings: list[str] = []
    local_images = 0
    for item in items:
        match item:
            case {"type": "text", "text": str(text)}:
                parts.append(_text_part(text))
            case {"type": "image", "image_url": str(url)} | {"type": "image", "url": str(url)}:
                parts += _wrapped("<image>", url)
            case {"type": "local_image", "path": str(path)}:
                local_images += 1
                parts += _local_image(_absolute(path, cwd), local_images, warnings, may_read)
            case {"type": "skill" | "mention"}:
                pass
            case {"type": str(kind)}:
                warnings.append(f"an input item of type {kind!r} cannot be used and was left out")
            case _:
                warnings.append("an input item without a type was left out")
    return InputParts(parts, warnings)


def _local_image(path: str, number: int, warnings: list[str], may_read: Callable[[str], bool]) -> list[Part]:
    try:
        true = os.path.realpath(path)
        if true != path and not may_read(true):
            raise ImageError("it is a link to a file that may not be read, say the sandbox settings")
        image = read_image(true, is_true=True)
    except ImageError as error:
        warnings.append(f"the image {path} could not be attached: {error}")
        return [_text_part(f"The image at `{defused_name(visible(path))}` could not be attached: {error}")]
    if image.warning:
        warnings.append(image.warning)
    return _wrapped(f"<image name=[Image #{number}]>", image.url)


def _wrapped(opening: str, url: str) -> list[Part]:
    return [_text_part(opening), {"type": "input_image", "image_url": url}, _text_part("</image>")]


def _text_part(text: str) -> Part:
    return {"type": "input_text", "text": text}


def _absolute(path: str, cwd: str) -> str:
    return path if os.path.isabs(path) else os.path.normpath(f"{cwd}/{path}")


# ---- one file ----------------------------------------------------------------------------------------


def read_image(path: str, *, is_true: bool = False) -> LoadedImage:
    """The file as a data URL, scaled down if it is larger than a model looks at.

    `is_true`: it is a path without links that was judged already; a link that was put there since is not followed.
    """
    return load_image(_read_file(path, is_true=is_true), path)


def load_image(data: bytes, name: str) -> LoadedImage:
    """The same for bytes; `name` is what a person would call them."""
    if len(data) > MAX_FILE_BYTES:
        raise ImageError(f"it is larger than {MAX_FILE_BYTES // (1024 * 1024)} MiB")
    header = read_header(data)
    if header is None:
        return LoadedImage(_data_url("image/png", _convert(data, "PNG")))
    mime, width, height = header
    if width <= 0 or height <= 0:
        raise ImageError("it is damaged")
    if width <= MAX_WIDTH and height <= MAX_HEIGHT:
        return LoadedImage(_data_url(mime, data))
    if width * height > MAX_PIXELS:
        raise ImageError(f"it has {width}×{height} pixels, which is too many")
    keeps_jpeg = mime == "image/jpeg"
    try:
        smaller = _convert(data, "JPEG" if keeps_jpeg else "PNG")
    except PillowMissing:
        if len(data) > MAX_UNSCALED_BYTES:
            raise ImageError(f"it has {len(data)} bytes and cannot be scaled down without Pillow") from None
        warning = f"{name} was sent in full size because Pillow is not installed; install spindle-agent[images]"
        return LoadedImage(_data_url(mime, data), warning)
    return LoadedImage(_data_url("image/jpeg" if keeps_jpeg else "image/png", smaller))


def check_image(path: str) -> None:
    """Raise ImageError unless the file is a picture, as far as its header shows; only a rare kind is read in full."""
    data = _read_file(path)
    header = read_header(data)
    if header is None:
        try:
            _convert(data, "PNG")
        except PillowMissing:
            raise ImageError("it is no picture, or of a rare kind that only Pillow reads, which is missing") from None
        except ImageError as error:
            raise ImageError("it is no picture") from error
        return
    _, width, height = header
    if width <= 0 or height <= 0:
        raise ImageError("it is damaged")
    if width * height > MAX_PIXELS:
        raise ImageError(f"it has {width}×{height} pixels, which is too many")


def _read_file(path: str, *, is_true: bool = False) -> bytes:
    from spindle.tools.safe_files import read_file  # only turns with a picture need it

    try:
        # Opening a pipe would wait for a writer, and a device may never end.
        if os.path.exists(path) and not os.path.isfile(path):
            raise ImageError("it is not a file")
        data = read_file(path if is_true else os.path.realpath(path), MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        raise ImageError(getattr(error, "strerror", None) or str(error)) from error
    if not data:
        raise ImageError("it is empty")
    if len(data) > MAX_FILE_BYTES:
        raise ImageError(f"it is larger than {MAX_FILE_BYTES // (1024 * 1024)} MiB")
    return data


def _data_url(mime: str, data: bytes) -> str:
    from base64 import b64encode  # only turns with a picture need it

    return f"data:{mime};base64,{b64encode(data).decode()}"


class PillowMissing(ImageError):
    """The picture needs Pillow, which is not installed."""


def _convert(data: bytes, kind: str) -> bytes:
    """The picture, upright, no larger than a model looks at, as PNG or JPEG."""
    try:
        from PIL import Image, ImageOps  # optional, and heavy: only unusual or large pictures need it
    except ImportError:
        raise PillowMissing("it is not a PNG, JPEG, GIF or WebP image, and Pillow is not installed") from None
    from io import BytesIO  # with the same pictures

    try:
        with Image.open(BytesIO(data)) as source:
            if source.width * source.height > MAX_PIXELS:
                raise ImageError(f"it has {source.width}×{source.height} pixels, which is too many")
            picture = ImageOps.exif_transpose(source)
            picture.thumbnail((MAX_WIDTH, MAX_HEIGHT))
            if kind == "JPEG" or picture.mode not in ("1", "L", "LA", "P", "RGB", "RGBA"):
                picture = picture.convert("RGB")
            out = BytesIO()
            picture.save(out, kind)
            return out.getvalue()
    except ImageError:
        raise
    except Exception as error:  # decoders of many formats raise many kinds; each means: no picture we can show
        raise ImageError(f"it is not a readable image ({type(error).__name__})") from error


# ---- headers -----------------------------------------------------------------------------------------


def read_header(data: bytes) -> tuple[str, int, int] | None:
    """(MIME type, width, height) of a PNG, JPEG, GIF or WebP file; (type, 0, 0) if damaged; None for other data."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        whole = data[12:16] == b"IHDR" and b"IEND" in data
        return ("image/png", *_two(data, 16, 4, "big")) if whole else ("image/png", 0, 0)
    if data.startswith((b"GIF87a", b"GIF89a")):
        return ("image/gif", *_two(data, 6, 2, "little"))
    if data.startswith(b"\xff\xd8\xff"):
        return ("image/jpeg", *_jpeg_size(data))
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        is_cut = len(data) < 8 + int.from_bytes(data[4:8], "little")
        return ("image/webp", 0, 0) if is_cut else ("image/webp", *_webp_size(data))
    return None


def _two(data: bytes, at: int, size: int, order: Any) -> tuple[int, int]:
    """Two neighbouring numbers; zero where the data ends."""
    if len(data) < at + 2 * size:
        return 0, 0
    return int.from_bytes(data[at : at + size], order), int.from_bytes(data[at + size : at + 2 * size], order)


def _jpeg_size(data: bytes) -> tuple[int, int]:
    at = 2
    while at + 9 < len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:  # fill byte
            at += 1
            continue
        # Start-of-frame markers, less the tables that share their range.
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = _two(data, at + 5, 2, "big")
            return width, height
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return 0, 0


def _webp_size(data: bytes) -> tuple[int, int]:
    kind = data[12:16]
    if kind == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        width, height = _two(data, 26, 2, "little")
        return width & 0x3FFF, height & 0x3FFF
    if kind == b"VP8L" and len(data) >= 25 and data[20] == 0x2F:
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8X" and len(data) >= 30:
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    return 0, 0
