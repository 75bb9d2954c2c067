"""Token counts of the Messages API as ours."""

from __future__ import annotations

from typing import Any

from spindle.model.wires.counts import count
from spindle.protocol.request import TokenUsage


def read_usage(given: dict[str, Any]) -> TokenUsage | None:
    """What an answer cost; None where the server counted nothing. Its `input_tokens` are those outside of the cache."""
    if not any(name in given for name in ("input_tokens", "output_tokens")):
        return None
    read, written = count(given, "cache_read_input_tokens"), count(given, "cache_creation_input_tokens")
    inputs, outputs = count(given, "input_tokens") + read + written, count(given, "output_tokens")
    return TokenUsage(
        input_tokens=inputs,
        cached_input_tokens=read,
        cache_write_input_tokens=written,
        output_tokens=outputs,
        reasoning_output_tokens=count(given.get("output_tokens_details"), "thinking_tokens"),
        total_tokens=inputs + outputs,
    )


def counts_cached(given: dict[str, Any]) -> bool:
    """Whether the server says how much of the input it had in its cache."""
    return not given or "cache_read_input_tokens" in given
