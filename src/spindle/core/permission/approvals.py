"""The open questions of a session, the answers to them, and what was granted for its lifetime.

`asking` decides what needs no question, and asks the rest; that module and the rules are loaded when
the first call needs permission, so the first request does not wait for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from spindle.policy.rulebook import RuleBook
from spindle.policy.sandbox import Boundary
from spindle.protocol.events import GrantAdded, GrantRevoked, Msg, Warning
from spindle.protocol.ops import (
    DynamicToolResponse,
    ExecApproval,
    Op,
    PatchApproval,
    ResolveElicitation,
    UserInputAnswer,
)
from spindle.protocol.settings import Allowed, ThreadSettings

if TYPE_CHECKING:
    from spindle.core.permission.asking import CallPermission
    from spindle.core.permission.person import CallPerson
    from spindle.policy.grants import Grant, Grants
    from spindle.policy.widening import Widening

AMENDMENT = "approved_execpolicy_amendment"
Consult = Callable[[str, str | None], Awaitable[bool]]
"""Asked before a person is, with the call and why: true for yes; raises Rejected for no."""
_WORDS = {
    "allow": "approved",
    "deny": "denied",
    "accept": "approved",
    "accept_for_session": "approved_for_session",
    "decline": "denied",
}
_APPROVED = frozenset(("approved", "approved_for_session", AMENDMENT))


class CallSite(msgspec.Struct, frozen=True, kw_only=True):
    """The call that asks, and what holds for it."""

    sub_id: str
    """The submission its turn answers; part of every question's event."""
    turn_id: str
    call_id: str
    settings: ThreadSettings
    boundary: Boundary
    emit: Callable[[Msg], None]
    consult: Consult | None = None
    base: Boundary | None = None
    """The boundary without what a person gave the thread beside it, where that is another one."""

    @property
    def drawn(self) -> Boundary:
        """The boundary that the settings alone draw."""
        return self.boundary if self.base is None else self.base


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a person said. Whatever cannot be read as a yes is a no."""

    word: str
    prefix: tuple[str, ...] | None = None
    """The beginning to be allowed for good, where the answer names one."""
    content: dict[str, Any] | None = None
    """The form that a server wanted filled in."""
    reason: str = ""
    """Why it is a no, where the person says so; the model reads it."""

    @property
    def is_yes(self) -> bool:
        return self.word in _APPROVED

    @classmethod
    def read(cls, decision: Any) -> Answer:
        """A word, or an object whose one key is the word: `{"denied": {"reason": "…"}}`."""
        details = None
        if isinstance(decision, dict):
            decision, details = next(iter(decision.items()), (None, None))
        word = _WORDS.get(decision, decision) if isinstance(decision, str) else "denied"
        details = details if isinstance(details, dict) else {}
        prefix, reason = details.get("proposed_execpolicy_amendment"), details.get("reason")
        if not isinstance(prefix, list) or not all(isinstance(part, str) for part in prefix):
            prefix = ()
        return cls(word=word, prefix=tuple(prefix) or None, reason=reason.strip() if isinstance(reason, str) else "")


def reading(op: Op) -> tuple[str, str, Any, dict[str, Any] | None]:
    """Which question an op answers and how: its kind, its id, the decision, and what was filled in."""
    match op:
        case ExecApproval(id=request_id, decision=decision):
            return "exec", request_id, decision, None
        case PatchApproval(id=request_id, decision=decision):
            return "patch", request_id, decision, None
        case ResolveElicitation(request_id=request_id, decision=decision, content=content):
            return "elicitation", str(request_id), decision, content
        case UserInputAnswer(id=request_id, response=response):
            return "user_input", request_id, "approved", response
        case DynamicToolResponse(id=request_id, response=response):
            return "dynamic_tool", request_id, "approved", response
        case _:
            raise TypeError(f"{type(op).__name__} answers nothing")


class Question:
    """One open request. Answered by its call id, or by the id of its event, which it shares with others of the turn."""

    __slots__ = ("answer", "call_id", "closed", "key", "kind", "sub_id")

    def __init__(self, kind: str, sub_id: str, call_id: str, key: object) -> None:
        loop = asyncio.get_running_loop()
        self.kind = kind
        self.sub_id = sub_id
        self.call_id = call_id
        self.key = key
        """Equal for questions about the very same thing."""
        self.answer: asyncio.Future[Answer] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        """Done when the answer has had its effect."""

    @property
    def refusal(self) -> Answer | None:
        """The answer if it was a no, also when nobody will answer any more."""
        if not self.answer.done():
            return None
        answer = Answer(word="denied") if self.answer.cancelled() else self.answer.result()
        return None if answer.is_yes else answer


class Approvals:
    """The session's questions to a person and what was granted for its lifetime."""

    def __init__(
        self,
        sandbox_problem: Callable[[], Awaitable[str | None]],
        interrupt: Callable[[], None],
        rules: RuleBook,
        mask: Callable[[str], str] = str,
        environment: Mapping[str, str] | None = None,
        note: Callable[[str, bool], None] = lambda what, is_granted: None,
        new_id: Callable[[], str] = str,
    ) -> None:
        self.sandbox_problem = sandbox_problem
        self.interrupt = interrupt
        self.rules = rules
        self.mask = mask
        """Takes secrets out of a text."""
        self.environment = environment if environment is not None else {}
        """That of commands."""
        self.note = note
        """Hears what a person was asked, and whether the answer was yes."""
        self.new_id = new_id
        self.is_attended = True
        """Somebody is there to answer."""
        self.allowed = Allowed()
        """What the administrator lets a person give."""
        self._open: list[Question] = []
        self._grants: Grants | None = None

    def permission(self, site: CallSite) -> CallPermission:
        """What one call gets its permissions from."""
        from spindle.core.permission.asking import CallPermission  # with the first call

        self.load_rules(site.emit)
        return CallPermission(self, site)

    def person(self, site: CallSite, *, answers_tools: bool) -> CallPerson:
        """Who answers the other questions of one call; `answers_tools` when somebody can answer those of tools."""
        from spindle.core.permission.person import CallPerson  # with the first call

        return CallPerson(self, site, answers_tools=answers_tools)

    # ---- questions -----------------------------------------------------------------------------

    def answer(self, kind: str, request_id: str, decision: Any, content: dict[str, Any] | None = None) -> bool:
        """Pass a person's answer on. False when no open question has that id; a second answer finds none."""
        waiting = [question for question in self._open if not question.answer.done()]
        named = [question for question in waiting if question.call_id == request_id]
        # The id of the event is that of the turn: the question that was put first is meant.
        named += [question for question in waiting if question.sub_id == request_id and question.kind == kind]
        if not named:
            return False
        named[0].answer.set_result(msgspec.structs.replace(Answer.read(decision), content=content))
        return True

    async def ask(
        self, question: Question, *, put: Callable[[], None], settle: Callable[[Answer], None] = lambda answer: None
    ) -> Answer:
        """Put the question and wait for the answer; `settle` gives it effect before anybody else is let on."""
        self._open.append(question)
        try:
            put()
            answer = await question.answer
            settle(answer)
            return answer
        finally:
            self._open.remove(question)
            question.closed.set_result(None)

    def in_the_way_of(self, question: Question) -> Question | None:
        """Nothing is asked twice at a time, and an id must mean one question: a model chooses its call ids."""

        def collides(other: Question) -> bool:
            ids = (other.call_id, other.sub_id)
            return question.call_id in ids or question.sub_id == other.call_id or question.key == other.key

        return next((other for other in self._open if collides(other)), None)

    # ---- grants --------------------------------------------------------------------------------

    @property
    def grants(self) -> Grants:
        if self._grants is None:
            from spindle.policy.grants import Grants  # with the first question

            self._grants = Grants()
        return self._grants

    def keep(self, offered: Iterable[Grant], boundary: Boundary, emit: Callable[[Msg], None]) -> None:
        """Hold what a person granted in this boundary for as long as they said."""
        for one in offered:
            grant = self.grants.add(one, boundary)
            if grant is not None and grant.expires != "turn":
                emit(GrantAdded(grant=grant.to_wire()))

    def begin_turn(self, draw: Callable[[Widening | None], Boundary], emit: Callable[[Msg], None]) -> None:
        """What was granted for the turn before, in another folder or in another sandbox ends."""
        if self._grants is not None:
            self._grants.end_turn()
            for grant in self._grants.end_outside(draw(None), draw(self.widening())):
                emit(GrantRevoked(grant=grant.to_wire(), reason="settings_changed"))

    def widening(self) -> Widening | None:
        """What a person gave the thread beside what its sandbox allows; None for nothing."""
        held = [] if self._grants is None else [one for one in self._grants if one.effect == "reach_more"]
        if not held:
            return None
        from spindle.core.permission.more import widening_of  # after a person has given something

        return widening_of(held)

    def list_grants(self) -> list[Grant]:
        """What holds for the session, then what was allowed for good."""
        from spindle.policy.grants import prefix_grant  # seldom asked for

        saved = [prefix_grant(prefix) for prefix in self.rules.saved()] if self.rules.is_on else []
        return [*self.grants, *saved]

    def revoke(self, grant_id: str) -> Grant | None:
        """Takes effect at once: the next command asks again. None when there is no such grant."""
        from spindle.policy.grants import PrefixScope  # seldom asked for

        grant = next((grant for grant in self.list_grants() if grant.id == grant_id), None)
        if grant is not None and isinstance(grant.scope, PrefixScope):
            return grant if self.rules.revoke(grant.scope.prefix) else None
        return self.grants.revoke(grant_id)

    def prefixes_to_tell(self, settings: ThreadSettings, emit: Callable[[Msg], None]) -> tuple[tuple[str, ...], ...]:
        """What the model is told that may run without the sandbox; only where it may ask for more."""
        if settings.approval_policy != "on-request":
            return ()
        prefixes = self.rules.allowed_prefixes()
        self.tell_about_rules(emit)
        return prefixes

    def load_rules(self, emit: Callable[[Msg], None]) -> None:
        """Before the model has had a tool in hand: what it writes now is no rule for this thread."""
        if self.rules.is_on:
            _ = self.rules.rules
        self.tell_about_rules(emit)

    def tell_about_rules(self, emit: Callable[[Msg], None]) -> None:
        """Say, once, what is wrong with the rule files."""
        warnings, self.rules.warnings = self.rules.warnings, []
        for text in warnings:
            emit(Warning(message=text))
