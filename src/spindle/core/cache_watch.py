"""Watches how much of each request the provider had in its cache, and says why when it was less than it could be.

The ledger itself is `context.cache`; it is loaded with the first answer, so the first request does not wait for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spindle.protocol.clock import Clock
from spindle.protocol.request import Request, TokenUsage

if TYPE_CHECKING:
    from spindle.context.cache import CacheEntry, CacheLedger, Forecast

_WORTH_A_WORD_TOKENS = 20_000
"""Below this, what a break costs is nobody's concern."""


class CacheWatch:
    """One thread's requests in this process."""

    PAST = ("_ledger",)
    """What is packed while the thread rests (`core/resting.py`)."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ledger: CacheLedger | None = None
        self._declared: list[Any] = []
        self._answered: float | None = None
        self.resumed_from = ""
        """When an earlier process last wrote to the thread, as its record says."""

    def declare(self, cause: str) -> None:
        """The next request will not continue the one before it, for this reason."""
        self._declared.append(cause)

    def note(
        self, request: Request, usage: TokenUsage, *, is_side: bool = False, counts_cached: bool = True
    ) -> CacheEntry | None:
        """A request that was answered, and what its answer cost."""
        from spindle.context.cache import RequestParts  # with the first answer

        now = self._clock.monotonic()
        self.ledger.note_request(
            RequestParts.of(request),
            idle_s=None if self._answered is None else now - self._answered,
            declared=() if is_side else self._declared,
            is_side=is_side,
        )
        if not is_side:
            self._declared = []
        self._answered = now
        return self.ledger.note_usage(usage.input_tokens, usage.cached_input_tokens if counts_cached else None)

    def forecast_of(self, model: str | None = None, *, tools: bytes | None = None) -> Forecast | None:
        """What another model, or another list of tools, costs once; None when it is not worth a word."""
        if self._ledger is None:
            return None
        forecast = self._ledger.forecast(model=model, tools=tools)
        return forecast if forecast is not None and forecast.tokens >= _WORTH_A_WORD_TOKENS else None

    @property
    def is_begun(self) -> bool:
        """There is a request that the next one continues, or breaks with."""
        return self._answered is not None

    @property
    def is_cold(self) -> bool:
        """The next request finds nothing in the provider's cache anyway."""
        from spindle.context.cache import CACHE_LIFE_S  # only to weigh edits

        if self._answered is not None:
            idle_s = self._clock.monotonic() - self._answered
        else:
            idle_s = _age_s(self.resumed_from, self._clock.now())
        return idle_s is None or idle_s > CACHE_LIFE_S or bool(self._declared)

    @property
    def ledger(self) -> CacheLedger:
        if self._ledger is None:
            from spindle.context.cache import CacheLedger  # with the first answer

            self._ledger = CacheLedger()
        return self._ledger


def _age_s(timestamp: str, now: float) -> float | None:
    """How long ago something was recorded; None when that is not known."""
    from datetime import datetime  # only to weigh edits of a resumed thread

    try:
        return now - datetime.fromisoformat(timestamp).timestamp()
    except ValueError:
        return None
