"""Questions the model puts to the person, in plan mode."""

from __future__ import annotations

from typing import Any

import msgspec

from spindle.errors import ToolError
from spindle.protocol.items import encode_payload
from spindle.tools.descriptions import description
from spindle.tools.tool import ToolCall, ToolContext, ToolResult, function_spec, parse_arguments

MAX_QUESTIONS = 3


class Option(msgspec.Struct, frozen=True, kw_only=True):
    label: str
    description: str = ""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """One question. Without options the answer is free text."""

    id: str
    question: str
    header: str = ""
    options: list[Option] = []


class RequestUserInputArgs(msgspec.Struct, frozen=True, kw_only=True):
    questions: list[Asked]


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
        from spindle.protocol.questions import RequestUserInput as Request  # with the first question

        args = parse_arguments(call, RequestUserInputArgs)
        if not 1 <= len(args.questions) <= MAX_QUESTIONS:
            raise ToolError(f"ask one to {MAX_QUESTIONS} questions at a time, not {len(args.questions)}")
        questions = [
            {
                "id": asked.id,
                "header": asked.header,
                "question": asked.question,
                "isOther": True,
                "isSecret": False,
                "options": [{"label": one.label, "description": one.description} for one in asked.options] or None,
            }
            for asked in args.questions
        ]
        response = await ctx.person.ask(
            "user_input", Request(call_id=ctx.call_id, turn_id=ctx.turn_id, questions=questions)
        )
        return ToolResult(output=encode_payload({"answers": _answers(response)}).decode())


def _answers(response: dict[str, Any]) -> dict[str, Any]:
    """By question: the words that were chosen or typed. Older clients tell these apart."""
    given = response.get("answers")
    answers: dict[str, Any] = {}
    for question, answer in given.items() if isinstance(given, dict) else ():
        said = answer if isinstance(answer, dict) else {}
        words = [*(said.get("answers") or ()), *(said.get("selected") or ()), said.get("other")]
        answers[question] = {"answers": [word for word in words if isinstance(word, str)]}
    return answers


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
