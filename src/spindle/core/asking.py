"""How one tool call puts a question to a person: what all kinds of questions have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from spindle.core.approvals import Answer, Approvals, Consult, Question
from spindle.errors import Rejected
from spindle.policy.grants import Grant
from spindle.policy.sandbox import Boundary
from spindle.protocol.events import GrantAdded, Msg
from spindle.protocol.settings import ThreadSettings

_INTERRUPT_S = 5.0
"""How long an interrupt that a person asked for may take to reach this call."""


class Asking:
    """The questions of one call."""

    def __init__(
        self,
        approvals: Approvals,
        sub_id: str,
        turn_id: str,
        call_id: str,
        settings: ThreadSettings,
        boundary: Boundary,
        emit: Callable[[Msg], None],
        consult: Consult | None = None,
    ) -> None:
        self._consult = consult
        self._consulted: set[object] = set()
        self._all = approvals
        self._sub_id = sub_id
        self._turn_id = turn_id
        self._call_id = call_id
        self._settings = settings
        self._boundary = boundary
        self._emit = emit

    async def _is_given(self, key: object, reason: str | None) -> bool:
        """A hook says yes in a person's place. Each is asked once about a thing; raises Rejected when one says no."""
        if self._consult is None or key in self._consulted:
            return False
        self._consulted.add(key)
        return await self._consult(self._call_id, reason)

    async def ask(self, kind: str, request: Msg) -> dict[str, Any]:
        """Put a question of a tool's own; gives what was answered."""
        question = Question(kind, self._sub_id, self._call_id, (kind, self._call_id))
        while (other := self._all.in_the_way_of(question)) is not None:
            await asyncio.wait([other.closed])
        answer = await self._all.ask(question, lambda: self._emit(request), lambda answer: None)
        return answer.content or {}

    async def _is_free(self, question: Question, refusal: str) -> bool:
        """True when the question can be put now. Else waits for the one in its way, whose "no" counts here too."""
        other = self._all.in_the_way_of(question)
        if other is None:
            return True
        await asyncio.wait([other.closed])
        if other.key == question.key and other.is_refused:
            raise Rejected(refusal, by_user=True)
        return False

    async def _ask(
        self, question: Question, what: str, put: Callable[[], None], settle: Callable[[Answer], None]
    ) -> Answer:
        answer = await self._all.ask(question, put, settle)
        self._all.note(what, answer.is_yes)
        if answer.word == "abort":
            self._all.interrupt()
            # The model must not be asked again before the interrupt has found this turn.
            await asyncio.sleep(_INTERRUPT_S)
        return answer

    def _grant(self, offered: Grant) -> None:
        grant = self._all.grants.add(offered, self._boundary)
        if grant is not None:
            self._emit(GrantAdded(grant=grant.to_wire()))


def refusals() -> list[dict[str, Any]]:
    return [{"decision": "denied", "grants": []}, {"decision": "abort", "grants": []}]
