"""The budgets of a session: what is configured, and what the caller gave. Only where something is limited."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from spindle.assembly.record import Draft
from spindle.core.budget import BudgetLedger, Meter, ModelBounds
from spindle.core.feature import Feature
from spindle.features.budget.budgets import BudgetPlan, Budgets
from spindle.features.budget.past import used_since
from spindle.protocol.request import Prices
from spindle.protocol.settings import BudgetLimits


def make_budgets(draft: Draft) -> Feature:
    request, spindle, order = draft.request, draft.request.config.spindle, draft.request.order
    ledger = BudgetLedger(
        clock=request.clock,
        find_prices=partial(_prices, draft),
        # The one that a person can go on with.
        thread_id=draft.thread_id if order is None else order.parent_thread_id,
        bounds=partial(_bounds, draft),
        above=(lambda: None) if order is None else order.budget,
        is_recorded=draft.history.writer is not None,
    )
    if order is not None:
        # Its thread, its own sub-agents and its day are within what the session above may use.
        return Budgets(ledger, BudgetPlan(turn=spindle.budget))
    return Budgets(
        ledger,
        BudgetPlan(
            turn=spindle.budget,
            thread=spindle.budget_thread,
            tree=spindle.tree_limits,
            opened=request.budget or BudgetLimits(),
            day=_day(draft, ledger) if spindle.budget_day else None,
        ),
    )


def _prices(draft: Draft, model: str, tier: str | None) -> Prices | None:
    from spindle.model.prices import known_prices  # only where dollars are counted

    config = draft.request.config
    found = known_prices(model, draft.catalog, config.spindle.price_list, provider=config.provider.id)
    if found is None:
        return None
    # What the user says is what the user pays.
    return found.prices if found.source.startswith("configuration") else found.prices.at_tier(tier)


def _bounds(draft: Draft, model: str) -> ModelBounds:
    """How much a request to the model can come to, as far as the catalogue knows."""
    info, default = draft.catalog.find(model), ModelBounds()
    window = draft.request.config.model_context_window or info.context_window or default.window
    return ModelBounds(window, info.max_output_tokens or default.output)


def _day(draft: Draft, ledger: BudgetLedger) -> Callable[[], Meter]:
    from spindle.core.day_budget import DayMeter  # only where a day has a budget

    home, clock = draft.request.config.own_home, draft.request.clock
    limits = draft.request.config.spindle.budget_day
    return lambda: DayMeter(
        ledger, limits, home=home, clock=clock, past=lambda moment: used_since(home, moment, ledger.cost_of)
    )
