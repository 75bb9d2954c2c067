"""What a long task costs under the three context policies, with a server that charges a tenth for cached input.

    python bench/context_cost.py

No model and no network: the tasks are made up of call after call, the rule and the decisions are the real ones. Costs
are in thousands of uncached input tokens; in brackets how often the thread was edited and compacted.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

from spindle.context.compaction import replacement
from spindle.context.rule import compress_by_rule
from spindle.context.tokens import estimate_tokens
from spindle.context.trade import SUMMARY_TOKENS, HybridPolicy, Outlook, Prices
from spindle.protocol.items import Item, assistant_message, user_message

POLICIES = ("append_only", "edit", "hybrid")
HEAD_TOKENS = 9_000
"""Base text and tools."""
LIMIT = 244_800
AFTER_COMPACTION = HEAD_TOKENS + SUMMARY_TOKENS + 80
Step = tuple[list[Item], str]
"""What a response adds besides its call, and the output of the call."""


class PriceServer:
    """Charges full price for what the last request did not begin with, and a tenth for the rest."""

    def __init__(self, prices: Prices) -> None:
        self.prices = prices
        self.cost = 0.0
        self.requests = 0
        self._last: list[Item] = []
        self._tokens: dict[int, tuple[Item, int]] = {}

    def ask(self, items: list[Item]) -> None:
        cached = HEAD_TOKENS if self.requests else 0
        whole = HEAD_TOKENS
        is_prefix = self.requests > 0
        for index, item in enumerate(items):
            tokens = self.tokens_of(item)
            whole += tokens
            # Items that stay are the same objects all the way.
            is_prefix = is_prefix and index < len(self._last) and self._last[index] is item
            cached += tokens if is_prefix else 0
        self.cost += cached * self.prices.cached_share + whole - cached
        self.requests += 1
        self._last = list(items)

    def tokens_of(self, item: Item) -> int:
        known = self._tokens.get(id(item))
        if known is None:
            known = self._tokens[id(item)] = (item, estimate_tokens(item))
        return known[1]


@dataclass(frozen=True)
class Task:
    """A made-up task: its steps, and the rule that the user configured."""

    name: str
    steps: Callable[[random.Random], Iterator[Step]]
    calls: int = 300
    rule: dict[str, Any] = field(default_factory=dict)


def outputs_of(tokens: int, said: int = 20) -> Callable[[random.Random], Iterator[Step]]:
    """Each call prints about so many tokens, after so many tokens of the model's own words."""

    def steps(chance: random.Random) -> Iterator[Step]:
        while True:
            size = chance.randint(tokens // 2, tokens * 3 // 2)
            yield [assistant_message("w" * said * 4)], "x" * size * 4

    return steps


def mixed(chance: random.Random) -> Iterator[Step]:
    """Many small outputs, a few very large ones."""
    while True:
        size = chance.choice((40, 80, 200, 200, 600, 1_500, 9_000))
        yield [assistant_message("w" * chance.randint(40, 1_600))], "x" * size * 4


LOW = {"trigger": {"type": "input_tokens", "value": 30_000}}
EACH = {"trigger": {"type": "tool_uses", "value": 4}}
TASKS = [
    Task("outputs of 1,500 tokens", outputs_of(1_500)),
    Task("outputs of 6,000 tokens", outputs_of(6_000)),
    Task("outputs of 300, much said between", outputs_of(300, said=700)),
    Task("mixed", mixed),
    Task("mixed, 90 calls", mixed, calls=90),
    Task("outputs of 1,500, trigger 30k", outputs_of(1_500), rule=LOW),
    Task("much said between, trigger 30k", outputs_of(300, said=700), rule=LOW),
    Task("small outputs, trigger 4 calls", outputs_of(120), rule=EACH),
    Task("mixed, trigger 4 calls", mixed, rule=EACH),
    Task("mixed, trigger 4 calls, 40 calls", mixed, calls=40, rule=EACH),
]


def cost(task: Task, policy: str, prices: Prices, seed: int = 1) -> tuple[float, int, int]:
    """Cost in fresh input tokens, edits, compactions. Edits come before compactions, as in the agent."""
    server, hybrid = PriceServer(prices), HybridPolicy(prices)
    steps = task.steps(random.Random(seed))
    items: list[Item] = [user_message("Do it all.")]
    used = HEAD_TOKENS + server.tokens_of(items[0])
    edits = compactions = start = since = 0
    for number in range(task.calls):
        is_cheaper = False
        if policy != "append_only":
            rule = {**task.rule, "costs": [server.tokens_of(item) for item in items]}
            edited, report = compress_by_rule(items, **rule)
            is_due = report.applied
            if policy == "hybrid":
                start, since = (start, since + 1) if start else (used, 0)
                growth = max(0, used - start) / max(1, since)
                ahead = Outlook(
                    used=used, growth=growth, limit=LIMIT, after_compaction=AFTER_COMPACTION, head=HEAD_TOKENS
                )
                decision = hybrid.decide(report, requests_done=number, outlook=ahead)
                is_due, is_cheaper = decision.edit, decision.compact
                if decision.first_index is not None:
                    edited, report = compress_by_rule(items, **rule, first_index=decision.first_index)
            if is_due:
                items = edited
                used -= report.cleared_input_tokens
                start -= report.cleared_input_tokens
                edits += 1
        if used >= LIMIT or is_cheaper:
            server.ask([*items, user_message("Summarise.")])
            server.cost += SUMMARY_TOKENS * prices.output_share
            items = replacement([], items, "s" * SUMMARY_TOKENS * 4)
            used = HEAD_TOKENS + sum(map(server.tokens_of, items))
            hybrid.note_compacted(used)
            start = 0
            compactions += 1
        server.ask(items)
        said, output = next(steps)
        call = {"type": "function_call", "name": "exec_command", "arguments": f'{{"cmd":"run {number}"}}'}
        done = {"type": "function_call_output", "call_id": f"c{number}", "output": output}
        new = [*said, {**call, "call_id": f"c{number}"}, done]
        items = [*items, *new]
        used += sum(map(server.tokens_of, new))
    return server.cost, edits, compactions


def table(prices: Prices) -> list[str]:
    lines = ["| task | append-only | edit | hybrid | hybrid ÷ the better |", "|---|--:|--:|--:|--:|"]
    for task in TASKS:
        costs = {policy: cost(task, policy, prices) for policy in POLICIES}
        better = min(costs["append_only"][0], costs["edit"][0])
        cells = [f"{spent / 1000:,.0f} ({edits}, {cuts})" for spent, edits, cuts in costs.values()]
        lines.append(f"| {task.name} | {' | '.join(cells)} | {costs['hybrid'][0] / better:.3f} |")
    return lines


if __name__ == "__main__":
    print("\n".join(table(Prices())))
