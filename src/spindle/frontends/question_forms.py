"""What a turn may ask its client, and the parts of asking that front ends share. Pure."""

from __future__ import annotations

from typing import Any

from spindle.api.requests import Decision, Question, answer_op, approval_op
from spindle.protocol.events import ApplyPatchApprovalRequest, ExecApprovalRequest, Msg
from spindle.protocol.ops import DynamicToolResponse, Op
from spindle.protocol.questions import DynamicToolCallRequest, RequestUserInput
from spindle.protocol.tool_servers import ElicitationRequest

QUESTIONS = (
    ExecApprovalRequest,
    ApplyPatchApprovalRequest,
    ElicitationRequest,
    RequestUserInput,
    DynamicToolCallRequest,
)
"""The events that wait for an answer."""


def no_answer(question: Msg) -> Op:
    """The op for a question that nobody answers: a no, and the turn goes on."""
    match question:
        case RequestUserInput():
            return answer_op(question, None)
        case DynamicToolCallRequest(call_id=call_id):
            return DynamicToolResponse(id=call_id, response={"success": False, "content_items": []})
        case _:
            return approval_op(question, Decision("denied"))


def form_of(questions: list[Question]) -> dict[str, Any]:
    """The model's questions as the schema of a form."""
    return {"type": "object", "properties": {question.id: _field(question) for question in questions}}


def answers_in(content: dict[str, Any], questions: list[Question]) -> dict[str, list[str]]:
    """What was filled in, by question."""
    said = {question.id: content.get(question.id) for question in questions}
    return {name: [value] for name, value in said.items() if isinstance(value, str)}


def _field(question: Question) -> dict[str, Any]:
    field: dict[str, Any] = {"type": "string", "title": question.header or question.id}
    said = [f"{option.label}: {option.description}" for option in question.options if option.description]
    field["description"] = "\n".join([question.question, *said])
    if question.options:
        field["enum"] = [option.label for option in question.options]
    return field
