"""`update_plan` is the model's checklist. It changes nothing but what people are shown."""

from __future__ import annotations

from typing import Literal

import msgspec

from spindle.errors import ToolError
from spindle.protocol.events import PlanUpdate
from spindle.tools.tool import ToolCall, ToolContext, ToolResult, parse_arguments


class PlanStep(msgspec.Struct, frozen=True):
    step: str
    status: Literal["pending", "in_progress", "completed"]


class UpdatePlanArgs(msgspec.Struct, frozen=True):
    plan: list[PlanStep]
    explanation: str | None = None


async def run(call: ToolCall, ctx: ToolContext) -> ToolResult:
    if ctx.settings.collaboration_mode.mode == "plan":
        raise ToolError(
            "update_plan is a checklist for carrying out work and is not allowed in Plan mode; "
            "put the plan into the <proposed_plan> block of your final message instead"
        )
    args = parse_arguments(call, UpdatePlanArgs)
    steps = [{"step": step.step, "status": str(step.status)} for step in args.plan]
    ctx.emit(PlanUpdate(plan=steps, explanation=args.explanation))
    return ToolResult(output="Plan updated")
