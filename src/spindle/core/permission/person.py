"""Questions to the user that are not about permission: a tool's own, and those of MCP servers."""

from __future__ import annotations

import asyncio
from typing import Any

from spindle.core.permission.approvals import Approvals, CallSite, Question
from spindle.errors import ToolError
from spindle.protocol.events import Msg
from spindle.protocol.quote import readable

_MESSAGE_CHARS = 4000


class CallPerson:
    """Whoever answers the questions of one call: the tools' `Person`."""

    def __init__(self, approvals: Approvals, site: CallSite, *, answers_tools: bool) -> None:
        self._approvals = approvals
        self._site = site
        self._answers_tools = answers_tools

    async def ask(self, kind: str, request: Msg) -> dict[str, Any]:
        if not self._answers_tools:
            raise _nobody_there(kind)
        question = Question(kind, self._site.sub_id, self._site.call_id, (kind, self._site.call_id))
        while (other := self._approvals.in_the_way_of(question)) is not None:
            await asyncio.wait([other.closed])
        answer = await self._approvals.ask(question, put=lambda: self._site.emit(request))
        if not answer.content and kind == "user_input":
            raise _nobody_there(kind)
        return answer.content or {}

    async def elicit(self, server: str, params: dict[str, Any]) -> dict[str, Any]:
        settings = self._site.settings
        is_refused = settings.granular is not None and not settings.granular.mcp_elicitations
        if settings.approval_policy == "never" or is_refused or not self._approvals.is_attended:
            return {"action": "decline"}
        from spindle.mcp.forms import CleanForm  # only for those who have MCP servers
        from spindle.protocol.tool_servers import ElicitationRequest  # likewise

        request_id = f"{server}:{self._approvals.new_id()}"
        question = Question("elicitation", request_id, request_id, ("elicitation", request_id))
        form = CleanForm(params.get("requestedSchema"))
        request = ElicitationRequest(
            server_name=server,
            id=request_id,
            message=readable(str(params.get("message") or ""))[:_MESSAGE_CHARS],
            requested_schema=form.schema,
            call_id=self._site.call_id,
            turn_id=self._site.turn_id,
            available_decisions=["accept", "decline", "cancel"],
        )
        answer = await self._approvals.ask(question, put=lambda: self._site.emit(request))
        if answer.word == "cancel":
            return {"action": "cancel"}
        if not answer.is_yes:
            return {"action": "decline"}
        return {"action": "accept", "content": form.restore(answer.content or {})}


def _nobody_there(kind: str) -> ToolError:
    if kind == "dynamic_tool":
        return ToolError("the program that answers this tool is not connected; do without it")
    return ToolError(
        "questions cannot be put to a person in this session; decide with reasonable assumptions and "
        "name them in the plan, or ask in the text of your final message"
    )
