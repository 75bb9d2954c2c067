"""When an edit pays: the arithmetic of one decision, and what whole tasks cost under the three policies."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spindle.context.rule import RuleReport
from spindle.context.trade import HybridPolicy, Outlook, Prices, TradeDecision, expected_requests, prices_of
from spindle.errors import ConfigError


def possible(before: int, after: int, prefix: int) -> RuleReport:
    return RuleReport(applied=True, tokens_before=before, tokens_after=after, prefix_tokens=prefix)


NOTHING = RuleReport(applied=False, tokens_before=100, tokens_after=100)


def test_a_decision_shows_its_arithmetic():
    decision = HybridPolicy().decide(possible(100_000, 40_000, 10_000), requests_done=0, remaining_requests=20)
    assert decision == TradeDecision(
        edit=True,
        reason="pays_off",
        saved_tokens=60_000,
        resent_tokens=30_000,
        remaining_requests=20,
        cached_share=0.1,
        miss_cost=27_000.0,
        saving=120_000.0,
        carried=6_000.0,
    )
    assert decision.gain == 93_000.0
    assert str(decision) == (
        "edit (pays off): 60,000 tokens less in about 20 requests save 120,000, 30,000 tokens sent again cost 27,000"
    )


def test_an_edit_that_will_not_pay_is_not_made():
    decision = HybridPolicy().decide(possible(100_000, 95_000, 5_000), requests_done=0, remaining_requests=100)
    assert (decision.edit, decision.reason, decision.gain) == (False, "does_not_pay", 50_000 - 81_000)
    assert HybridPolicy().decide(NOTHING, requests_done=50).reason == "nothing_to_save"


def test_an_edit_that_pays_slowly_waits_until_not_editing_has_cost_as_much():
    policy, report = HybridPolicy(), possible(100_000, 90_000, 72_000)
    reasons = []
    while not (decision := policy.decide(report, requests_done=0, remaining_requests=1_000)).edit:
        reasons.append(decision.reason)
    # 18,000 tokens sent again cost 16,200; carrying 10,000 along costs 1,000 a request.
    assert (reasons, decision.carried) == (["wait"] * 16, 17_000.0)
    assert policy.decide(report, requests_done=0, remaining_requests=1_000).reason == "wait"


def test_when_the_cache_is_lost_anyway_every_saving_is_taken():
    decision = HybridPolicy().decide(
        possible(100_000, 99_000, 0), requests_done=0, remaining_requests=1, cache_is_lost=True
    )
    assert (decision.edit, decision.reason, decision.miss_cost, decision.saving) == (
        True,
        "cache_is_lost",
        0.0,
        1_000.0,
    )
    assert not HybridPolicy().decide(NOTHING, requests_done=1, cache_is_lost=True).edit


def test_without_a_discount_for_cached_input_a_miss_costs_nothing():
    flat = HybridPolicy(Prices(2.0, 2.0))
    assert flat.decide(possible(100_000, 99_000, 0), requests_done=0, remaining_requests=1).edit


def test_a_thread_is_expected_to_go_on_for_as_long_as_it_did_give_or_take():
    assert expected_requests(100) == (25, 50, 100, 150, 200, 300)
    assert expected_requests(0) == (5,) * 6
    assert HybridPolicy().decide(possible(9, 8, 7), requests_done=100).remaining_requests == 150


def test_a_shorter_thread_may_be_compacted_too_late_to_be_cheaper():
    """Just before the limit, the compaction that comes anyway saves more than the edit that puts it off."""
    report = possible(94_000, 70_000, 60_000)
    ahead = Outlook(used=94_000, growth=2_000, limit=100_000, after_compaction=5_000)
    near = HybridPolicy().decide(report, requests_done=0, remaining_requests=15, outlook=ahead)
    far = HybridPolicy().decide(report, requests_done=0, remaining_requests=15)
    assert (near.reason, far.reason) == ("does_not_pay", "pays_off")
    assert near.saving < far.saving
    # A thread whose compaction cannot help does not keep us counting for ever.
    stuck = Outlook(used=100_000, growth=1, limit=100_000, after_compaction=100_000)
    assert (
        HybridPolicy().decide(report, requests_done=0, remaining_requests=10**6, outlook=stuck).reason == "does_not_pay"
    )
    still = Outlook(used=50_000, growth=0, limit=100_000, after_compaction=5_000)
    assert HybridPolicy().decide(report, requests_done=0, remaining_requests=10, outlook=still).saving == 24_000.0


@settings(max_examples=100, deadline=None)
@given(
    *(st.integers(0, 60_000), st.integers(0, 9_000), st.integers(1, 60)),
    *(st.sampled_from([0.0, 0.1, 0.5]), st.integers(1_000, 29_000)),
)
def test_the_saving_is_what_counting_request_by_request_gives(used, growth, requests, share, after):
    saved = used // 2
    ahead = Outlook(used=used, growth=growth, limit=30_000, after_compaction=after, compaction_cost=700)

    def counted(tokens: int) -> float:
        cost = 0.0
        for _ in range(requests):
            if tokens >= ahead.limit:
                cost += tokens * share + ahead.compaction_cost + after * (1 - share)
                tokens = after
            cost += tokens * share
            tokens += growth
        return cost

    report = possible(used, used - saved, 0)
    decision = HybridPolicy(Prices(1.0, share)).decide(
        report, requests_done=0, remaining_requests=requests, outlook=ahead
    )
    assert decision.saving == pytest.approx(counted(used) - counted(used - saved))


def test_prices_go_by_the_longest_name_and_can_be_overridden():
    assert prices_of("gpt-5.2-codex").cached_share == 0.1
    assert prices_of("gpt-4o-mini").cached_share == 0.5
    assert prices_of("llama") == Prices(1.0, 0.1)
    mine = {"gpt": Prices(2.0, 1.0), "gpt-5.2": {"input": 1.75, "cached_input": 0.175}}
    assert prices_of("gpt-5.2-codex", mine) == Prices(1.75, 0.175)
    assert prices_of("gpt-5.1", mine) == Prices(2.0, 1.0)
    assert Prices(0.0, 0.0).cached_share == 1.0


@pytest.mark.parametrize("given", [{"input": "much"}, {"input": 1.0, "cached_input": 2.0}, 7])
def test_prices_that_cannot_be_used_are_an_error(given: object):
    with pytest.raises(ConfigError, match="price"):
        prices_of("m", {"m": given})


# ---- whole tasks -------------------------------------------------------------------------------------


def simulation() -> ModuleType:
    path = Path(__file__).parents[2] / "bench" / "context_cost.py"
    spec = importlib.util.spec_from_file_location("context_cost", path)
    assert spec is not None and spec.loader is not None
    module = sys.modules.setdefault("context_cost", importlib.util.module_from_spec(spec))
    spec.loader.exec_module(module)
    return module


SIMULATION = simulation()


@pytest.mark.parametrize("task", SIMULATION.TASKS, ids=lambda task: task.name)
def test_the_hybrid_policy_is_never_much_dearer_than_the_better_of_the_others(task):
    costs = {policy: SIMULATION.cost(task, policy, Prices())[0] for policy in SIMULATION.POLICIES}
    assert costs["hybrid"] <= 1.05 * min(costs["append_only"], costs["edit"])


@pytest.mark.parametrize("cached", [0.0, 0.5])
@pytest.mark.parametrize("task", SIMULATION.TASKS[:3:2], ids=lambda task: task.name)
def test_other_discounts_cost_it_little_more(task, cached: float):
    """Nobody knows when a task ends, and so not whether a compaction that comes anyway would have been cheaper."""
    prices = Prices(1.0, cached)
    costs = {policy: SIMULATION.cost(task, policy, prices, seed=2)[0] for policy in SIMULATION.POLICIES}
    assert costs["hybrid"] <= 1.1 * min(costs["append_only"], costs["edit"])


def test_the_policies_do_differ():
    first, talkative = SIMULATION.TASKS[0], SIMULATION.TASKS[2]
    assert SIMULATION.cost(first, "edit", Prices())[0] < 0.7 * SIMULATION.cost(first, "append_only", Prices())[0]
    assert (
        SIMULATION.cost(talkative, "append_only", Prices())[0] < 0.9 * SIMULATION.cost(talkative, "edit", Prices())[0]
    )
