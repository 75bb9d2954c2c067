"""When editing a thread pays: tokens saved on every later request against one request that misses the cache.

Pure arithmetic in the price of one fresh input token. Which edits are possible comes from `compress_by_rule`, whose
report has all the numbers; whether one is applied is the policy of the thread: never (append-only), whenever the rule
triggers (edit), or when `HybridPolicy` says that it pays. What a model's tokens cost is in the model catalogue.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from spindle.context.rule import EditOption, RuleReport
from spindle.protocol.request import Prices as Prices

Reason = Literal[
    "nothing_to_save", "cache_is_lost", "pays_off", "does_not_pay", "wait", "too_dear_so_far", "fell_behind"
]
LEAST_EXPECTED_REQUESTS = 5
MOST_LOSS = 0.044
"""How much dearer than one that is never edited a thread may become, at any time, as a share. A little below the
promise of 5 %, because token counts are estimates."""
SMALL_SHARE = 0.002
"""A miss of less than this share of all that was paid need not wait until it has paid for itself."""
SUMMARY_TOKENS = 1_500
"""About how long a summary is."""
_GUESSES = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
"""How much longer a thread may go on, as multiples of its length so far. Chosen by `bench/context_grid.py`."""


class TradeDecision(msgspec.Struct, frozen=True, kw_only=True):
    """Whether to edit now, and the arithmetic. Costs are in fresh (uncached) input tokens."""

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
    """Price of sending the rest uncached once: resent tokens that had been sent before · (1 − cached share)."""
    saving: float
    """What later requests would cost less, on average over the guesses; negative if a compaction comes too late."""
    carried: float
    """What it has cost to carry along the tokens that could have been cleared."""
    spent: float
    """What the input of this thread has cost in this session, this request included."""
    unedited: float
    """What it would have cost without any edit, compactions where they would have been due."""
    first_index: int | None = None
    """The first item that the rule is applied to; None when nothing is edited."""
    compact: bool = False
    """Without edits the thread would have been compacted by now, and that would have been cheaper."""
    prices: Prices = Prices()
    prices_from: str = "default"

    @property
    def gain(self) -> float:
        return self.saving - self.miss_cost

    def __str__(self) -> str:
        said = "compact" if self.compact else "edit" if self.edit else "no edit"
        return (
            f"{said} ({self.reason.replace('_', ' ')}): "
            f"{self.saved_tokens:,} tokens less in about {self.remaining_requests} requests save {self.saving:,.0f}, "
            f"{self.resent_tokens:,} tokens sent again cost {self.miss_cost:,.0f}; "
            f"spent {self.spent:,.0f}, without edits {self.unedited:,.0f}; "
            f"cached input at {self.cached_share:.3g} of the price ({self.prices_from})"
        )


class Outlook(msgspec.Struct, frozen=True, kw_only=True):
    """How a thread grows, and what happens when it is full. Tokens, base text and tools included."""

    used: int
    growth: float
    """Tokens that a request adds, on average."""
    limit: int | None
    """Where the thread is compacted; None = never."""
    after_compaction: int
    """What it then starts from."""
    head: int = 0
    """Base text and tools, which stay in the cache whatever is done to the rest."""


class _Weighed(msgspec.Struct, frozen=True, kw_only=True):
    """One possible edit in numbers."""

    option: EditOption
    reason: Reason
    miss: float = 0.0
    saving: float = 0.0
    carried: float = 0.0

    @property
    def is_good(self) -> bool:
        return self.reason in ("pays_off", "cache_is_lost")


class _Case(msgspec.Struct, kw_only=True):
    """What one decision is about."""

    outlook: Outlook
    guesses: tuple[int, ...]
    fresh: int
    """Tokens that this request is the first to send."""
    price: float
    """What it costs without an edit."""
    is_known: bool
    """The number of remaining requests was given; it is no guess."""
    unchanged: list[float] = []
    """What lies ahead without an edit, by guess; worked out when first asked for."""


class HybridPolicy:
    """Decides request by request, and keeps books of what the thread has cost and what it would have without edits.

    Nobody knows how long a thread goes on, so three things must hold for an edit. It pays on average over several
    guesses. If it pays slowly, carrying the tokens along has cost as much as the miss will: a wrong guess then costs no
    more than had been spent anyway. And if the thread ended right after it, all of it would be at most `MOST_LOSS`
    dearer than without any edit. Of the edits that are possible, from the newest output to all of them, the best such
    one is taken; so a thread for which the whole edit is too dear can still keep up in small steps.

    A shorter thread is compacted later, and that can be the dearer way in the end. When the books say so, the decision
    is to compact, never before append-only would have.
    """

    def __init__(self, prices: Prices | None = None, prices_from: str = "default") -> None:
        self.use(prices or Prices(), prices_from)
        self.spent = 0.0
        self.unedited = 0.0
        self._used: int | None = None
        """What the last request held."""
        self._unedited_used = 0
        self._compactions_ahead = 0
        """How often a thread without edits would have been compacted more than this one was."""
        self._expected_after = self._head = 0

    def use(self, prices: Prices, prices_from: str) -> None:
        """From now on tokens cost this; another model may have taken over."""
        self.prices, self.prices_from = prices, prices_from
        self._share = prices.cached_share
        self._summary_cost = SUMMARY_TOKENS * prices.output_share

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

        `remaining_requests`, if given, is the only thing that counts; else the thread is expected to go on as long
        as it did so far, give or take. `cache_is_lost`: the model changes, or the cache's life is over.
        """
        used = report.tokens_before if outlook is None else outlook.used
        if outlook is None:
            outlook = Outlook(used=used, growth=0.0, limit=None, after_compaction=used)
        fresh = max(0, used if self._used is None else used - self._used)
        # Booked before anything is weighed, once for each request: what an edit may cost is a share of these sums.
        price = self._book(outlook, fresh, cache_is_lost)
        guesses = expected_requests(requests_done) if remaining_requests is None else (max(1, remaining_requests),)
        is_known = remaining_requests is not None
        case = _Case(outlook=outlook, guesses=guesses, fresh=fresh, price=price, is_known=is_known)
        weighed = self._best(report, case, cache_is_lost)
        price += weighed.miss if weighed.is_good else 0.0
        saved = weighed.option.saved_tokens if weighed.is_good else 0
        # What an edit saves in this very request: the whole price of its tokens if they were to be sent fresh.
        price -= saved * (1.0 if cache_is_lost else self._share)
        compact = not is_known and self._fell_behind(outlook, used - saved, price)
        self.spent += price
        # The books assume that the caller does what is decided here; a compaction is corrected by `note_compacted`.
        self._used = used - saved
        return TradeDecision(
            edit=weighed.is_good and not compact,
            reason="fell_behind" if compact else weighed.reason,
            saved_tokens=weighed.option.saved_tokens,
            resent_tokens=weighed.option.resent_tokens,
            remaining_requests=guesses[len(guesses) // 2],
            cached_share=self._share,
            miss_cost=weighed.miss,
            saving=weighed.saving,
            carried=weighed.carried,
            spent=self.spent,
            unedited=self.unedited,
            first_index=weighed.option.first_index if weighed.is_good and not compact else None,
            compact=compact,
            prices=self.prices,
            prices_from=self.prices_from,
        )

    def note_resumed(self, used: int, input_tokens: int, cached_tokens: int) -> None:
        """An earlier process made the requests so far: the last one held `used` tokens, and this is what all of them
        cost."""
        self._used = self._unedited_used = used
        self.spent = self.unedited = input_tokens - cached_tokens * (1 - self._share)

    def note_compacted(self, used: int) -> None:
        """The thread was compacted just now, and holds `used` tokens."""
        self.spent += self._compaction_cost(used, self._head)
        if self._compactions_ahead > 0:
            # The books of the unedited thread assumed another size when they did the same.
            self.unedited += used - self._expected_after
            self._unedited_used += used - self._expected_after
        self._compactions_ahead -= 1
        self._used = used

    # ---- the books -------------------------------------------------------------------------------

    def _book(self, outlook: Outlook, fresh: int, is_cold: bool) -> float:
        """Book this request for the unedited thread, and give what it costs ours as it stands."""
        # The unedited thread grew by as much as ours did, from a length of its own.
        self._unedited_used = max(0, self._unedited_used + outlook.used - (self._used or 0))
        self.unedited += self._price(self._unedited_used, fresh, is_cold)
        if outlook.limit is not None and self._unedited_used >= outlook.limit:
            self.unedited += self._compaction_cost(outlook.after_compaction, outlook.head)
            self._unedited_used = self._expected_after = outlook.after_compaction
            self._compactions_ahead += 1
        self._head = outlook.head
        return self._price(outlook.used, fresh, is_cold)

    def _price(self, used: int, fresh: int, is_cold: bool) -> float:
        share = self._share
        return used if is_cold else used * share + fresh * (1 - share)

    def _compaction_cost(self, after: int, head: int) -> float:
        """The summary, and the first request after it, which finds base text and tools in the cache."""
        return self._summary_cost + after - min(head, after) * (1 - self._share)

    def _fell_behind(self, outlook: Outlook, used: int, price: float) -> bool:
        """An unedited thread would have been compacted, ours was not, and later that would lose too much to it."""
        # A thread hardly longer than a compaction leaves it has nothing to gain by one.
        if self._compactions_ahead <= 0 or used <= 2 * outlook.after_compaction:
            return False
        compaction = self._compaction_cost(outlook.after_compaction, outlook.head)
        return self.spent + price + compaction > (1 + MOST_LOSS) * self.unedited

    # ---- weighing --------------------------------------------------------------------------------

    def _best(self, report: RuleReport, case: _Case, cache_is_lost: bool) -> _Weighed:
        """The edit that gains most of those that may be made; if there is none, the largest and why not."""
        if not report.applied:
            return _Weighed(option=EditOption(0, 0, 0, 0), reason="nothing_to_save")
        if cache_is_lost:
            option = report.options[-1]
            # With a cold cache, the next request pays the full price for whatever it holds.
            saving = self._saving(option, case) + option.saved_tokens * (1 - self._share)
            carried = option.carried_tokens * self._share
            return _Weighed(option=option, reason="cache_is_lost", saving=saving, carried=carried)
        weighed = [self._weigh(option, case) for option in report.options]
        good = [one for one in weighed if one.is_good]
        return max(good, key=lambda one: one.saving - one.miss) if good else weighed[-1]

    def _weigh(self, option: EditOption, case: _Case) -> _Weighed:
        share, saved, outlook = self._share, option.saved_tokens, case.outlook
        # What this request is the first to send is paid in full with or without the edit: no part of the miss.
        miss = max(0, option.resent_tokens - case.fresh) * (1 - share)
        carried = option.carried_tokens * share
        if not case.is_known:
            # Two rules against a wrong guess. The first waits until carrying the tokens has cost as much as the miss
            # will: whenever the thread then ends, about twice the best price was paid for them at most.
            enough = max(carried, saved * share, SMALL_SHARE * self.unedited)
            if outlook.limit is not None and outlook.used - saved < outlook.limit <= outlook.used:
                # Without the edit the thread is compacted now.
                enough += self._compaction_cost(outlook.after_compaction, outlook.head)
            if miss > enough:
                return _Weighed(option=option, reason="wait", miss=miss, carried=carried)
            # The second looks at the thread as if it ended with this request: the promise holds at every moment.
            if self.spent + case.price + miss - saved * share > (1 + MOST_LOSS) * self.unedited:
                return _Weighed(option=option, reason="too_dear_so_far", miss=miss, carried=carried)
        saving = self._saving(option, case)
        reason: Reason = "pays_off" if saving > miss else "does_not_pay"
        return _Weighed(option=option, reason=reason, miss=miss, saving=saving, carried=carried)

    def _saving(self, option: EditOption, case: _Case) -> float:
        """What later requests cost less, on average over the guesses about how many there will be."""
        outlook, guesses = case.outlook, case.guesses
        if outlook.limit is None:
            return option.saved_tokens * self._share * sum(guesses) / len(guesses)
        if not case.unchanged:
            case.unchanged = [self._cost_ahead(outlook, outlook.used, requests) for requests in guesses]
        used = outlook.used - option.saved_tokens
        return (sum(case.unchanged) - sum(self._cost_ahead(outlook, used, requests) for requests in guesses)) / len(
            guesses
        )

    def _cost_ahead(self, outlook: Outlook, used: float, requests: int) -> float:
        """What is paid again and again for what a thread holds, the compactions on the way included."""
        # Step by step from compaction to compaction, so that a thousand requests cost a few rounds of arithmetic.
        # Fresh tokens are left out: each is paid in full once, edited or not, and the difference is all that counts.
        limit, growth, share = outlook.limit or 0, outlook.growth, self._share
        cost, left = 0.0, requests
        while left > 0:
            room = max(0.0, limit - used)
            steps = left if room else 0
            if growth > 0:
                steps = min(left, int(-(-room // growth)))
            cost += share * (steps * used + growth * steps * (steps - 1) / 2)
            used += growth * steps
            left -= steps
            if left > 0:
                cost += used * share + self._summary_cost + outlook.after_compaction * (1 - share)
                used = float(outlook.after_compaction)
                if used >= limit:
                    break  # a compaction that leaves the thread full would be followed by another, without end
        return cost


def expected_requests(done: int) -> tuple[int, ...]:
    """Guesses about how many requests a thread that made `done` will still make, from few to many."""
    return tuple(max(LEAST_EXPECTED_REQUESTS, int(done * share)) for share in _GUESSES)
