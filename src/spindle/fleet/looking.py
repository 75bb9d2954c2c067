"""Where a run is, told from its folder alone: with a driver at work or without one."""

from __future__ import annotations

from datetime import datetime

import msgspec

from spindle.fleet.exchange import Used
from spindle.fleet.folder import RunFolder, Spending
from spindle.fleet.schedule import slow_after
from spindle.fleet.watching import by_status
from spindle.protocol.clock import Clock


class State(msgspec.Struct, frozen=True, kw_only=True):
    """What `fleet status` shows."""

    total: int
    recorded: int
    pending: int
    running: int
    by_status: dict[str, int]
    cost_usd: float | None
    """All that was spent, by attempts that are not recorded too; None where a price is not known."""
    usage: Used
    alive: bool
    """A driver works here."""
    slow: list[str]
    """Running tasks that take far longer than others did."""
    limited_by: str | None = None


def look(folder: RunFolder, clock: Clock) -> State:
    is_alive = folder.is_alive()
    statuses = {task: status for task, status in folder.statuses.items() if task in folder}
    durations: list[float] = []
    running: dict[tuple[str, int], float] = {}
    for line in folder.attempts():
        at = seconds_of(line.time)
        if line.event == "started":
            running[line.id, line.attempt] = at
        elif (since := running.pop((line.id, line.attempt), None)) is not None and line.outcome in _WHOLE:
            durations.append(at - since)
    limit = slow_after(sorted(durations), 1)
    now = clock.now()
    slow = {task for (task, _), since in running.items() if limit is not None and now - since > limit}
    spending, last_minute = Spending(), 0
    for line in folder.spend():
        spending.add(line.usage, line.cost_usd)
        last_minute += now - seconds_of(line.time) <= 60.0
    rpm = folder.facts.options.get("rpm")
    return State(
        total=folder.total,
        recorded=len(statuses),
        pending=folder.total - len(statuses),
        running=len(running) if is_alive else 0,
        by_status=by_status(statuses),
        cost_usd=spending.known_cost,
        usage=spending.used,
        alive=is_alive,
        slow=sorted(slow) if is_alive else [],
        limited_by="rpm" if is_alive and rpm is not None and last_minute >= 0.9 * rpm else None,
    )


_WHOLE = ("ok", "verify_failed", "invalid_output", "agent_failed")


def seconds_of(stamp: str) -> float:
    """The Unix seconds of a time as `iso_utc` writes it; 0 for anything else."""
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except ValueError:
        return 0.0
