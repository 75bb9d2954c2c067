"""`[spindle.sandbox]` → `Fence`: how commands are confined, beside the mode."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from spindle.errors import ConfigError
from spindle.policy.sandbox import Fence

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def build_fence(table: Mapping[str, Any]) -> Fence:
    """The table's values, already checked for their kinds."""
    fence = Fence()
    for name, value in table.items():
        match name:
            case "protected":
                value = tuple(_below_a_root(entry) for entry in value)
            case "deny_read":
                value = tuple(os.path.expanduser(entry) for entry in value)
            case "unix_sockets":
                value = tuple(os.path.realpath(entry) for entry in value)
            case "memory_max":
                value = size_in_bytes("sandbox.memory_max", value)
            case _:
                pass
        if name in Fence.__struct_fields__ and name not in ("hidden", "shown"):
            fence = msgspec.structs.replace(fence, **{name: value})
    return fence


def _below_a_root(path: str) -> str:
    clean = os.path.normpath(path)
    if os.path.isabs(clean) or clean.split("/")[0] in ("..", "."):
        raise ConfigError(
            f"spindle.sandbox.protected: {path!r} must be a relative path; it is protected below every writable folder"
        )
    return clean


def size_in_bytes(key: str, size: int | str) -> int:
    """What `spindle.KEY` gives as a number, or as text with a unit."""
    if isinstance(size, int):
        return size
    number, unit = size.strip(), ""
    if number.upper().endswith("B"):
        number = number[:-1]
    if number.upper().endswith("I"):
        number = number[:-1]
    if number and not number[-1].isdigit():
        number, unit = number[:-1].strip(), number[-1].upper()
    if not number.isascii() or not number.isdigit() or unit not in _UNITS:
        raise ConfigError(f'spindle.{key}: {size!r} is not a size; write for example 2147483648 or "2G"')
    return int(number) * _UNITS[unit]
