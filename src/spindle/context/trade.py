"""When editing a thread pays: tokens saved on every later request against one request that misses the cache.

Pure arithmetic in the price of one input token. Which edit is possible comes from `compress_by_rule`, whose report has
all the numbers; who applies it decides by the policy of the thread: never (append-only), whenever the rule triggers
(edit), or when `HybridPolicy` says that it pays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from spindle.context.rule import RuleReport
from spindle.errors import ConfigError

Reason = Literal["nothing_to_save", "cache_is_lost", "pays_off", "does_not_pay", "wait"]
LEAST_EXPECTED_REQUESTS = 5
QUICK_REQUESTS = 6
"""An edit that pays within so many requests need not wait."""
_GUESSES = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0)
"""How much longer a thread goes on, in its length so far. Chosen by `bench/context_cost.py`."""


class Prices(msgspec.Struct, frozen=True):
    """What input costs, in any unit: only the ratio counts for a decision."""

    input: float = 1.0
    cached_input: float = 0.1

    def __post_init__(self) -> None:
        if not 0 <= self.cached_input <= self.input:
            raise ConfigError("a price of cached input must be between 0 and the price of input")

    @property
    def cached_share(self) -> float:
        """A cached token in the price of an uncached one."""
        return self.cached_input / self.input if self.input else 1.0


PRICES: Mapping[str, Prices] = {
    "gpt-5": Prices(1.0, 0.1),
    "gpt-4.1": Prices(1.0, 0.25),
    "gpt-4o": Prices(1.0, 0.5),
    "o3": Prices(1.0, 0.25),
    "o4-mini": Prices(1.0, 0.25),
    "codex-mini": Prices(1.0, 0.25),
}
"""Cache discounts by the beginning of a model's name. Any other model counts as one that asks a tenth."""


class TradeDecision(msgspec.Struct, frozen=True, kw_only=True):
    """Whether to edit now, and the arithmetic. Costs are in uncached input tokens."""

    edit: bool
    reason: Reason
    saved_tokens: int
    """What the thread would be shorter by."""
    resent_tokens: int
    """What stands behind the first change, stays, and is charged in full once."""
    remaining_requests: int
    """The middle of the guesses about how many requests will come."""
    cached_share: float
    miss_cost: float
    """Price of sending the rest uncached once: resent tokens · (1 − cached share)."""
    saving: float
    """What later requests would cost less, on average over the guesses; negative if a compaction comes too late."""
    carried: float
    """What the tokens that could have gone have cost since the last edit."""

    @property
    def gain(self) -> float:
        return self.saving - self.miss_cost

    def __str__(self) -> str:
        return (
            f"{'edit' if self.edit else 'no edit'} ({self.reason.replace('_', ' ')}): "
            f"{self.saved_tokens:,} tokens less in about {self.remaining_requests} requests save {self.saving:,.0f}, "
            f"{self.resent_tokens:,} tokens sent again cost {self.miss_cost:,.0f}"
        )


class Outlook(msgspec.Struct, frozen=True, kw_only=True):
    """How a thread grows, and what happens when it is full. Tokens, base text and tools included."""

    used: int
    growth: float
    """Tokens that a request adds, on average."""
    limit: int
    """Where the thread is compacted."""
    after_compaction: int
    """What it then starts from."""
    compaction_cost: float = 12_000.0
    """The summary itself, in uncached input tokens: output is dearer than input."""


class HybridPolicy:
    """Decides request by request. Keeps what the tokens that could go have cost so far.

    An edit must pay on average over several guesses about how long the thread will go on. If it pays only slowly, it
    waits until carrying the tokens along has cost as much as the miss will: a guess that proves wrong then costs no
    more than what had been spent anyway, and many small edits become few large ones.

    With an `Outlook`, compaction counts too: a shorter thread is compacted later, and that can be the dearer way.
    """

    def __init__(self, prices: Prices | None = None) -> None:
        self.prices = prices or Prices()
        self.carried = 0.0

    def decide(
        self,
        report: RuleReport,
        *,
        requests_done: int,
        remaining_requests: int | None = None,
        outlook: Outlook | None = None,
        cache_is_lost: bool = False,
    ) -> TradeDecision:
        """Called once for each request that is about to be made; `report` is what the rule would do now.

        `remaining_requests` is for who knows; else the thread is expected to go on as long as it did so far, give or
        take. `cache_is_lost`: the model changes, the thread was compacted, or the cache's life is over.
        """
        share = self.prices.cached_share
        saved = report.tokens_before - report.tokens_after
        resent = report.tokens_after - report.prefix_tokens if report.applied else 0
        miss = 0.0 if cache_is_lost else resent * (1 - share)
        guesses = expected_requests(requests_done) if remaining_requests is None else (max(1, remaining_requests),)
        saving = sum(_saving(saved, requests, share, outlook) for requests in guesses) / len(guesses)
        if cache_is_lost:
            # With a cold cache, the next request pays the full price for whatever it holds.
            saving += saved * (1 - share)
        carried = self.carried + saved * share
        reason: Reason
        if not report.applied:
            reason = "nothing_to_save"
        elif cache_is_lost:
            reason = "cache_is_lost"
        elif saving <= miss:
            reason = "does_not_pay"
        else:
            reason = "pays_off" if miss <= max(carried, QUICK_REQUESTS * saved * share) else "wait"
        decision = TradeDecision(
            edit=reason in ("cache_is_lost", "pays_off"),
            reason=reason,
            saved_tokens=saved,
            resent_tokens=resent,
            remaining_requests=guesses[len(guesses) // 2],
            cached_share=share,
            miss_cost=miss,
            saving=saving,
            carried=carried,
        )
        self.carried = 0.0 if decision.edit else carried
        return decision


def expected_requests(done: int) -> tuple[int, ...]:
    """Guesses about how many requests a thread that made `done` will still make, from few to many."""
    return tuple(max(LEAST_EXPECTED_REQUESTS, int(done * share)) for share in _GUESSES)


def _saving(saved: int, requests: int, share: float, outlook: Outlook | None) -> float:
    """What so many requests cost less if the thread is `saved` tokens shorter from now on and stays in the cache."""
    if outlook is None:
        return saved * requests * share
    shorter = _cost_ahead(outlook, outlook.used - saved, requests, share)
    return _cost_ahead(outlook, outlook.used, requests, share) - shorter


def _cost_ahead(outlook: Outlook, used: float, requests: int, share: float) -> float:
    """What is paid again and again for what a thread holds, the compactions on the way included."""
    cost, left = 0.0, requests
    while left > 0:
        room = max(0.0, outlook.limit - used)
        steps = left if room else 0
        if outlook.growth > 0:
            steps = min(left, int(-(-room // outlook.growth)))
        cost += share * (steps * used + outlook.growth * steps * (steps - 1) / 2)
        used += outlook.growth * steps
        left -= steps
        if left > 0:
            cost += used * share + outlook.compaction_cost + outlook.after_compaction * (1 - share)
            used = float(outlook.after_compaction)
            if used >= outlook.limit:
                break
    return cost


def prices_of(model: str, overrides: Mapping[str, Any] | None = None) -> Prices:
    """The prices of a model, from `overrides` (a catalogue's or the user's) or the table, by the longest fitting name.

    An override is a `Prices` or a mapping with `input` and `cached_input`. Raises ConfigError for one that is neither.
    """
    for table in (overrides or {}, PRICES):
        fitting = [name for name in table if model.startswith(name)]
        if fitting:
            return _as_prices(max(fitting, key=len), table)
    return Prices()


def _as_prices(name: str, table: Mapping[str, Any]) -> Prices:
    given = table[name]
    if isinstance(given, Prices):
        return given
    try:
        return msgspec.convert(given, Prices)
    except msgspec.ValidationError as error:
        raise ConfigError(f"the prices of {name!r} cannot be used: {error}") from error
