"""What a turn asks a person, as MCP elicitations, and what the answers mean. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from spindle.api.requests import Decision, Word, answer_op, approval_op, questions_of
from spindle.frontends.question_forms import answers_in, form_of
from spindle.protocol.events import ApplyPatchApprovalRequest, Event, ExecApprovalRequest, Msg
from spindle.protocol.ops import ExecApproval, Op, PatchApproval, ResolveElicitation
from spindle.protocol.questions import RequestUserInput
from spindle.protocol.quote import shell_join, visible
from spindle.protocol.tool_servers import ElicitationRequest

_NOTHING_TO_FILL_IN = {"type": "object", "properties": {}}
_WORDS: dict[str, Word] = {"accept": "approved", "decline": "denied", "cancel": "abort"}
_DECISIONS: tuple[Word, ...] = ("approved", "approved_for_session", "denied", "abort")


class Elicitation(msgspec.Struct, frozen=True):
    """A question, with the params of its request."""

    question: Msg
    params: dict[str, Any]


def elicitation(event: Event, thread_id: str, request_id: str) -> Elicitation | None:
    """The question of an event; None for one that no client of this protocol can answer."""
    msg = event.msg
    about: dict[str, Any]
    schema: dict[str, Any] = _NOTHING_TO_FILL_IN
    match msg:
        case ExecApprovalRequest():
            command = msg.display or visible(shell_join(msg.command))
            text = f"Allow Spindle to run `{command}` in `{visible(msg.cwd)}`?"
            about = {
                "codex_elicitation": "exec-approval",
                "codex_call_id": msg.call_id,
                "codex_command": msg.command,
                "codex_cwd": msg.cwd,
                "codex_parsed_cmd": msg.parsed_cmd,
            }
            text = _with_reason(text, msg.reason)
        case ApplyPatchApprovalRequest():
            text = f"Allow Spindle to change {', '.join(f'`{visible(path)}`' for path in msg.changes)}?"
            about = {
                "codex_elicitation": "patch-approval",
                "codex_call_id": msg.call_id,
                "codex_changes": msg.changes,
            }
            text = _with_reason(text, msg.reason)
        case ElicitationRequest():
            text = msg.message
            kind = "mcp-tool-approval" if msg.kind == "tool_approval" else "mcp-question"
            about = {"codex_elicitation": kind, "codex_call_id": msg.call_id, "codex_mcp_server": msg.server_name}
            schema = msg.requested_schema or _NOTHING_TO_FILL_IN
        case RequestUserInput():
            questions = questions_of(msg)
            text = " ".join(question.question for question in questions)
            about = {"codex_elicitation": "user-input", "codex_call_id": msg.call_id}
            schema = form_of(questions)
        case _:
            return None
    where = {"threadId": thread_id, "codex_mcp_tool_call_id": request_id, "codex_event_id": event.id}
    return Elicitation(msg, {"message": text, "requestedSchema": schema, **where, **about})


def _with_reason(text: str, reason: str | None) -> str:
    return f"{text}\n{visible(reason)}" if reason else text


def answer(asked: Elicitation, result: Any) -> Op:
    """The op that passes the client's answer on. What cannot be understood is a no."""
    said = result if isinstance(result, dict) else {}
    given = said.get("content")
    content: dict[str, Any] = given if isinstance(given, dict) else {}
    word = _WORDS.get(str(said.get("action")), "denied")
    match asked.question:
        case RequestUserInput() as msg:
            return answer_op(msg, answers_in(content, questions_of(msg)) if word == "approved" else None)
        case ElicitationRequest(kind="server_question") as msg:
            action = {"approved": "accept", "denied": "decline"}.get(word, "cancel")
            return ResolveElicitation(
                server_name=msg.server_name,
                request_id=msg.id,
                decision=action,
                content=content if action == "accept" else None,
            )
        case ExecApprovalRequest(call_id=call_id) | ApplyPatchApprovalRequest(call_id=call_id) as msg:
            decision = said.get("decision", content.get("decision"))
            if isinstance(decision, dict):
                kind = ExecApproval if isinstance(msg, ExecApprovalRequest) else PatchApproval
                return kind(id=call_id, decision=decision)
            return approval_op(msg, Decision(_decided(decision, word)))
        case msg:
            return approval_op(msg, Decision(_decided(said.get("decision", content.get("decision")), word)))


def _decided(decision: Any, word: Word) -> Word:
    if decision is None:
        return word
    return decision if decision in _DECISIONS else "denied"
