"""Fields of a record that any program may have written: a value of the wrong kind is treated as missing."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from spindle.context.cache import CacheEntry
from spindle.protocol.request import TokenUsage


def cache_entry_in(recorded: dict[str, Any] | None) -> CacheEntry | None:
    if recorded is None:
        return None
    try:
        return msgspec.convert(recorded, CacheEntry)
    except msgspec.ValidationError:
        return None  # written by a version with other words


def usage_in(given: Any) -> TokenUsage:
    try:
        return msgspec.convert(given or {}, TokenUsage)
    except msgspec.ValidationError:
        return TokenUsage()


def seconds_between(start: str, end: str) -> float | None:
    try:
        return max(0.0, (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds())
    except (ValueError, TypeError):
        return None


def as_list(value: Any) -> Any:
    return list(value.values()) if isinstance(value, dict) else value


def number_in(value: Any) -> int:
    return value if isinstance(value, int) else 0


def text_in(value: Any) -> str | None:
    return value if isinstance(value, str) else None
