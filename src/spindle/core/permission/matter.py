"""What permission is asked for. A new kind of question is a new subclass of `Matter`; the loop in `asking` stays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from spindle.core.permission.approvals import Answer, Approvals, CallSite
from spindle.policy.approval import Ask, Decision
from spindle.policy.grants import Expiry, Grant
from spindle.policy.sandbox import Boundary
from spindle.protocol.events import Msg
from spindle.protocol.items import encode_payload
from spindle.protocol.quote import visible
from spindle.tools.tool import Permit

_ARGUMENTS_CHARS = 2000


class Matter(ABC):
    """One thing that a call wants to do.

    `ask` is what policy said about it last: the same command is another question inside the sandbox than outside.
    """

    kind: ClassVar[str]
    """Which ops answer it: exec, patch or elicitation."""
    refusal: ClassVar[str]
    """What the model reads when a person says no."""

    def __init__(self, approvals: Approvals, site: CallSite) -> None:
        self.approvals = approvals
        self.site = site

    @property
    def boundary(self) -> Boundary:
        """In which a yes to it holds."""
        return self.site.boundary

    @abstractmethod
    def decide(self) -> Decision:
        """What policy says. Asked anew after every wait: rules may have been added meanwhile."""

    @abstractmethod
    def key(self, ask: Ask) -> object:
        """Equal for questions about the very same thing."""

    @abstractmethod
    def grants(self, ask: Ask, expires: Expiry) -> list[Grant]:
        """What a yes allows. When all of it was granted before, nobody is asked."""

    @abstractmethod
    def request(self, ask: Ask, offers: list[dict[str, Any]]) -> Msg:
        """The question as front ends get it."""

    @abstractmethod
    def title(self, ask: Ask) -> str:
        """The question in one line, for the thread's ledger."""

    def reason(self, ask: Ask) -> str | None:
        """Why a person is asked."""
        return ask.reason

    def offers(self, ask: Ask) -> list[dict[str, Any]]:
        """Every answer that makes sense here, with what it would grant."""
        once = [grant.to_wire() for grant in self.grants(ask, "once")]
        session = [grant.to_wire() for grant in self.grants(ask, "session")]
        lasting = [{"decision": "approved_for_session", "grants": session}] if self.may_be_remembered(ask) else []
        return [
            {"decision": "approved", "grants": once},
            *lasting,
            {"decision": "denied", "grants": []},
            {"decision": "abort", "grants": []},
        ]

    def may_be_remembered(self, ask: Ask) -> bool:
        """Does a yes for the session still mean the same, the next time?"""
        return True

    def settle(self, ask: Ask, answer: Answer) -> None:
        """Give a person's answer its lasting effect. No other question is let on before this has happened."""
        if answer.word == "approved_for_session" and self.may_be_remembered(ask):
            self.approvals.keep(self.grants(ask, "session"), self.boundary, self.site.emit)

    def permit(self, ask: Ask, answer: Answer | None = None) -> Permit:
        """What a yes comes to. `answer` is a person's, None when nobody had to be asked."""
        return Permit(sandboxed=ask.sandboxed_if_approved, asked=True)


def arguments_shown(arguments: dict[str, Any]) -> str:
    """A tool's arguments for a question: nothing hidden in them, and not too long to be read."""
    shown = visible(encode_payload(arguments).decode())
    return shown if len(shown) <= _ARGUMENTS_CHARS else f"{shown[:_ARGUMENTS_CHARS]}… ({len(shown)} characters)"
