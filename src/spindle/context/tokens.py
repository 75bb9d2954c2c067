"""How many tokens something costs, estimated by size; the server's own count corrects the sum after each response.

No tokenizer: four bytes are a token, pictures cost a flat sum, encrypted reasoning counts by its hidden length.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from spindle.protocol.items import Item, decode_json, encode_json, is_user_input, json_reader

BYTES_PER_TOKEN = 4
IMAGE_TOKENS = 1_500
BASELINE_TOKENS = 12_000
"""What every request costs before anything is said; not counted when people are told how much is left."""
_ENVELOPE_BYTES = 650
_HIDING = ("reasoning", "compaction", "compaction_summary")
_OUTPUT, _OF_TEXT = b'{"type":"function_call_output",', b'"output":"'
_REASONING = b'{"type":"reasoning",'
_PEEK_BYTES = 128


def tokens_of_bytes(size: int) -> int:
    return -(-size // BYTES_PER_TOKEN)


def estimate_tokens(item: Item | bytes) -> int:
    """The estimate for one item, given as a mapping or as its JSON; any other JSON counts by its bytes."""
    if isinstance(item, bytes):
        # Most of a thread are these two: they are not searched for what can only be elsewhere.
        if item.startswith(_OUTPUT) and _OF_TEXT in item[:_PEEK_BYTES]:
            return tokens_of_bytes(len(item))
        if item.startswith(_REASONING) and (hidden := _hidden_in(item)) is not None:
            return _tokens_of_hidden(hidden)
        if b'"input_image"' not in item and b'"encrypted_content"' not in item:
            return tokens_of_bytes(len(item))
        decoded = decode_json(item, None)
        if not isinstance(decoded, dict):
            return tokens_of_bytes(len(item))
        item = decoded
    hidden = item.get("encrypted_content")
    if hidden is None and type(item.get("output")) is not list and type(item.get("content")) is not list:
        return tokens_of_bytes(len(encode_json(item)))
    if isinstance(hidden, str) and item.get("type") in _HIDING:
        return _tokens_of_hidden(hidden)
    if not isinstance(item.get("content"), list) and not isinstance(item.get("output"), list):
        return tokens_of_bytes(len(encode_json(item)))
    images = list(_image_urls(item))
    size = len(encode_json(item)) - sum(len(url) for url in images)
    return tokens_of_bytes(size) + IMAGE_TOKENS * len(images)


class _Hiding(msgspec.Struct, gc=False):
    """As much as must be read of an item to know how long what it hides is."""

    encrypted_content: str


_read_hiding = json_reader(_Hiding, is_walked=False)


def _hidden_in(raw: bytes) -> str | None:
    """What the JSON of an item hides; None where that takes a closer look."""
    try:
        return _read_hiding(raw).encrypted_content
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _tokens_of_hidden(hidden: str) -> int:
    return tokens_of_bytes(max(0, len(hidden) * 3 // 4 - _ENVELOPE_BYTES))


class ServerCount(msgspec.Struct, frozen=True, kw_only=True):
    """What the server's last response said about the size of a thread. The defaults mean: there was no response yet."""

    total_tokens: int = 0
    items: int = 0
    """How many of the thread's items, from its beginning, the total covers."""
    reasoning_included: bool = False
    """The total covers reasoning older than the last user message too. It does not unless the server says so."""


def context_tokens(items: Sequence[Item], counted: ServerCount, *, fixed_bytes: int = 0) -> int:
    """Tokens now in context: the last response's total, plus what the server could not know yet.

    `fixed_bytes` is the base text and the tools; they count only while no response has told us the real total.
    """
    total = counted.total_tokens + sum(map(estimate_tokens, items[counted.items :]))
    if counted.total_tokens == 0:
        return total + tokens_of_bytes(fixed_bytes)
    if not counted.reasoning_included:
        last_user = max((i for i, item in enumerate(items[: counted.items]) if is_user_input(item)), default=0)
        total += sum(estimate_tokens(item) for item in items[:last_user] if item.get("type") == "reasoning")
    return total


def percent_left(window_tokens: int, used_tokens: int) -> int:
    """How much of the window is left, 0…100, as people are shown it. `window_tokens` is the effective window."""
    room = window_tokens - BASELINE_TOKENS
    if room <= 0:
        return 0
    left = room - max(0, used_tokens - BASELINE_TOKENS)
    return max(0, min(100, (200 * left + room) // (2 * room)))


def _image_urls(item: Item) -> Iterable[str]:
    for field in ("content", "output"):
        parts = item.get(field)
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict) and part.get("type") == "input_image":
                url = part.get("image_url")
                yield url if isinstance(url, str) else ""
