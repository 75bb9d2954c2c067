"""What keeps a reviewer from changing anything by tools that no sandbox covers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spindle.core.feature import Feature, RunCall
from spindle.errors import Rejected

if TYPE_CHECKING:
    from spindle.core.running_turn import RunningTurn
    from spindle.tools.tool import ToolCall, ToolResult


class ReadOnly(Feature):
    """Refuses tools of MCP servers that do not say of themselves that they only read, though a person may have
    approved them for good: that was for their own work, and a repository has a say in what a reviewer does."""

    async def around_call(self, turn: RunningTurn, call: ToolCall, run: RunCall) -> ToolResult:
        if not turn.thread.tools.only_reads(call.name):
            raise Rejected(
                f"{call.name} rejected: a review changes nothing, and the server does not say that this tool only reads"
            )
        return await run(call)
