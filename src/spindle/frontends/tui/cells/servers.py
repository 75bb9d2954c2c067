"""Events of MCP servers: one that cannot be started is a warning, a call to one is a cell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spindle.frontends.tui.cells.tools import ToolCall
from spindle.protocol.events import Msg
from spindle.protocol.tool_servers import (
    ElicitationRequest,
    McpStartupComplete,
    McpStartupUpdate,
    McpToolCallBegin,
    McpToolCallEnd,
)

if TYPE_CHECKING:
    from spindle.frontends.tui.cells.conversation import Conversation


def take_server_event(conversation: Conversation, msg: Msg) -> None:
    match msg:
        case McpStartupUpdate(server=server, status=status):
            conversation.doing.server(server, status.get("state", ""))
            if status.get("state") == "failed":
                conversation.warn_of_server(server, status.get("error", ""))
        case McpStartupComplete(failed=failed):
            for each in failed:
                conversation.warn_of_server(each.get("server", ""), each.get("error", ""))
        case McpToolCallBegin():
            conversation.begin_call(ToolCall(msg, conversation.now_s()))
        case McpToolCallEnd(call_id=call_id):
            call = conversation.end_call(call_id)
            if isinstance(call, ToolCall):
                call.end(msg)
            conversation.show(call or ToolCall(msg, conversation.now_s()))
        case ElicitationRequest(call_id=call_id, id=request_id):
            conversation.doing.waiting.add(call_id or request_id)
        case _:
            pass
