"""The model's checklist. It changes nothing but what people are shown."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from spindle.errors import ToolError
from spindle.protocol.events import PlanUpdate
from spindle.tools.descriptions import description
from spindle.tools.tool import ToolCall, ToolContext, ToolResult, function_spec, parse_arguments

STATUSES = ("pending", "in_progress", "completed")


class PlanStep(msgspec.Struct, frozen=True):
    step: str
    status: Literal["pending", "in_progress", "completed"]


class UpdatePlanArgs(msgspec.Struct, frozen=True):
    plan: list[PlanStep]
    explanation: str | None = None


class UpdatePlan:
    name = "update_plan"
    parallel = False

    def spec(self) -> dict[str, Any]:
        step = {
            "type": "object",
            "properties": {
                "status": {"type": "string", "enum": list(STATUSES), "description": "How far the step is."},
                "step": {"type": "string", "description": "The step in a few words."},
            },
            "required": ["step", "status"],
            "additionalProperties": False,
        }
        return function_spec(
            self.name,
            description(self.name),
            {
                "explanation": {"type": "string", "description": "Why the plan changed; leave out when it is obvious."},
                "plan": {"type": "array", "items": step, "description": "The whole list, in order."},
            },
            ["plan"],
        )

    async def run(self, call: ToolCall, ctx: ToolContext) -> ToolResult:
        if ctx.settings.collaboration_mode.mode == "plan":
            raise ToolError(
                "update_plan is a checklist for carrying out work and is not allowed in Plan mode; "
                "put the plan into the <proposed_plan> block of your final message instead"
            )
        args = parse_arguments(call, UpdatePlanArgs)
        steps = [{"step": step.step, "status": str(step.status)} for step in args.plan]
        ctx.emit(PlanUpdate(plan=steps, explanation=args.explanation))
        return ToolResult(output="Plan updated")
