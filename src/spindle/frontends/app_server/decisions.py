"""Answers about commands and patches: as a session offers and takes them, as clients know them. Pure."""

from __future__ import annotations

from typing import Any

from spindle.frontends.app_server.objects import Wire
from spindle.frontends.app_server.server_requests import ApprovalReply
from spindle.protocol.ops import ExecApproval, Op, PatchApproval

_DECISIONS = {
    "approved": "accept",
    "approved_for_session": "acceptForSession",
    "denied": "decline",
    "abort": "cancel",
}


def decision_for_client(decision: Any) -> Any:
    """An answer that a session offers, as clients know it."""
    if isinstance(decision, dict):
        prefix = next(iter(decision.values()), {}).get("proposed_execpolicy_amendment")
        return {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": prefix}}
    return _DECISIONS.get(decision, decision)


def decision_from_client(decision: Any) -> Any:
    """A client's answer, as a session takes it. What is not known is a no."""
    if isinstance(decision, dict):
        details = decision.get("acceptWithExecpolicyAmendment")
        prefix = details.get("execpolicy_amendment") if isinstance(details, dict) else None
        if not isinstance(prefix, list):
            return "denied"
        return {"approved_execpolicy_amendment": {"proposed_execpolicy_amendment": prefix}}
    known = {theirs: ours for ours, theirs in _DECISIONS.items()}
    return known.get(decision, "denied")


def approval_op(kind: type[ExecApproval] | type[PatchApproval], call_id: str, reply: Wire | None) -> tuple[Op, bool]:
    """The op that passes an answer on, and whether it is a no. No answer is a no."""
    decision = decision_from_client(reply.decision) if isinstance(reply, ApprovalReply) else "denied"
    return kind(id=call_id, decision=decision), decision in ("denied", "abort")
