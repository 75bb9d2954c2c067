"""Permission to reach more than the sandbox allows, for a turn or for the session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec

from spindle.core.permission.approvals import Answer, Approvals, CallSite
from spindle.core.permission.matter import Matter
from spindle.errors import Rejected
from spindle.policy.approval import Ask, Decision, Refuse
from spindle.policy.grants import Expiry, Grant, NetworkScope, PlaceScope, network_grant, place_grant
from spindle.policy.sandbox import Boundary
from spindle.policy.widening import Given, Widening, Wish, bounded
from spindle.protocol.events import Msg
from spindle.protocol.quote import visible
from spindle.protocol.tool_servers import ElicitationRequest
from spindle.tools.tool import Permit

TOOL = "request_permissions"
_REASON_CHARS = 500
_NEVER = "the approval policy is never, so nobody is asked"
_LESS = "the user gave less than was asked for"


def widening_of(grants: Iterable[Grant]) -> Widening:
    """What these grants add to the sandbox."""
    more = Widening()
    for grant in grants:
        match grant.scope:
            case PlaceScope(path=path, access="read"):
                more = more.joined(Widening(read=(path,)))
            case PlaceScope(path=path):
                more = more.joined(Widening(write=(path,)))
            case NetworkScope():
                more = more.joined(Widening(network=True))
            case _:
                pass
    return more


def _grants(more: Widening, expires: Expiry) -> list[Grant]:
    return [
        *([network_grant(expires=expires)] if more.network else ()),
        *(place_grant(path, "read", expires=expires) for path in more.read),
        *(place_grant(path, "write", expires=expires) for path in more.write),
    ]


async def more_given(
    wish: Wish, approvals: Approvals, site: CallSite, obtain: Callable[[Matter], Awaitable[Permit]]
) -> Given:
    """What comes of a wish; a no is an answer like others, and says why."""
    asked = bounded(wish, site.drawn, approvals.allowed)
    if site.boundary.is_full_access:  # there is nothing to give that commands do not have
        return Given(more=asked.more, expires="session", reasons=asked.refused)
    if not asked.more:
        return Given(reasons=asked.refused)
    matter = MorePermissions(approvals, site, asked.more, wish.reason)
    try:
        await obtain(matter)
    except Rejected as refusal:
        return Given(reasons=(*asked.refused, str(refusal)))
    less = (_LESS,) if matter.given.more != asked.more else ()
    return msgspec.structs.replace(matter.given, reasons=(*asked.refused, *less))


class MorePermissions(Matter):
    """One wish of a model, without what nobody could give it."""

    kind = "elicitation"
    refusal = "the user said no"

    def __init__(self, approvals: Approvals, site: CallSite, wish: Widening, said: str | None) -> None:
        super().__init__(approvals, site)
        self._wish = wish
        self._said = visible((said or "").strip()[:_REASON_CHARS]) or None
        self.given = Given()

    @property
    def boundary(self) -> Boundary:
        return self.site.drawn  # else what is given now would be given in another sandbox than what is given next

    def decide(self) -> Decision:
        return (
            Refuse(message=_NEVER)
            if self.site.settings.approval_policy == "never"
            else Ask(kinds=("request_permissions",))
        )

    def key(self, ask: Ask) -> object:
        return TOOL, self._wish

    def grants(self, ask: Ask, expires: Expiry) -> list[Grant]:
        return _grants(self._wish, "turn" if expires == "once" else expires)

    def request(self, ask: Ask, offers: list[dict[str, Any]]) -> Msg:
        said = f" The model says: {self._said}" if self._said else ""
        return ElicitationRequest(
            server_name="",
            id=self.site.call_id,
            message=f"Let commands in the sandbox {self._in_words()}?{said}",
            kind="tool_approval",
            call_id=self.site.call_id,
            turn_id=self.site.turn_id,
            invocation={"tool": TOOL, "arguments": {"permissions": self._wish.to_wire(), "reason": self._said}},
            permissions=self._wish.to_wire(),
            cwd=self.site.settings.cwd,
            if_approved=f"commands of this turn, or of the session, {self._in_words()}; all else stays as it is",
            available_decisions=[offer["decision"] for offer in offers],
            offers=offers,
        )

    def title(self, ask: Ask) -> str:
        return f"let commands {self._in_words()}"

    def settle(self, ask: Ask, answer: Answer) -> None:
        if answer.is_yes:
            content = answer.content or {}
            more = self._part(content["permissions"]) if "permissions" in content else self._wish
            self._give(Given(more=more, expires="session" if answer.word == "approved_for_session" else "turn"))

    def permit(self, ask: Ask, answer: Answer | None = None) -> Permit:
        if answer is None:  # a hook said yes, or a person has before
            is_lasting = self.approvals.grants.lasting(self.grants(ask, "session"), self.boundary)
            self._give(Given(more=self._wish, expires="session" if is_lasting else "turn"))
        return super().permit(ask, answer)

    def _part(self, answer: Any) -> Widening:
        """What an answer names of it; below a folder that can be given there may be one that cannot."""
        named = self._wish.within(answer)
        asked = Wish(network=named.network, read=named.read, write=named.write)
        return bounded(asked, self.site.drawn, self.approvals.allowed).more

    def _give(self, given: Given) -> None:
        self.given = given
        self.approvals.keep(_grants(given.more, given.expires), self.boundary, self.site.emit)

    def _in_words(self) -> str:
        wish = self._wish
        parts = ["use the network"] if wish.network else []
        parts += [f"read {', '.join(map(visible, wish.read))}"] if wish.read else []
        parts += [f"write {', '.join(map(visible, wish.write))}"] if wish.write else []
        return " and ".join(parts)
