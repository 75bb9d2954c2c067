"""The one seam through which time, ids and randomness enter. Everything else is deterministic."""

from __future__ import annotations

import os
import time
from functools import lru_cache
from typing import Protocol


class Clock(Protocol):
    """Wall time, monotonic time, identifiers and randomness."""

    def now(self) -> float:
        """Unix seconds. For records only; never for timers."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back. For timers and durations."""
        ...

    def uuid7(self) -> str: ...

    def random(self) -> float:
        """A number in [0, 1)."""
        ...


class SystemClock:
    """The real clock and the kernel's randomness."""

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)

    def uuid7(self) -> str:
        return format_uuid7(int(time.time() * 1000), os.urandom(10))

    def random(self) -> float:
        return int.from_bytes(os.urandom(7), "big") / (1 << 56)


class FixedClock:
    """A clock that moves only when told to, and counts instead of rolling dice. For tests and golden files."""

    def __init__(self, start: float = 1_800_000_000.0) -> None:
        self.time = start
        self._count = 0

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    def advance(self, seconds: float) -> None:
        self.time += seconds

    def uuid7(self) -> str:
        self._count += 1
        return format_uuid7(int(self.time * 1000), self._count.to_bytes(10, "big"))

    def random(self) -> float:
        self._count += 1
        return (self._count * 0.618033988749895) % 1.0


def format_uuid7(unix_ms: int, entropy: bytes) -> str:
    """A version-7 UUID: 48 bits of milliseconds, then the 74 usable bits of `entropy` (10 bytes)."""
    number = (unix_ms & ((1 << 48) - 1)) << 80 | int.from_bytes(entropy, "big")
    number = number & ~(0xF << 76) | 0x7 << 76
    number = number & ~(0x3 << 62) | 0x2 << 62
    text = f"{number:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def iso_utc(unix_s: float) -> str:
    """`2026-11-15T18:16:43.951Z`, as rollout lines carry it."""
    return f"{_whole_second(int(unix_s // 1))}.{int(unix_s * 1000) % 1000:03d}Z"


@lru_cache(maxsize=2)
def _whole_second(unix_s: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(unix_s))
