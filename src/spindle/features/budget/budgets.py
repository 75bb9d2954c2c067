"""Budgets as a feature: what a turn, its thread and a day may use. Enforced where requests are made (`core/budget.py`).

A thread's budget holds over processes: with one, each request leaves a line in the record that says what the thread and
its sub-agents have used so far. What happened before there was such a line is read from the rest of the record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from spindle.core.budget import BudgetLedger, Meter, Use
from spindle.core.budgeted_client import BudgetedClient
from spindle.core.feature import Feature
from spindle.features.budget.past import KIND, used_by_thread
from spindle.protocol.events import Warning
from spindle.protocol.ops import UserInput, UserTurn
from spindle.protocol.settings import BudgetLimits

if TYPE_CHECKING:
    from spindle.core.running_turn import RunningTurn
    from spindle.core.session import Session


class BudgetPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What is configured, and what the caller gave for the thread as long as it is open."""

    turn: BudgetLimits = BudgetLimits()
    thread: BudgetLimits = BudgetLimits()
    tree: BudgetLimits = BudgetLimits()
    opened: BudgetLimits = BudgetLimits()
    day: Callable[[], Meter] | None = None
    """Makes the meter of the day, where that has a limit."""


class Budgets(Feature):
    """The budgets of one session."""

    def __init__(self, ledger: BudgetLedger, plan: BudgetPlan) -> None:
        self._ledger = ledger
        self._plan = plan
        self._lasting: dict[str, Meter] = {}
        """The meters that hold over processes, by their place in the record."""
        self._brought: Meter | None = None
        """What the last turn brought along. A turn with the very same object goes on where that one stopped."""

    def open(self, session: Session) -> None:
        ledger, plan, thread = self._ledger, self._plan, session.thread
        if plan.thread or plan.tree:
            past = used_by_thread(thread.history.records)
            total = thread.total_usage
            cost = ledger.cost_of(session.settings.model, total) if plan.thread.max_cost else 0.0
            used = past.used.at_least(Use(total.total_tokens, 0, cost))
            self._lasting["thread"] = Meter(ledger, "thread", plan.thread, used, past.seconds)
            ledger.thread.append(self._lasting["thread"])
            if plan.tree:
                self._lasting["tree"] = Meter(ledger, "tree", plan.tree, past.tree, past.tree_seconds)
                ledger.tree.append(self._lasting["tree"])
        if plan.opened:
            ledger.thread.append(Meter(ledger, "thread", plan.opened))
        if plan.day is not None:
            ledger.thread.append(plan.day())
        ledger.warn = lambda text: session.tell(Warning(message=text))
        ledger.booked = lambda: self._record(session)
        thread.budget = ledger
        thread.client = BudgetedClient(thread.client, ledger)

    async def begin_turn(self, turn: RunningTurn) -> None:
        op = turn.submission.op
        brought = op.budget if isinstance(op, UserTurn) else None
        # Input that came too late for a turn goes on in one of its own.
        is_rest = isinstance(op, UserInput) and op.mode == "steer"
        if self._brought is None or (brought is not self._brought.limits and not is_rest):
            self._brought = Meter(self._ledger, "turn", brought or BudgetLimits())
        self._ledger.warn = lambda text: turn.emit(Warning(message=text))
        self._ledger.begin_turn(Meter(self._ledger, "turn", self._plan.turn), self._brought)

    async def aclose(self) -> None:
        for meter in self._ledger.thread:
            meter.close()

    def _record(self, session: Session) -> None:
        if self._lasting:
            line = _line(self._lasting["thread"])
            if "tree" in self._lasting:
                line["tree"] = _line(self._lasting["tree"])
            session.thread.history.append_extra(KIND, line)


def _line(meter: Meter) -> dict[str, Any]:
    return {**msgspec.to_builtins(meter.used), "seconds": round(meter.seconds, 3)}
