"""The budgets of a session: what is configured, and what the caller gave. Only where something is limited."""

from __future__ import annotations

from spindle.assembly.record import Draft
from spindle.core.budget import BudgetLedger
from spindle.core.feature import Feature
from spindle.features.budget import BudgetPlan, Budgets
from spindle.protocol.request import Prices
from spindle.protocol.settings import BudgetLimits


def make_budgets(draft: Draft) -> Feature:
    request, spindle, order = draft.request, draft.request.config.spindle, draft.request.order
    ledger = BudgetLedger(
        clock=request.clock,
        find_prices=lambda model: _prices(draft, model),
        thread_id=draft.thread_id,
        above=(lambda: None) if order is None else order.budget,
        is_recorded=draft.history.writer is not None,
    )
    if order is not None:
        # Its thread and its own sub-agents are within what the session above may use.
        return Budgets(ledger, BudgetPlan(turn=spindle.budget))
    return Budgets(
        ledger,
        BudgetPlan(
            turn=spindle.budget,
            thread=spindle.budget_thread,
            tree=spindle.budget_tree,
            opened=request.budget or BudgetLimits(),
        ),
    )


def _prices(draft: Draft, model: str) -> Prices | None:
    from spindle.model.prices import known_prices  # only where dollars are counted

    spindle = draft.request.config.spindle
    by_model = spindle.context_model_prices | spindle.prices
    found = known_prices(model, draft.catalog, for_all=spindle.context_prices, by_model=by_model)
    return None if found is None else found.prices
