"""Budgets as a feature: what a turn and its thread may use. Enforced where requests are made, in `core/budget.py`.

A thread's budget holds over processes: with one, each request leaves a line in the record that says what the thread has
used so far. What happened before there was such a line is read from the rest of the record.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from spindle.core.budget import BudgetedClient, BudgetLedger, Meter, Use
from spindle.core.feature import Feature
from spindle.protocol.events import Warning
from spindle.protocol.ops import UserInput, UserTurn
from spindle.protocol.settings import BudgetLimits

if TYPE_CHECKING:
    from spindle.core.running_turn import RunningTurn
    from spindle.core.session import Session
    from spindle.thread.rollout import Record

KIND = "spindle_budget"
"""The lines of the record that tell what a thread has used."""
_TYPE = re.compile(rb'{"type": ?"(\w+)"')


class BudgetPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What is configured, and what the caller gave for the thread as long as it is open."""

    turn: BudgetLimits = BudgetLimits()
    thread: BudgetLimits = BudgetLimits()
    tree: BudgetLimits = BudgetLimits()
    opened: BudgetLimits = BudgetLimits()


class Budgets(Feature):
    """The budgets of one session."""

    def __init__(self, ledger: BudgetLedger, plan: BudgetPlan) -> None:
        self._ledger = ledger
        self._plan = plan
        self._lasting: Meter | None = None
        """The thread's meter that holds over processes."""
        self._brought: Meter | None = None
        """What the last turn brought along. A turn with the very same object goes on where that one stopped."""

    def open(self, session: Session) -> None:
        ledger, plan, thread = self._ledger, self._plan, session.thread
        if plan.thread:
            used, seconds = used_before(thread.history.records)
            total = thread.total_usage
            cost = ledger.cost_of(session.settings.model, total) if plan.thread.max_cost else 0.0
            used = Use(max(used.tokens, total.total_tokens), used.requests, max(used.cost, cost))
            self._lasting = Meter(ledger, "thread", plan.thread, used, seconds)
            ledger.thread.append(self._lasting)
        if plan.opened:
            ledger.thread.append(Meter(ledger, "thread", plan.opened))
        if plan.tree:
            ledger.tree.append(Meter(ledger, "tree", plan.tree))
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

    def _record(self, session: Session) -> None:
        if self._lasting is not None:
            used = msgspec.to_builtins(self._lasting.used)
            session.thread.history.append_extra(KIND, {**used, "seconds": round(self._lasting.seconds, 3)})


def used_before(records: Sequence[Record]) -> tuple[Use, float]:
    """What the record says that a thread has used: requests, tokens and dollars, and the seconds of its turns.

    In a turn without lines of ours every count of tokens stands for a request.
    """
    used, seconds, began, counts, is_booked = Use(), 0.0, "", 0, False
    for record in records:
        kind = _kind(record)
        if kind == KIND:
            payload = record.payload
            used = Use(_int(payload, "tokens"), _int(payload, "requests"), _float(payload, "cost"))
            seconds, counts, is_booked = _float(payload, "seconds"), 0, True
        elif kind == "task_started":
            used += Use(requests=counts)
            began, counts, is_booked = record.timestamp, 0, False
        elif kind == "token_count" and not is_booked:
            counts += 1
        elif kind in ("task_complete", "turn_aborted") and not is_booked:
            seconds += _between(began, record.timestamp)
    return used + Use(requests=counts), seconds


def _kind(record: Record) -> str:
    """The kind of a line, or of the event that it records."""
    if record.kind != "event_msg":
        return record.kind
    found = _TYPE.match(record.raw)
    return found[1].decode() if found is not None else ""


def _int(payload: dict[str, Any], key: str) -> int:
    return int(_float(payload, key))


def _float(payload: dict[str, Any], key: str) -> float:
    found = payload.get(key)
    return float(found) if isinstance(found, int | float) else 0.0


def _between(start: str, end: str) -> float:
    """Seconds between two moments of the record; 0 where one is missing."""
    try:
        return max(0.0, (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds())
    except (TypeError, ValueError):
        return 0.0
