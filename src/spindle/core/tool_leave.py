"""Leave to use a tool of an MCP server, and the questions that servers themselves put to a person."""

from __future__ import annotations

from typing import Any

from spindle.core.approvals import Answer, Question
from spindle.core.asking import Asking, refusals
from spindle.errors import Rejected
from spindle.mcp.naming import RemoteTool
from spindle.policy.approval import USER_REJECTED_TOOL, Allow, Ask, Refuse, decide_tool
from spindle.policy.grants import tool_grant
from spindle.protocol.items import encode_payload
from spindle.protocol.quote import readable, visible
from spindle.protocol.tool_servers import ElicitationRequest

KIND = "elicitation"
_MESSAGE_CHARS = 4000
_ARGUMENTS_CHARS = 2000
_MCP_REACH = "the server does it with all your rights: the sandbox does not cover MCP servers"
_FUNCTION_REACH = "the function runs in the program itself, with all its rights: the sandbox does not cover it"


class ToolLeave(Asking):
    """`permit_tool` and `elicit` of one tool call."""

    async def permit_tool(self, tool: RemoteTool, arguments: dict[str, Any], mode: str | None) -> None:
        """Return when the tool may be called; else Rejected."""
        match decide_tool(
            tool.full_name,
            policy=self._settings.approval_policy,
            boundary=self._boundary,
            is_read_only=tool.is_read_only,
            mode=mode,
        ):
            case Allow():
                return
            case Refuse(message=message):
                raise Rejected(message)
            case Ask(reason=reason):
                await self._ask_about_tool(tool, arguments, reason)

    async def _ask_about_tool(self, tool: RemoteTool, arguments: dict[str, Any], reason: str | None) -> None:
        key = ("tool", tool.server, tool.name, encode_payload(arguments))
        while not self._all.grants.cover_tool(tool.server, tool.name, self._boundary):
            if await self._is_given(key, reason):
                return
            question = Question(KIND, self._sub_id, self._call_id, key)
            if not await self._is_free(question, USER_REJECTED_TOOL):
                continue

            def put() -> None:
                self._emit(self._request(tool, arguments, reason))

            def settle(answer: Answer) -> None:
                if answer.word == "approved_for_session":
                    self._grant(tool_grant(tool.server, tool.name, expires="session"))

            what = f"tool {visible(tool.name)}" + (f" of MCP server {tool.server}" if tool.server else "")
            if not (await self._ask(question, what, put, settle)).is_yes:
                raise Rejected(USER_REJECTED_TOOL, by_user=True)
            return

    def _request(self, tool: RemoteTool, arguments: dict[str, Any], reason: str | None) -> ElicitationRequest:
        offers = [
            {"decision": "approved", "grants": [tool_grant(tool.server, tool.name, expires="once").to_wire()]},
            {
                "decision": "approved_for_session",
                "grants": [tool_grant(tool.server, tool.name, expires="session").to_wire()],
            },
            *refusals(),
        ]
        shown = visible(encode_payload(arguments).decode())
        if len(shown) > _ARGUMENTS_CHARS:
            shown = f"{shown[:_ARGUMENTS_CHARS]}… ({len(shown)} characters)"
        why = f" ({reason})" if reason else ""
        return ElicitationRequest(
            server_name=tool.server,
            id=self._call_id,
            message=f"Use the tool {_owned(tool)}{why}? Arguments: {shown}",
            kind="tool_approval",
            call_id=self._call_id,
            turn_id=self._turn_id,
            invocation={**({"server": tool.server} if tool.server else {}), "tool": tool.name, "arguments": arguments},
            if_approved=_MCP_REACH if tool.server else _FUNCTION_REACH,
            available_decisions=[offer["decision"] for offer in offers],
            offers=offers,
        )

    async def elicit(self, server: str, params: dict[str, Any]) -> dict[str, Any]:
        """What a person answers to a server; where nobody is to be asked, nobody is."""
        if self._settings.approval_policy == "never":
            return {"action": "decline"}
        request_id = f"{server}:{self._all.new_id()}"
        question = Question(KIND, request_id, request_id, ("elicitation", request_id))
        schema = params.get("requestedSchema")
        request = ElicitationRequest(
            server_name=server,
            id=request_id,
            message=readable(str(params.get("message") or ""))[:_MESSAGE_CHARS],
            requested_schema=schema if isinstance(schema, dict) else None,
            call_id=self._call_id,
            turn_id=self._turn_id,
            available_decisions=["accept", "decline", "cancel"],
        )
        answer = await self._all.ask(question, lambda: self._emit(request), lambda answer: None)
        if answer.word == "cancel":
            return {"action": "cancel"}
        return {"action": "accept", "content": answer.content or {}} if answer.is_yes else {"action": "decline"}


def _owned(tool: RemoteTool) -> str:
    """The tool and whose it is: a server's, or a function of the program that Spindle runs in."""
    return f"{visible(tool.name)} of the MCP server {tool.server}" if tool.server else visible(tool.name)
