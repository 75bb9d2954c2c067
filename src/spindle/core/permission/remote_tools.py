"""Permission to use a tool of an MCP server."""

from __future__ import annotations

from typing import Any

import msgspec

from spindle.core.permission.approvals import Approvals, CallSite
from spindle.core.permission.matter import Matter, arguments_shown
from spindle.mcp.naming import RemoteTool
from spindle.policy.approval import USER_REJECTED_TOOL, Ask, Decision, decide_tool
from spindle.policy.grants import RESOURCES, Expiry, Grant, tool_grant
from spindle.protocol.events import Msg
from spindle.protocol.items import encode_payload
from spindle.protocol.quote import visible
from spindle.protocol.tool_servers import ElicitationRequest


class ToolUse(Matter):
    """One call of a server's tool. A person's yes for the session is for the tool as it is described now, whatever its
    arguments."""

    kind = "elicitation"
    refusal = USER_REJECTED_TOOL

    def __init__(
        self,
        approvals: Approvals,
        site: CallSite,
        tool: RemoteTool,
        arguments: dict[str, Any],
        *,
        mode: str | None,
        definition: str,
    ) -> None:
        super().__init__(approvals, site)
        self._tool = tool
        self._arguments = arguments
        self._mode = mode
        """What the user says of the server's tools: auto, prompt or approve."""
        self._definition = definition
        """Stands for what the server says of the tool now."""

    def decide(self) -> Decision:
        decision = decide_tool(
            self._tool.full_name,
            policy=self.site.settings.approval_policy,
            boundary=self.site.boundary,
            is_read_only=self._tool.is_read_only,
            mode=self._mode,
        )
        if isinstance(decision, Ask) and self._tool.has_changed:
            reason = "the server describes this tool otherwise than when the conversation began"
            return msgspec.structs.replace(decision, reason=reason)
        return decision

    def key(self, ask: Ask) -> object:
        return "tool", self._tool.server, self._tool.name, self._definition, encode_payload(self._arguments)

    def grants(self, ask: Ask, expires: Expiry) -> list[Grant]:
        return [tool_grant(self._tool.server, self._tool.name, definition=self._definition, expires=expires)]

    def request(self, ask: Ask, offers: list[dict[str, Any]]) -> Msg:
        tool = self._tool
        shown = arguments_shown(self._arguments)
        why = f" ({ask.reason})" if ask.reason else ""
        return ElicitationRequest(
            server_name=tool.server,
            id=self.site.call_id,
            message=f"Use the tool {visible(tool.name)} of the MCP server {tool.server}{why}? Arguments: {shown}",
            kind="tool_approval",
            call_id=self.site.call_id,
            turn_id=self.site.turn_id,
            invocation={"server": tool.server, "tool": tool.name, "arguments": self._arguments},
            if_approved="the server does it with all your rights: the sandbox does not cover MCP servers",
            available_decisions=[offer["decision"] for offer in offers],
            offers=offers,
        )

    def title(self, ask: Ask) -> str:
        return f"tool {visible(self._tool.name)} of MCP server {self._tool.server}"


class ResourceUse(ToolUse):
    """Listing or reading what a server keeps. A yes for the session is for all of that server's resources."""

    def __init__(
        self,
        approvals: Approvals,
        site: CallSite,
        server: str,
        name: str,
        arguments: dict[str, Any],
        *,
        mode: str | None,
        entry: str,
    ) -> None:
        """`entry` stands for the server's entry: a yes is for the one that answers now under its name."""
        tool = RemoteTool(full_name=name, server=server, name=name, description="", schema={}, raw={})
        super().__init__(approvals, site, tool, arguments, mode=mode, definition=f"{RESOURCES} {entry}")

    def decide(self) -> Decision:
        decision = super().decide()
        if isinstance(decision, Ask):
            return msgspec.structs.replace(decision, reason="the model chooses what the server is asked for")
        return decision

    def grants(self, ask: Ask, expires: Expiry) -> list[Grant]:
        return [tool_grant(self._tool.server, RESOURCES, definition=self._definition, expires=expires)]
