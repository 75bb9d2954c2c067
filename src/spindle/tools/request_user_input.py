"""Questions the model puts to the person, in plan mode."""

from __future__ import annotations

from typing import Any

from spindle.errors import ToolError
from spindle.tools.descriptions import description
from spindle.tools.tool import ToolCall, ToolContext, ToolResult, function_spec


class RequestUserInput:
    name = "request_user_input"
    parallel = False

    def spec(self) -> dict[str, Any]:
        option = _closed_object(
            {
                "label": _text("What the user picks, in one to five words."),
                "description": _text("One sentence on what picking it means."),
            }
        )
        question = _closed_object(
            {
                "id": _text("A snake_case name for the question; the answer comes back under it."),
                "header": _text("A heading for the user interface, at most 12 characters."),
                "question": _text("The question, in one sentence."),
                "options": {
                    "type": "array",
                    "description": "Two or three options that exclude each other, the recommended one first; no Other.",
                    "items": option,
                },
            }
        )
        questions = {"type": "array", "description": "One to three questions; one is best.", "items": question}
        return function_spec(self.name, description(self.name), {"questions": questions}, ["questions"])

    async def run(self, call: ToolCall, ctx: ToolContext) -> ToolResult:
        mode = ctx.settings.collaboration_mode.mode
        if mode != "plan":
            raise ToolError(f"request_user_input is unavailable in {mode.capitalize()} mode")
        raise ToolError(
            "questions cannot be put to a person in this session; decide with reasonable assumptions and "
            "name them in the plan, or ask in the text of your final message"
        )


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _closed_object(properties: dict[str, Any]) -> dict[str, Any]:
    """All properties required and no others allowed; required in reading order, properties in alphabetical order."""
    return {
        "type": "object",
        "properties": dict(sorted(properties.items())),
        "required": list(properties),
        "additionalProperties": False,
    }
