"""What a task costs under the three context policies, by the installed command and a server that charges for it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

PATH = Path(__file__).parents[2] / "bench" / "charged_task.py"


def test_the_hybrid_policy_pays_no_more_than_the_better_of_the_others() -> None:
    spec = importlib.util.spec_from_file_location("charged_task", PATH)
    assert spec is not None and spec.loader is not None
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    rule = 'spindle.context.rule.trigger={type="input_tokens",value=20000}'
    paid = {policy: bench.play(policy, 60, 1_500, 20, rule) for policy in bench.POLICIES}
    assert paid["append_only"].breaks == 0 and paid["hybrid"].breaks > 0
    costs = {policy: till.cost for policy, till in paid.items()}
    assert costs["hybrid"] < 0.8 * costs["append_only"]
    assert costs["hybrid"] <= 1.05 * min(costs["append_only"], costs["edit"])
