"""`get_goal`, `create_goal` and `update_goal`: how a model looks at the goal of its thread, and reports on it.

They join the end of the tool list with the thread's first goal. What they do is up to `GoalKeeper`, the feature.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import msgspec

from spindle.errors import SpindleError, ToolError
from spindle.protocol.goal import Goal, check_budget, check_objective
from spindle.protocol.items import encode_json
from spindle.tools.descriptions import description
from spindle.tools.tool import Tool, ToolCall, ToolContext, ToolResult, function_spec, parse_arguments

LOOKING = "get_goal"
"""The one of them that changes nothing."""


class GoalKeeper(Protocol):
    """Who has the goal."""

    @property
    def goal(self) -> Goal | None:
        """With what has been used for it up to now."""
        ...

    def create(self, objective: str, token_budget: int | None, turn_id: str) -> Goal: ...

    def report(self, status: Literal["complete", "blocked"], turn_id: str) -> Goal: ...


class CreateGoalArgs(msgspec.Struct, frozen=True):
    objective: str
    token_budget: int | None = None


class UpdateGoalArgs(msgspec.Struct, frozen=True):
    status: Literal["complete", "blocked"]


class GetGoal:
    name = LOOKING
    parallel = True

    def __init__(self, keeper: GoalKeeper) -> None:
        self._keeper = keeper

    def spec(self) -> dict[str, Any]:
        return function_spec(self.name, description(self.name), {}, [])

    async def run(self, call: ToolCall, ctx: ToolContext) -> ToolResult:
        return _answer(self._keeper.goal)


class CreateGoal:
    name = "create_goal"
    parallel = False

    def __init__(self, keeper: GoalKeeper) -> None:
        self._keeper = keeper

    def spec(self) -> dict[str, Any]:
        properties = {
            "objective": {
                "type": "string",
                "description": "What is to be reached, so that one can check whether it is.",
            },
            "token_budget": {
                "type": "integer",
                "description": "How many tokens it may use. Only if such a number was asked for.",
            },
        }
        return function_spec(self.name, description(self.name), properties, ["objective"])

    async def run(self, call: ToolCall, ctx: ToolContext) -> ToolResult:
        args = parse_arguments(call, CreateGoalArgs)
        present = self._keeper.goal
        if present is not None and present.status != "complete":
            raise ToolError(f"this thread has a goal that is not complete ({present.status}); it keeps that one")
        try:
            objective, budget = check_objective(args.objective), check_budget(args.token_budget)
        except SpindleError as error:
            raise ToolError(str(error)) from error
        return _answer(self._keeper.create(objective, budget, ctx.turn_id))


class UpdateGoal:
    name = "update_goal"
    parallel = False

    def __init__(self, keeper: GoalKeeper) -> None:
        self._keeper = keeper

    def spec(self) -> dict[str, Any]:
        status = {"type": "string", "enum": ["complete", "blocked"], "description": "How the goal stands."}
        return function_spec(self.name, description(self.name), {"status": status}, ["status"])

    async def run(self, call: ToolCall, ctx: ToolContext) -> ToolResult:
        args = parse_arguments(call, UpdateGoalArgs)
        if self._keeper.goal is None:
            raise ToolError("this thread has no goal")
        return _answer(self._keeper.report(args.status, ctx.turn_id))


def goal_tools(keeper: GoalKeeper) -> Sequence[Tool]:
    return (GetGoal(keeper), CreateGoal(keeper), UpdateGoal(keeper))


def _answer(goal: Goal | None) -> ToolResult:
    told = {
        "goal": None if goal is None else goal.to_record(),
        "remainingTokens": None if goal is None else goal.remaining_tokens,
    }
    return ToolResult(output=encode_json(told).decode())
