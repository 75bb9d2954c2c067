"""The kinds of permission that a call can ask for, each with its question.

`asking` gets the answer, and has the kind that every command needs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from spindle.core.permission.approvals import Approvals, CallSite
from spindle.core.permission.commands import CommandRetry
from spindle.core.permission.matter import Matter
from spindle.core.permission.patches import PatchRetry, PatchWrite
from spindle.errors import Rejected
from spindle.policy.verdicts import Ask
from spindle.tools.tool import Permit

if TYPE_CHECKING:
    from spindle.mcp.naming import RemoteTool
    from spindle.policy.widening import Given, Wish
    from spindle.process.command import Command

_NOT_ASKED = (
    "rejected: approval is needed for this, and the approval policy is granular with {} = false, so the user is not "
    "asked; do without it, or say in your answer what is needed"
)


class Kinds(ABC):
    """One method for each other kind; see `Permission` in `tools/services`."""

    def __init__(self, approvals: Approvals, site: CallSite) -> None:
        self._approvals = approvals
        self._site = site

    @abstractmethod
    async def obtain(self, matter: Matter) -> Permit:
        """A yes to it. Raises Rejected for a no."""

    def refuse_unasked(self, ask: Ask) -> None:
        """Settings may refuse a kind of question at once; then neither an earlier yes nor a hook counts."""
        granular = self._site.settings.granular
        refused = [kind for kind in ask.kinds if kind in granular.refused] if granular is not None else []
        if refused:
            raise Rejected(_NOT_ASKED.format(refused[0]))

    async def typing(self, chars: str, *, session_id: int, command: Command) -> None:
        from spindle.core.permission.typed_input import INTERRUPT, TypedInput  # only for programs outside of a sandbox

        if chars.strip(INTERRUPT):  # to stop it is free
            await self.obtain(TypedInput(self._approvals, self._site, chars, session_id=session_id, command=command))

    async def typed_line(self, text: str, *, argv: list[str], cwd: str, before: str = "") -> None:
        from spindle.core.permission.typed_input import TypedLine  # only for programs that are typed into

        await self.obtain(TypedLine(self._approvals, self._site, text, argv=argv, cwd=cwd, before=before))

    async def retry(self, argv: list[str], *, cwd: str, tty: bool = False) -> bool:
        try:
            await self.obtain(CommandRetry(self._approvals, self._site, argv, cwd, is_typed_into=tty))
        except Rejected as refusal:
            if refusal.has_reason:
                raise
            return False
        return True

    async def patch(self, changes: dict[str, Any]) -> Permit:
        return await self.obtain(PatchWrite(self._approvals, self._site, changes))

    async def patch_retry(self, changes: dict[str, Any]) -> Permit | None:
        try:
            return await self.obtain(PatchRetry(self._approvals, self._site, changes))
        except Rejected as refusal:
            if refusal.has_reason:
                raise
            return None

    async def more(self, wish: Wish) -> Given:
        from spindle.core.permission.more import more_given  # only where the model may ask for it

        return await more_given(wish, self._approvals, self._site, self.obtain)

    async def note(self, changes: dict[str, Any]) -> None:
        from spindle.core.permission.patches import NoteWrite  # only where notes are switched on

        await self.obtain(NoteWrite(self._approvals, self._site, changes))

    async def tool(self, tool: RemoteTool, arguments: dict[str, Any], mode: str | None, definition: str) -> None:
        from spindle.core.permission.remote_tools import ToolUse  # only for those who have MCP servers

        await self.obtain(ToolUse(self._approvals, self._site, tool, arguments, mode=mode, definition=definition))

    async def resources(self, server: str, name: str, arguments: dict[str, Any], mode: str | None, entry: str) -> None:
        from spindle.core.permission.remote_tools import ResourceUse  # only for those who have MCP servers

        await self.obtain(ResourceUse(self._approvals, self._site, server, name, arguments, mode=mode, entry=entry))

    async def function(self, name: str, arguments: dict[str, Any]) -> None:
        from spindle.core.permission.functions import FunctionCall  # only for programs that give functions as tools

        await self.obtain(FunctionCall(self._approvals, self._site, name, arguments))
