"""May it run? Policy decides; where it says "ask", a person does. Holds the open questions and the session's grants.

The rules themselves are imported when the first command or patch wants leave: the first request does not wait for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from spindle.errors import Rejected
from spindle.policy.sandbox import Boundary
from spindle.protocol.events import ApplyPatchApprovalRequest, ExecApprovalRequest, Msg
from spindle.protocol.settings import ThreadSettings
from spindle.tools.tool import Permit

APPROVED = frozenset(("approved", "allow", "approved_for_session"))


class Question:
    """One open request. Answered by the id of its event or by its call id."""

    __slots__ = ("answer", "call_id", "sub_id")

    def __init__(self, sub_id: str, call_id: str) -> None:
        self.sub_id = sub_id
        self.call_id = call_id
        self.answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()


class Approvals:
    """The session's questions to a person and what was granted for its lifetime."""

    def __init__(
        self,
        sandbox_problem: Callable[[], Awaitable[str | None]],
        interrupt: Callable[[], None],
    ) -> None:
        self._sandbox_problem = sandbox_problem
        self._interrupt = interrupt
        self._open: list[Question] = []
        self._granted_commands: set[tuple[tuple[str, ...], str, bool]] = set()
        self._granted_paths: set[str] = set()

    def for_call(
        self,
        *,
        sub_id: str,
        turn_id: str,
        call_id: str,
        settings: ThreadSettings,
        boundary: Boundary,
        emit: Callable[[Msg], None],
    ) -> CallApprovals:
        """The two questions one tool call may put."""
        return CallApprovals(self, sub_id, turn_id, call_id, settings, boundary, emit)

    def answer(self, request_id: str, decision: Any) -> bool:
        """Pass a person's answer on. False when no open question has that id."""
        if isinstance(decision, dict):
            decision = next(iter(decision), None)
        word = decision if isinstance(decision, str) else "denied"
        if word == "approved_execpolicy_amendment":
            word = "approved"
        question = next((q for q in self._open if q.call_id == request_id), None) or next(
            (q for q in self._open if q.sub_id == request_id), None
        )
        if question is None or question.answer.done():
            return False
        question.answer.set_result(word)
        return True

    async def ask(self, question: Question) -> str:
        self._open.append(question)
        try:
            return await question.answer
        finally:
            self._open.remove(question)


class CallApprovals:
    """`permit_command` and `permit_patch` of one tool call."""

    def __init__(
        self,
        approvals: Approvals,
        sub_id: str,
        turn_id: str,
        call_id: str,
        settings: ThreadSettings,
        boundary: Boundary,
        emit: Callable[[Msg], None],
    ) -> None:
        self._all = approvals
        self._sub_id = sub_id
        self._turn_id = turn_id
        self._call_id = call_id
        self._settings = settings
        self._boundary = boundary
        self._emit = emit

    async def permit_command(
        self,
        argv: list[str],
        *,
        cwd: str,
        escalated: bool = False,
        justification: str | None = None,
        prefix_rule: list[str] | None = None,
    ) -> Permit:
        from spindle.policy.approval import USER_REJECTED_COMMAND, Allow, Ask, Refuse, decide_command
        from spindle.policy.commands import parse_command

        settings = self._settings
        decision = decide_command(
            argv,
            policy=settings.approval_policy,
            sandbox=settings.sandbox,
            escalated=escalated,
            sandbox_available=settings.sandbox.is_full_access or await self._all._sandbox_problem() is None,
        )
        match decision:
            case Refuse(message=message):
                raise Rejected(message)
            case Allow(sandboxed=sandboxed):
                return Permit(sandboxed=sandboxed)
            case Ask(reason=reason, sandboxed_if_approved=sandboxed):
                pass
        grant = (tuple(argv), cwd, escalated)
        if grant not in self._all._granted_commands:
            self._emit(
                ExecApprovalRequest(
                    call_id=self._call_id,
                    turn_id=self._turn_id,
                    command=argv,
                    cwd=cwd,
                    reason=justification or reason or None,
                    parsed_cmd=parse_command(argv),
                )
            )
            if await self._approved(USER_REJECTED_COMMAND):
                self._all._granted_commands.add(grant)
        return Permit(sandboxed=sandboxed, asked=True)

    async def permit_patch(self, changes: dict[str, Any]) -> Permit:
        from spindle.policy.approval import USER_REJECTED_PATCH, Allow, Ask, Refuse, decide_patch

        paths = [path for target, change in changes.items() for path in (target, change.get("move_path")) if path]
        match decide_patch(paths, policy=self._settings.approval_policy, boundary=self._boundary):
            case Refuse(message=message):
                raise Rejected(message)
            case Allow(sandboxed=sandboxed):
                return Permit(sandboxed=sandboxed)
            case Ask(reason=reason, sandboxed_if_approved=sandboxed):
                pass
        if not self._all._granted_paths.issuperset(paths):
            self._emit(
                ApplyPatchApprovalRequest(
                    call_id=self._call_id, turn_id=self._turn_id, changes=changes, reason=reason or None
                )
            )
            if await self._approved(USER_REJECTED_PATCH):
                self._all._granted_paths.update(paths)
        return Permit(sandboxed=sandboxed, asked=True)

    async def _approved(self, refusal: str) -> bool:
        """Wait for the answer. True when it holds for the session; raises Rejected when it is a no."""
        decision = await self._all.ask(Question(self._sub_id, self._call_id))
        if decision in APPROVED:
            return decision == "approved_for_session"
        if decision == "abort":
            self._all._interrupt()
        raise Rejected(refusal, by_user=True)
