"""What a program may not put into a message, whatever the message is about. For the doors that programs come in by."""

from __future__ import annotations

import re
from typing import Any

FREE_TEXT = frozenset(
    {
        *("text", "text_elements", "instructions", "base_instructions", "developer_instructions", "user_instructions"),
        *("items", "input", "objective", "final_output_json_schema", "output_schema", "dynamic_tools"),
        *("response", "content", "content_items", "arguments", "decision"),
    }
)
"""Members that hold words for a model or a person, and only that: a NUL in them does no harm. In `items` and `input`
the strings that are words are those named `text` and `content`; their paths and addresses are looked at."""

_WALKED = frozenset(("items", "input"))
_UPPER = re.compile("[A-Z]")
_ID = re.compile(rb'"id"\s*:\s*(?:(-?\d{1,18})|"([^"\\]{0,256})")\s*[,}]')


def field_with_nul(message: dict[str, Any]) -> str | None:
    """The first member with a NUL character where the system would take it for the end of a name or a path."""
    return _search(message, "")


def _search(value: Any, path: str) -> str | None:
    match value:
        case str():
            return path if "\0" in value else None
        case dict():
            for name, entry in value.items():
                here = f"{path}.{name}" if path else str(name)
                if "\0" in name:
                    return here.replace("\0", "")
                word = _UPPER.sub(lambda found: "_" + found[0].lower(), name)
                if word in FREE_TEXT and not (word in _WALKED and isinstance(entry, list)):
                    continue
                if (found := _search(entry, here)) is not None:
                    return found
            return None
        case list():
            return next(
                (found for n, entry in enumerate(value) if (found := _search(entry, f"{path}[{n}]")) is not None), None
            )
        case _:
            return None


def peek_id(line: bytes) -> str | int | None:
    """The id of a message that cannot be read, where it stands at the front: its sender waits for an answer."""
    found = _ID.search(line[:512])
    if found is None or line.count(b"{", 0, found.start()) + line.count(b"[", 0, found.start()) != 1:
        return None
    return int(found[1]) if found[1] is not None else found[2].decode("utf-8", "replace")
