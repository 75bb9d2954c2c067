"""`thread/goal/set`, `get` and `clear`: what a thread works towards by itself, turn after turn."""

from __future__ import annotations

import msgspec

from spindle.frontends.app_server.method import Call, Method
from spindle.frontends.app_server.objects import Wire
from spindle.frontends.app_server.rpc import RpcError
from spindle.protocol.goal import Goal, Status, ThreadGoalUpdated
from spindle.protocol.ops import GoalClear, GoalSet
from spindle.thread.codex_goals import present_goal
from spindle.thread.goals import recorded_goal


class GoalSetParams(Wire, frozen=True, kw_only=True):
    """What is left out stays as it is; a thread without a goal needs an objective."""

    thread_id: str
    objective: str | None = None
    """1 to 4,000 characters."""
    token_budget: int | msgspec.UnsetType | None = msgspec.UNSET
    """How many tokens it may use; null = as many as it takes."""
    status: Status | None = None
    """A new goal is active when nothing is said."""


class GoalParams(Wire, frozen=True, kw_only=True):
    thread_id: str


class GoalSetResult(Wire, frozen=True, kw_only=True):
    goal: Goal


class GoalGetResult(Wire, frozen=True, kw_only=True):
    goal: Goal | None


class GoalClearResult(Wire, frozen=True, kw_only=True):
    cleared: bool
    """False when there was none."""


def _check(call: Call, thread_id: str) -> None:
    """Clients know this refusal by its words."""
    loaded = call.server.threads.get(thread_id)
    config = call.server.config if loaded is None else loaded.config
    if not config.features.get("goals", True):
        raise RpcError("goals feature is disabled")


async def goal_set(call: Call, params: GoalSetParams) -> Wire:
    _check(call, params.thread_id)
    thread = await call.server.ready(params.thread_id)
    op = GoalSet(objective=params.objective, token_budget=params.token_budget, status=params.status)
    answer = await thread.ask(op)
    assert isinstance(answer, ThreadGoalUpdated) and answer.goal is not None
    return GoalSetResult(goal=Goal.from_wire(answer.goal))


async def goal_get(call: Call, params: GoalParams) -> Wire:
    _check(call, params.thread_id)
    loaded = call.server.threads.get(params.thread_id)
    if loaded is not None:
        return GoalGetResult(goal=recorded_goal(loaded.live.records, loaded.id))
    store = call.server.store
    records = store.read(store.get(params.thread_id)).records
    return GoalGetResult(goal=present_goal(records, params.thread_id, call.server.home))


async def goal_clear(call: Call, params: GoalParams) -> Wire:
    _check(call, params.thread_id)
    thread = await call.server.ready(params.thread_id)
    if recorded_goal(thread.live.records, thread.id) is None:
        return GoalClearResult(cleared=False)
    await thread.ask(GoalClear())
    return GoalClearResult(cleared=True)


METHODS = (
    Method(name="thread/goal/set", params=GoalSetParams, result=GoalSetResult, run=goal_set),
    Method(name="thread/goal/get", params=GoalParams, result=GoalGetResult, run=goal_get),
    Method(name="thread/goal/clear", params=GoalParams, result=GoalClearResult, run=goal_clear),
)
