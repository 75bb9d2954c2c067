"""The one loop by which a call gets permission, whatever it is for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from spindle.core.permission.approvals import Answer, Approvals, CallSite, Question
from spindle.core.permission.commands import CommandRun, Escalation
from spindle.core.permission.kinds import Kinds
from spindle.core.permission.matter import Matter
from spindle.errors import Rejected
from spindle.policy.approval import Allow, Ask, Refuse
from spindle.tools.tool import Permit

if TYPE_CHECKING:
    from spindle.tools.command_arguments import PermissionArgs

_INTERRUPT_S = 5.0
"""How long an interrupt that a person asked for may take to reach this call."""
_NOBODY = (
    "rejected: approval is needed for this, and nobody can be asked in this run; do without it, or say in your answer "
    "what is needed"
)


class CallPermission(Kinds):
    """The permissions of one call: the tools' `Permission`."""

    def __init__(self, approvals: Approvals, site: CallSite) -> None:
        super().__init__(approvals, site)
        self._consulted: set[object] = set()

    async def command(self, argv: list[str], *, cwd: str, wants: PermissionArgs, tty: bool = False) -> Permit:
        has_sandbox = self._site.boundary.is_full_access or await self._approvals.sandbox_problem() is None
        escalation = Escalation(
            is_wanted=wants.is_escalated,
            justification=wants.justification,
            prefix_rule=tuple(wants.prefix_rule or ()),
        )
        return await self.obtain(
            CommandRun(self._approvals, self._site, argv, cwd, escalation, has_sandbox, is_typed_into=tty)
        )

    async def obtain(self, matter: Matter) -> Permit:
        """Whatever the matter is: policy, then what was granted, then hooks, then a person. Raises Rejected."""
        while True:
            match matter.decide():
                case Refuse(message=message):
                    raise Rejected(message)
                case Allow(sandboxed=sandboxed):
                    return Permit(sandboxed=sandboxed)
                case Ask() as ask:
                    self.refuse_unasked(ask)
            granted = self._approvals.grants.cover(matter.grants(ask, "session"), matter.boundary)
            if granted and matter.may_be_remembered(ask):
                return matter.permit(ask)
            question = Question(matter.kind, self._site.sub_id, self._site.call_id, matter.key(ask))
            if await self._is_given(question.key, matter.reason(ask)):
                return matter.permit(ask)
            if not self._approvals.is_attended:
                raise Rejected(_NOBODY)
            other = self._approvals.in_the_way_of(question)
            if other is None:
                break
            await asyncio.wait([other.closed])
            if other.key == question.key and (refusal := other.refusal) is not None:
                raise _refused(matter, refusal)
        answer = await self._ask_person(question, matter, ask)
        if not answer.is_yes:
            raise _refused(matter, answer)
        return matter.permit(ask, answer)

    async def _is_given(self, key: object, reason: str | None) -> bool:
        """A hook says yes in a person's place. Each is asked once about a thing; raises Rejected when one says no."""
        if self._site.consult is None or key in self._consulted:
            return False
        self._consulted.add(key)
        return await self._site.consult(self._site.call_id, reason)

    async def _ask_person(self, question: Question, matter: Matter, ask: Ask) -> Answer:
        answer = await self._approvals.ask(
            question,
            put=lambda: self._site.emit(matter.request(ask, matter.offers(ask))),
            settle=lambda answer: matter.settle(ask, answer),
        )
        self._approvals.note(matter.title(ask), answer.is_yes)
        if answer.word == "abort":
            self._approvals.interrupt()
            # The model must not be asked again before the interrupt has found this turn.
            await asyncio.sleep(_INTERRUPT_S)
        return answer


def _refused(matter: Matter, answer: Answer) -> Rejected:
    """A person said no; the model reads that, and why where the person said so."""
    if not answer.reason:
        return Rejected(matter.refusal, by_user=True)
    return Rejected(f"{matter.refusal}: {answer.reason}", by_user=True, has_reason=True)
