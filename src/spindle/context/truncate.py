"""Cutting tool output to what a model wants to see: the head and the tail stay, a marker says what is missing.

A limit is in bytes or in tokens of four bytes. Which text surrounds a cut output is the tools' business.
"""

from __future__ import annotations

import msgspec

from spindle.protocol.items import Part

BYTES_PER_TOKEN = 4
DEFAULT_LIMIT = 10_000


class Truncation(msgspec.Struct, frozen=True):
    """How much of a tool's output a model is shown."""

    mode: str = "bytes"
    """"bytes" or "tokens"; a token is four bytes."""
    limit: int = DEFAULT_LIMIT

    @property
    def byte_limit(self) -> int:
        return _byte_budget(self.mode, self.limit)


def truncate_text(text: str, mode: str, limit: int) -> tuple[str, bool]:
    """`text` within `limit`, and whether anything was cut. `mode` is "bytes" or "tokens"."""
    budget = _byte_budget(mode, limit)
    # A character is at most four bytes, so most texts need not be encoded to know that they fit.
    if len(text) * 4 <= budget:
        return text, False
    data = text.encode()
    if len(data) <= budget:
        return text, False
    head_end, tail_start = _borders(data, budget)
    if mode == "tokens":
        marker = f"…{_tokens(len(data) - budget)} tokens truncated…"
    else:
        marker = f"…{len(data[head_end:tail_start].decode())} chars truncated…"
    return data[:head_end].decode() + marker + data[tail_start:].decode(), True


def truncate_output_parts(parts: list[Part], mode: str, limit: int) -> tuple[list[Part], bool]:
    """A list output within `limit`: text parts share the budget in order, pictures are never cut."""
    kept: list[Part] = []
    left, omitted, cut = limit, 0, False
    for part in parts:
        # Records may be damaged: what is no part stays as it is.
        text = part.get("text") if isinstance(part, dict) else None  # pyright: ignore[reportUnnecessaryIsInstance]
        if not isinstance(text, str):
            kept.append(part)
            continue
        if left <= 0:
            omitted += 1
            continue
        size = len(text.encode())
        cost = _tokens(size) if mode == "tokens" else size
        if cost <= left:
            kept.append(part)
            left -= cost
            continue
        kept.append({**part, "text": truncate_text(text, mode, left)[0]})
        left, cut = 0, True
    if omitted:
        kept.append({"type": "input_text", "text": f"[omitted {omitted} text items ...]"})
    return kept, cut or omitted > 0


def truncate_output(output: str | list[Part], mode: str, limit: int) -> str | list[Part]:
    """A tool's output of either kind within `limit`; the same object if it fits."""
    if isinstance(output, str):
        return truncate_text(output, mode, limit)[0]
    parts, cut = truncate_output_parts(output, mode, limit)
    return parts if cut else output


def recorded_limit(limit: int) -> int:
    """What the history takes of any output, whatever its tool did: 1.2 times the model's limit."""
    return -(-limit * 6 // 5)


def _byte_budget(mode: str, limit: int) -> int:
    return max(0, limit) * (BYTES_PER_TOKEN if mode == "tokens" else 1)


def _tokens(size: int) -> int:
    return -(-size // BYTES_PER_TOKEN)


def _borders(data: bytes, budget: int) -> tuple[int, int]:
    """Where the head ends and the tail starts; both give way to whole characters."""
    head_end = budget // 2
    tail_start = len(data) - (budget - head_end)
    while head_end > 0 and _continues(data, head_end):
        head_end -= 1
    while tail_start < len(data) and _continues(data, tail_start):
        tail_start += 1
    return head_end, tail_start


def _continues(data: bytes, index: int) -> bool:
    """True if the byte at `index` is inside a character."""
    return data[index] & 0xC0 == 0x80
