"""Token counts as Chat Completions servers give them."""

from __future__ import annotations

from typing import Any

from spindle.model.wires.counts import count
from spindle.protocol.request import TokenUsage


def read_usage(usage: Any) -> TokenUsage | None:
    """Missing details are 0, a missing total is the sum; None if the server did not count."""
    if not isinstance(usage, dict):
        return None
    inputs, outputs = count(usage, "prompt_tokens"), count(usage, "completion_tokens")
    of_input, of_output = usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")
    return TokenUsage(
        input_tokens=inputs,
        cached_input_tokens=count(of_input, "cached_tokens") or count(usage, "prompt_cache_hit_tokens"),
        cache_write_input_tokens=count(of_input, "cache_write_tokens"),
        output_tokens=outputs,
        reasoning_output_tokens=count(of_output, "reasoning_tokens"),
        total_tokens=count(usage, "total_tokens") or inputs + outputs,
    )


def counts_cached(usage: Any) -> bool:
    """Whether the server says how much of the input it had in its cache."""
    if not isinstance(usage, dict):
        return True  # nothing is counted at all
    details = usage.get("prompt_tokens_details")
    told = details.get("cached_tokens") if isinstance(details, dict) else None
    return told is not None or usage.get("prompt_cache_hit_tokens") is not None
