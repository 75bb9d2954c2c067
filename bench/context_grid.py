"""What made-up tasks cost under the three context policies, after each of their requests: many settings, quickly.

    python bench/context_grid.py [--all]

Threads are lists of sizes here, not of items; the decisions are the real ones. A task that was followed to its 300th
call has also been every shorter task, the one that ends right after an edit among them. `context_cost.py` does the same
with real items and the real rule, and a test holds the two together.
"""

from __future__ import annotations

import itertools
import random
import sys
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

from spindle.context.rule import EditOption, RuleReport
from spindle.context.trade import SUMMARY_TOKENS, HybridPolicy, Outlook
from spindle.protocol.request import Prices

HEAD_TOKENS = 9_000
"""Base text and tools."""
AFTER_COMPACTION = HEAD_TOKENS + SUMMARY_TOKENS + 80
PLACEHOLDER_TOKENS = 30
Trigger = tuple[str, int]
Step = tuple[int, int]
"""Tokens of a response, and of what its call prints."""


class SizedThread:
    """A thread as sizes, and a server that charges for it. The rule clears all outputs but the newest `keep`."""

    def __init__(self, prices: Prices, keep: int, trigger: Trigger, limit: int) -> None:
        self.prices, self.keep, self.trigger, self.limit = prices, keep, trigger, limit
        self.cost = 0.0
        self.used = HEAD_TOKENS + 20
        self.edits = self.compactions = 0
        self._cached = 0
        self._begin()

    def _begin(self) -> None:
        self._said: list[int] = []
        self._printed: list[int] = []
        self._waiting: list[int] = []
        """The outputs that could be cleared."""

    def append(self, step: Step) -> None:
        self._said.append(step[0])
        self._printed.append(step[1])
        self.used += sum(step)
        aged = len(self._printed) - 1 - self.keep
        if aged >= 0 and self._printed[aged] > PLACEHOLDER_TOKENS:
            self._waiting.append(aged)

    def ask(self, is_cold: bool) -> None:
        cached = 0 if is_cold else self._cached
        self.cost += self.used - cached * (1 - self.prices.cached_share)
        self._cached = self.used

    @property
    def is_triggered(self) -> bool:
        kind, value = self.trigger
        reached = len(self._printed) if kind == "tool_uses" else self.used - HEAD_TOKENS
        return bool(self._waiting) and reached >= value

    def report(self) -> RuleReport:
        if not self.is_triggered:
            return RuleReport(applied=False, tokens_before=self.used, tokens_after=self.used)
        options = tuple(self._options())
        return RuleReport(
            applied=True,
            tokens_before=self.used,
            tokens_after=self.used - options[-1].saved_tokens,
            prefix_tokens=self.used - options[-1].saved_tokens - options[-1].resent_tokens,
            options=options,
        )

    def _options(self) -> Iterator[EditOption]:
        """As the rule gives them."""
        saved = carried = behind = 0
        end, wanted = len(self._printed), 1
        for count, place in enumerate(reversed(self._waiting), 1):
            behind += sum(self._said[place:end]) + sum(self._printed[place:end])
            end = place
            gone = self._printed[place] - PLACEHOLDER_TOKENS
            saved += gone
            carried += gone * (len(self._printed) - self.keep - place)
            if count >= wanted or count == len(self._waiting):
                yield EditOption(place, saved, behind - self._said[place] - saved, carried)
                wanted = max(count + 1, count * 3 // 2)

    def edit(self, first: int) -> None:
        first = max(first, self._waiting[0])
        behind = sum(self._said[first + 1 :]) + sum(self._printed[first:])
        self._cached = min(self._cached, self.used - behind)
        for place in self._waiting:
            if place >= first:
                self.used -= self._printed[place] - PLACEHOLDER_TOKENS
                self._printed[place] = PLACEHOLDER_TOKENS
        self._waiting = [place for place in self._waiting if place < first]
        self.edits += 1

    def compact(self) -> None:
        self.ask(False)
        self.cost += SUMMARY_TOKENS * self.prices.output_share
        self.used, self._cached = AFTER_COMPACTION, HEAD_TOKENS
        self.compactions += 1
        self._begin()


@dataclass(frozen=True)
class Setting:
    """A task and how its thread is kept."""

    steps: tuple[Step, ...]
    prices: Prices
    keep: int = 3
    trigger: Trigger = ("input_tokens", 100_000)
    limit: int = 244_800
    cold: Collection[int] = ()
    """Requests before which the cache's life was over."""
    name: str = ""


def costs(setting: Setting, policy: str) -> tuple[list[float], SizedThread]:
    """What was paid by the end of each request."""
    thread = SizedThread(setting.prices, setting.keep, setting.trigger, setting.limit)
    hybrid = HybridPolicy(setting.prices)
    start = since = 0
    paid = []
    for number, step in enumerate(setting.steps):
        is_cold, is_cheaper = number in setting.cold, False
        if policy == "hybrid":
            report = thread.report()
            start, since = (start, since + 1) if start else (thread.used, 0)
            decision = hybrid.decide(
                report,
                requests_done=number,
                outlook=Outlook(
                    used=thread.used,
                    growth=max(0, thread.used - start) / max(1, since),
                    limit=setting.limit,
                    after_compaction=AFTER_COMPACTION,
                    head=HEAD_TOKENS,
                ),
                cache_is_lost=is_cold,
            )
            is_cheaper = decision.compact
            if decision.first_index is not None:
                start -= decision.saved_tokens
                thread.edit(decision.first_index)
        elif policy == "edit" and thread.is_triggered:
            thread.edit(0)
        if thread.used >= setting.limit or is_cheaper:
            thread.compact()
            hybrid.note_compacted(thread.used)
            start = 0
        thread.ask(is_cold)
        paid.append(thread.cost)
        thread.append(step)
    return paid, thread


# ---- tasks -------------------------------------------------------------------------------------------


def even(printed: int, said: int) -> Iterator[Step]:
    chance = random.Random(printed + said)
    while True:
        yield said, chance.randint(printed // 2, printed * 3 // 2)


def mixed() -> Iterator[Step]:
    chance = random.Random(1)
    while True:
        yield chance.randint(40, 440), chance.choice((40, 80, 200, 200, 600, 1_500, 9_000))


def growing(by: int, said: int) -> Iterator[Step]:
    return ((said, min(20_000, 50 + by * number)) for number in itertools.count())


def shrinking(first: int, said: int) -> Iterator[Step]:
    return ((said, max(60, first * 20 // (20 + number))) for number in itertools.count())


def bursts(printed: int, said: int, every: int) -> Iterator[Step]:
    return ((said, printed if number % every < 3 else 80) for number in itertools.count())


def phases(printed: int, said: int, first: int) -> Iterator[Step]:
    """Sixty calls that print much, sixty that say much, and so on."""
    return (((60, printed) if (number // 60) % 2 == first else (said, 60)) for number in itertools.count())


def tasks() -> Iterator[tuple[str, Iterator[Step]]]:
    for printed, said in itertools.product((120, 600, 1_500, 6_000), (50, 230, 730)):
        yield f"outputs of {printed}, {said} said", even(printed, said)
    yield "mixed", mixed()
    yield "growing slowly", growing(25, 80)
    yield "growing fast", growing(100, 230)
    yield "shrinking", shrinking(9_000, 80)
    yield "shrinking from a lot", shrinking(20_000, 430)
    yield "bursts", bursts(9_000, 130, 15)
    yield "rare bursts", bursts(5_000, 330, 40)
    yield "prints, then talks", phases(3_000, 730, 0)
    yield "talks, then prints", phases(3_000, 730, 1)


TRIGGERS: tuple[Trigger, ...] = (("input_tokens", 100_000), ("input_tokens", 30_000), ("tool_uses", 4))
PRICES = (
    Prices(1.0, 0.1),
    Prices(1.0, 0.0),
    Prices(1.0, 0.25),
    Prices(1.0, 0.5),
    Prices(1.0, 0.1, output=15.0, cache_write=1.25),
)


def grid(calls: int = 300) -> Iterator[Setting]:
    """Every task with every price, trigger and number of outputs that stay; some with pauses or a small window."""
    for name, steps in tasks():
        task = tuple(itertools.islice(steps, calls))
        for number, (prices, trigger, keep) in enumerate(itertools.product(PRICES, TRIGGERS, (1, 3, 10))):
            cold = range(25, calls, 40) if number % 5 == 3 else ()
            limit = 100_000 if number % 7 == 2 else 244_800
            said = f"{name}, {prices.cached_share:g}, {trigger[0]} {trigger[1]}, keep {keep}, limit {limit}"
            yield Setting(task, prices, keep, trigger, limit, cold, said + (", pauses" if cold else ""))


@dataclass(frozen=True)
class Outcome:
    """How dear the hybrid was at its worst, over all the ends the task could have had."""

    setting: Setting
    to_append_only: float
    to_better: float
    at: int
    """The request after which it was worst against the better one."""
    at_end: float
    edit_was_dear: bool
    """At that time, or before, `edit` had been more than 5 % dearer than append-only: it made a bet, and won."""


def outcome(setting: Setting) -> Outcome:
    plain, edited, hybrid = (costs(setting, policy)[0] for policy in ("append_only", "edit", "hybrid"))
    ratios = [mine / min(others) for mine, *others in zip(hybrid, plain, edited, strict=True)]
    at = max(range(len(ratios)), key=ratios.__getitem__)
    return Outcome(
        setting,
        max(mine / other for mine, other in zip(hybrid, plain, strict=True)),
        ratios[at],
        at,
        ratios[-1],
        any(bet > 1.05 * other for bet, other in zip(edited[: at + 1], plain, strict=False)),
    )


def main() -> None:
    began = time.perf_counter()
    settings = [*grid(), *(list(grid(1_000))[::9] if "--all" in sys.argv else ())]
    found = [outcome(setting) for setting in settings]
    over = sorted((one for one in found if one.to_better > 1.05), key=lambda one: -one.to_better)
    ends = sum(len(one.setting.steps) for one in found)
    print(f"{len(found)} settings, {ends:,} ends, {time.perf_counter() - began:.0f} s")
    for name, some in (
        ("without pauses", [one for one in found if not one.setting.cold]),
        ("with pauses", [one for one in found if one.setting.cold]),
    ):
        print(f"{name}: worst against append-only, at any end, {max(one.to_append_only for one in some):.3f}")
    late = sum(one.at_end > 1.05 for one in found)
    print(f"against the better, whole tasks: worst {max(one.at_end for one in found):.3f}, over 1.05 {late}")
    bets = sum(one.edit_was_dear for one in over)
    print(f"against the better, at any end: over 1.05 in {len(over)}, in {bets} of them edit had made a bet")
    for one in over[:12]:
        bet = "bet" if one.edit_was_dear else ""
        print(f"  {one.to_better:.3f} after {one.at + 1}, {one.at_end:.3f} whole; {one.setting.name}; {bet}")


if __name__ == "__main__":
    main()
