"""`request_user_input` puts questions of the model to the person, in plan mode."""

from __future__ import annotations

from typing import Any

import msgspec

from spindle.errors import ToolError
from spindle.protocol.items import encode_payload
from spindle.protocol.questions import RequestUserInput
from spindle.tools.tool import ToolCall, ToolContext, ToolResult, parse_arguments

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


async def run(call: ToolCall, ctx: ToolContext) -> ToolResult:
    mode = ctx.settings.collaboration_mode.mode
    if mode != "plan":
        raise ToolError(f"request_user_input is unavailable in {mode.capitalize()} mode")
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
        "user_input", RequestUserInput(call_id=ctx.call_id, turn_id=ctx.turn_id, questions=questions)
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
