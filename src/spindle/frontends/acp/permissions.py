"""What a turn asks a person, as requests to the editor, and what the answers mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from spindle.api.requests import Decision, Question, Word, answer_op, approval_op, questions_of
from spindle.frontends.acp.tool_calls import command_call, other_call, patch_call
from spindle.frontends.json_rpc import RpcError
from spindle.frontends.question_forms import answers_in, form_of, no_answer
from spindle.frontends.rpc_peer import PeerGone, RpcPeer
from spindle.protocol.events import ApplyPatchApprovalRequest, ExecApprovalRequest, Msg
from spindle.protocol.ops import Op, ResolveElicitation
from spindle.protocol.questions import DynamicToolCallRequest, RequestUserInput
from spindle.protocol.tool_servers import ElicitationRequest

_YES = {"optionId": "approved", "name": "Yes", "kind": "allow_once"}
_ALWAYS = {
    "optionId": "approved_for_session",
    "name": "Yes, and do not ask again in this session",
    "kind": "allow_always",
}
_FOR_THE_SESSION = {"approved_for_session", "accept_for_session", "acceptForSession"}
_NO = {"optionId": "denied", "name": "No", "kind": "reject_once"}
_WORDS: dict[str, Word] = {
    "approved": "approved",
    "approved_for_session": "approved_for_session",
    "denied": "denied",
    "cancelled": "abort",
}


class Answer(msgspec.Struct, frozen=True):
    """What a person said: the op for the thread, and whether it is a no."""

    op: Op
    is_no: bool = False


class Asking:
    """Puts the questions of one session to its editor."""

    def __init__(
        self, peer: RpcPeer, session_id: str, diffs: Callable[[str], list[dict[str, Any]]], *, has_forms: bool
    ) -> None:
        self._peer = peer
        self._session_id = session_id
        self._diffs = diffs
        self._has_forms = has_forms

    async def ask(self, msg: Msg) -> Answer:
        """The person's answer; an editor that cannot ask means no."""
        try:
            match msg:
                case RequestUserInput():
                    return Answer(await self._questions(msg))
                case ElicitationRequest(kind="server_question"):
                    return Answer(await self._server_question(msg))
                case DynamicToolCallRequest():
                    return Answer(no_answer(msg), is_no=True)
                case _:
                    return await self._approval(msg)
        except (RpcError, PeerGone, msgspec.ValidationError):
            return Answer(no_answer(msg), is_no=True)

    # ---- yes or no -----------------------------------------------------------------------------

    async def _approval(self, msg: Msg) -> Answer:
        offered = getattr(msg, "available_decisions", [])
        has_grant = any(isinstance(word, str) and word in _FOR_THE_SESSION for word in offered)
        options = [_YES, *([_ALWAYS] if has_grant else []), _NO]
        word = _WORDS.get(await self._choose(self._call_of(msg), options), "denied")
        return Answer(approval_op(msg, Decision(word)), is_no=word in ("denied", "abort"))

    def _call_of(self, msg: Msg) -> dict[str, Any]:
        match msg:
            case ExecApprovalRequest():
                call = command_call(msg.call_id, msg.command, msg.cwd, msg.parsed_cmd, "pending")
                return {**call, "content": _reasons(msg.reason, msg.if_approved)}
            case ApplyPatchApprovalRequest(call_id=call_id, changes=changes, reason=reason):
                call = patch_call(call_id, changes, self._diffs(call_id), "pending")
                return {**call, "content": [*call["content"], *_reasons(reason)]}
            case ElicitationRequest():
                raw = msg.invocation or {}
                return other_call(msg.call_id or msg.id, msg.message, raw.get("arguments"), "pending")
            case _:
                raise TypeError(f"{type(msg).__name__} asks for no permission")

    async def _choose(self, call: dict[str, Any], options: list[dict[str, Any]]) -> str:
        """The id of the option that was chosen, or "cancelled"."""
        params = {"sessionId": self._session_id, "toolCall": call, "options": options}
        said = await self._peer.request("session/request_permission", params)
        outcome = said.get("outcome") if isinstance(said, dict) else None
        if not isinstance(outcome, dict):
            return "denied"
        return "cancelled" if outcome.get("outcome") == "cancelled" else str(outcome.get("optionId"))

    # ---- other questions -----------------------------------------------------------------------

    async def _questions(self, msg: RequestUserInput) -> Op:
        questions = questions_of(msg)
        if self._has_forms:
            text = " ".join(question.question for question in questions)
            action, content = await self._form(text, form_of(questions), msg.call_id)
            return answer_op(msg, answers_in(content, questions) if action == "accept" else None)
        answers: dict[str, list[str]] = {}
        for question in questions:
            chosen = await self._pick(question, msg.call_id)
            if chosen is None:
                return answer_op(msg, None)
            if chosen:
                answers[question.id] = [chosen]
        return answer_op(msg, answers or None)

    async def _pick(self, question: Question, call_id: str) -> str | None:
        """One question with its options, put as a request for permission.

        "" when it was left out, None when no more are to be asked.
        """
        options = [
            {"optionId": str(number), "name": option.label, "kind": "allow_once"}
            for number, option in enumerate(question.options)
        ]
        call = other_call(f"{call_id}-{question.id}", question.question, None, "pending")
        chosen = await self._choose(call, [*options, {**_NO, "name": "Skip"}]) if options else "denied"
        if chosen == "cancelled":
            return None
        is_known = chosen.isascii() and chosen.isdigit() and int(chosen) < len(options)
        return question.options[int(chosen)].label if is_known else ""

    async def _server_question(self, msg: ElicitationRequest) -> Op:
        schema = msg.requested_schema or {"type": "object", "properties": {}}
        content: dict[str, Any] | None = None
        if self._has_forms:
            action, content = await self._form(msg.message, schema, msg.call_id)
        elif schema.get("properties"):
            action = "decline"  # nobody can fill it in
        else:
            chosen = await self._choose(other_call(msg.call_id or msg.id, msg.message, None, "pending"), [_YES, _NO])
            action = {"approved": "accept", "cancelled": "cancel"}.get(chosen, "decline")
        return ResolveElicitation(
            server_name=msg.server_name,
            request_id=msg.id,
            decision=action,
            content=content if action == "accept" else None,
        )

    async def _form(self, text: str, schema: dict[str, Any], call_id: str) -> tuple[str, dict[str, Any]]:
        params = {
            "sessionId": self._session_id,
            **({"toolCallId": call_id} if call_id else {}),
            "mode": "form",
            "message": text,
            "requestedSchema": schema,
        }
        said = await self._peer.request("elicitation/create", params)
        action = said.get("action") if isinstance(said, dict) else None
        content = said.get("content") if isinstance(said, dict) else None
        known = action if action in ("accept", "decline", "cancel") else "decline"
        return known, content if isinstance(content, dict) else {}


def _reasons(*texts: str | None) -> list[dict[str, Any]]:
    """What a person must know before a yes."""
    said = "\n".join(text for text in texts if text)
    return [{"type": "content", "content": {"type": "text", "text": said}}] if said else []
