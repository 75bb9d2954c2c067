"""What a thread costs: tokens, money, and how much of the context window is left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from spindle.protocol.request import TokenUsage

BASELINE_TOKENS = 12_000
"""Instructions and tools: they are in every request, and do not count as used context."""

Cost = Callable[[TokenUsage], float | None]


class Spending:
    """The figures of one thread, as the session last told them."""

    def __init__(self, cost: Cost | None) -> None:
        self._cost = cost
        self.total = TokenUsage()
        """Of the thread so far."""
        self.last = TokenUsage()
        """Of the last response: what is in the context now."""
        self.window: int | None = None
        self.rate_limits: dict[str, Any] | None = None
        self._before = self.total
        """At the beginning of the turn."""

    def begin_turn(self, window: int | None) -> None:
        self.window = window or self.window
        self._before = self.total

    def count(self, info: dict[str, Any] | None, rate_limits: dict[str, Any] | None) -> None:
        self.rate_limits = rate_limits or self.rate_limits
        if info is not None:
            self.total = _usage(info.get("total_token_usage")) or self.total
            self.last = _usage(info.get("last_token_usage")) or self.last
            self.window = info.get("model_context_window") or self.window

    @property
    def of_turn(self) -> TokenUsage:
        spent = {
            name: max(0, getattr(self.total, name) - getattr(self._before, name))
            for name in TokenUsage.__struct_fields__
            if name != "estimated"
        }
        return TokenUsage(**spent, estimated=self.total.estimated)

    def cost_of(self, usage: TokenUsage) -> float | None:
        """Dollars; None when nothing was spent, or prices are not known."""
        return self._cost(usage) if self._cost is not None and usage.total_tokens else None

    @property
    def context_left(self) -> int | None:
        """Percent of the window; None when its size is not known."""
        if self.window is None:
            return None
        room = self.window - BASELINE_TOKENS
        if room <= 0:
            return 0
        used = max(0, self.last.total_tokens - BASELINE_TOKENS)
        return max(0, min(100, round(100 * (room - used) / room)))


def _usage(told: Any) -> TokenUsage | None:
    try:
        return msgspec.convert(told, TokenUsage)
    except msgspec.ValidationError:
        return None
