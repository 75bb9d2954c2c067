"""Events of MCP servers: in which state each is, and a cell for every call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spindle.frontends.tui.cells.cell import one_line
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
    from spindle.frontends.tui.cells.reducer import Reducer


def take_server_event(reducer: Reducer, msg: Msg) -> None:
    match msg:
        case McpStartupUpdate(server=server, status=status):
            state = status.get("state", "")
            reducer.doing.server(server, state)
            if state == "failed":
                _failed(reducer, server, status.get("error", ""))
            else:
                reducer.servers[server] = one_line(state)
        case McpStartupComplete(failed=failed):
            for each in failed:
                _failed(reducer, each.get("server", ""), each.get("error", ""))
        case McpToolCallBegin():
            reducer.begin_call(ToolCall(msg, reducer.now_s()))
        case McpToolCallEnd(call_id=call_id):
            call = reducer.end_call(call_id)
            if isinstance(call, ToolCall):
                call.end(msg)
            reducer.show(call or ToolCall(msg, reducer.now_s()))
        case ElicitationRequest(call_id=call_id, id=request_id):
            reducer.doing.waiting.add(call_id or request_id)
        case _:
            pass


def _failed(reducer: Reducer, server: str, reason: str) -> None:
    """It could not be started. The sentence about it comes as a warning of the session."""
    reducer.servers[server] = f"failed: {one_line(reason) or 'it did not answer'}"
