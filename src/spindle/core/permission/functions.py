"""Permission to call a function of the program that Spindle runs in."""

from __future__ import annotations

from typing import Any

from spindle.core.permission.approvals import Approvals, CallSite
from spindle.core.permission.matter import Matter, arguments_shown
from spindle.policy.approval import USER_REJECTED_TOOL, Ask, Decision
from spindle.policy.grants import Expiry, Grant, tool_grant
from spindle.protocol.events import Msg
from spindle.protocol.items import encode_payload
from spindle.protocol.quote import visible
from spindle.protocol.tool_servers import ElicitationRequest


class FunctionCall(Matter):
    """One call of a function whose author wants a person to be asked, whatever sandbox there is."""

    kind = "elicitation"
    refusal = USER_REJECTED_TOOL

    def __init__(self, approvals: Approvals, site: CallSite, name: str, arguments: dict[str, Any]) -> None:
        super().__init__(approvals, site)
        self._name = name
        self._arguments = arguments

    def decide(self) -> Decision:
        # Whatever the policy: that is about commands and patches. Where nobody can be asked, the tool does not ask.
        return Ask(kinds=())

    def key(self, ask: Ask) -> object:
        return "function", self._name, encode_payload(self._arguments)

    def grants(self, ask: Ask, expires: Expiry) -> list[Grant]:
        return [tool_grant("", self._name, expires=expires)]

    def request(self, ask: Ask, offers: list[dict[str, Any]]) -> Msg:
        return ElicitationRequest(
            server_name="",
            id=self.site.call_id,
            message=f"Use the tool {visible(self._name)}? Arguments: {arguments_shown(self._arguments)}",
            kind="tool_approval",
            call_id=self.site.call_id,
            turn_id=self.site.turn_id,
            invocation={"tool": self._name, "arguments": self._arguments},
            if_approved="the function runs in this program, with all its rights: the sandbox does not cover it",
            available_decisions=[offer["decision"] for offer in offers],
            offers=offers,
        )

    def title(self, ask: Ask) -> str:
        return f"tool {visible(self._name)}"
