"""What a program may say to a thread: texts, pictures, skills, mentions → input items of protocol v1."""

from __future__ import annotations

import os
from binascii import a2b_base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spindle.tools.images import ImageError, check_image, load_image

Items = list[dict[str, Any]]
_SIGNS = {"skill": "$", "mention": "@"}
"""What people type before the name of one."""


@dataclass(frozen=True, slots=True)
class TextInput:
    """A text."""

    text: str


@dataclass(frozen=True, slots=True)
class ImageInput:
    """A picture by its address: `https:` or `data:`."""

    url: str


@dataclass(frozen=True, slots=True)
class LocalImageInput:
    """A picture by its file."""

    path: str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class SkillInput:
    """A skill to use, by its name and the path of its SKILL.md."""

    name: str
    path: str


@dataclass(frozen=True, slots=True)
class MentionInput:
    """Something that the text mentions, by name and path."""

    name: str
    path: str


InputItem = TextInput | ImageInput | LocalImageInput | SkillInput | MentionInput | Mapping[str, Any]
"""One part of an input; a mapping has a `type` (text, image, local_image, skill, mention) and the same fields."""
Input = str | InputItem | Sequence[str | InputItem]
"""What a turn is started or steered with."""
ImageSource = str | os.PathLike[str] | bytes
"""A picture: a path, a `data:` or `https:` URL, or the bytes of a file."""


def input_items(given: Input, images: Sequence[ImageSource] | None = None) -> Items:
    """The input as protocol v1 has it, pictures before the text. Raises ValueError for what cannot be one."""
    parts: list[Any] = [given]
    if isinstance(given, Sequence) and not isinstance(given, str | bytes | bytearray | Mapping):
        parts = list(given)
    if isinstance(images, str | bytes | os.PathLike) or not isinstance(images, Sequence | None):
        raise ValueError(f"images is a list of pictures, not {type(images).__name__}")
    items = [_image(image) for image in images or ()]
    items += [_item(part) for part in parts]
    if not any(item["type"] != "text" or item["text"].strip() for item in items):
        raise ValueError("the input is empty")
    if all(item["type"] in _SIGNS for item in items):
        # A message needs words: the ones a person would have typed.
        said = " ".join(_SIGNS[item["type"]] + item["name"] for item in items)
        items.append({"type": "text", "text": said})
    return items


def _item(part: Any) -> dict[str, Any]:
    match part:
        case str(text) | TextInput(text=str(text)):
            return {"type": "text", "text": text}
        case ImageInput(url=str(url)):
            return _address(url)
        case LocalImageInput(path=path):
            return _local_image(path)
        case SkillInput(name=str(name), path=str() | os.PathLike() as path):
            return {"type": "skill", "name": name, "path": os.fspath(path)}
        case MentionInput(name=str(name), path=str() | os.PathLike() as path):
            return {"type": "mention", "name": name, "path": os.fspath(path)}
        case {"type": "text", "text": str(text)}:
            return {**part}
        case {"type": "image", "image_url": str(url)} | {"type": "image", "url": str(url)}:
            return _address(url)
        case {"type": "local_image" | "localImage", "path": path}:
            return _local_image(path)
        case {"type": "skill" | "mention" as kind, "name": str(name), "path": str() | os.PathLike() as path}:
            return {"type": kind, "name": name, "path": os.fspath(path)}
        case Mapping():
            raise ValueError(
                f"an input item of type {part.get('type')!r} with the fields {', '.join(map(str, part))} cannot be "
                "used; there are text, image, local_image, skill and mention"
            )
        case TextInput() | ImageInput() | SkillInput() | MentionInput():
            raise ValueError(f"the input item {part!r} cannot be used: its fields are texts")
        case _:
            raise ValueError(f"input is text, an input item or a list of them, not {type(part).__name__}")


def _image(image: Any) -> dict[str, Any]:
    if isinstance(image, bytes | bytearray | memoryview):
        try:
            return {"type": "image", "image_url": load_image(bytes(image), "a picture").url}
        except ImageError as error:
            raise ValueError(f"images: the picture given as bytes cannot be used: {error}") from error
    if isinstance(image, str) and image.startswith(("data:", "http:", "https:")):
        return _address(image)
    if isinstance(image, str | os.PathLike):
        return _local_image(image)
    raise ValueError(f"images: a picture is a path, a data: URL or bytes, not {type(image).__name__}")


def _address(url: str) -> dict[str, Any]:
    """A picture by its address. One that no server could take would spoil every later request of the thread."""
    head, comma, data = url.partition(",")
    if head.startswith("data:"):
        try:
            is_usable = head.startswith("data:image/") and head.endswith(";base64") and a2b_base64(data) != b""
        except ValueError:
            is_usable = False
    else:
        is_usable = url.startswith(("https://", "http://"))
    if not is_usable:
        shown = head[:60] + ("…" if comma or len(head) > 60 else "")
        raise ValueError(f"the picture {shown!r} cannot be used: its address is neither https: nor a data: URL of one")
    return {"type": "image", "image_url": url}


def _local_image(path: Any) -> dict[str, Any]:
    try:
        name = os.path.abspath(os.fspath(path))
        check_image(name)
    except TypeError as error:
        raise ValueError(f"the path of a picture is text, not {type(path).__name__}") from error
    except (ImageError, ValueError) as error:
        raise ValueError(f"the picture {os.fspath(path)!r} cannot be used: {error}") from error
    return {"type": "local_image", "path": name}
