"""Numbers that servers of every dialect send."""

from __future__ import annotations

from typing import Any


def count(value: Any, name: str) -> int:
    """A count that makes sense, else 0; some servers write whole numbers as floats."""
    number = value.get(name) if isinstance(value, dict) else None
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    return number if isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 2**53 else 0
