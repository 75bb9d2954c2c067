"""What the tools of one session work with: its processes, the environment of children, and the context of each call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from spindle.core.live_thread import LiveThread
from spindle.policy.rulebook import RuleBook
from spindle.policy.sandbox import Boundary, Fence, boundary_of
from spindle.process.table import ProcessTable
from spindle.protocol.events import Msg
from spindle.protocol.settings import ThreadSettings
from spindle.tools.tool import ToolContext, nobody_answers

if TYPE_CHECKING:
    from spindle.core.leave import CallApprovals
    from spindle.patch.diff import TurnDiffTracker


class Workbench:
    """Owned by one session, closed with it."""

    def __init__(
        self,
        *,
        processes: ProcessTable,
        environment: Mapping[str, str],
        home: str,
        fence: Fence | None = None,
        rules: RuleBook | None = None,
        image_as_message: bool,
        offload_home: str | None = None,
        asks_client: bool = True,
    ) -> None:
        self.processes = processes
        self.rules = rules or RuleBook(home)
        self.environment = environment
        self._home = home
        self._fence = fence
        self._boundary: Boundary | None = None
        self._image_as_message = image_as_message
        self._offload_home = offload_home
        self._asks_client = asks_client
        """Somebody can answer what tools ask."""
        self.agents: Callable[[], Any] | None = None
        """Gives the session's sub-agents; set by the session."""
        self._diff: TurnDiffTracker | None = None

    def new_turn(self) -> None:
        """A turn's diff begins empty, and its boundary is drawn anew."""
        self._diff = None
        self._boundary = None

    def boundary(self, settings: ThreadSettings) -> Boundary:
        """What the calls of this turn may reach; drawn once, so nothing that happens meanwhile moves it."""
        if self._boundary is None or self._boundary.policy != settings.sandbox or self._boundary.cwd != settings.cwd:
            self._boundary = boundary_of(
                settings.sandbox, cwd=settings.cwd, env=self.environment, home=self._home, fence=self._fence
            )
        return self._boundary

    async def sandbox_problem(self) -> str | None:
        """Why commands cannot be confined here in the user's way, or None."""
        return await self.processes.sandbox_problem(self._fence)

    def tool_context(
        self,
        thread: LiveThread,
        *,
        call_id: str,
        turn_id: str,
        settings: ThreadSettings,
        boundary: Boundary,
        emit: Callable[[Msg], None],
        approvals: CallApprovals,
    ) -> ToolContext:
        if self._diff is None:
            from spindle.patch.diff import TurnDiffTracker  # loaded with the first call

            self._diff = TurnDiffTracker()
        agents = {"agents": self.agents} if self.agents is not None else {}
        return ToolContext(
            **agents,
            ask=approvals.ask if self._asks_client else nobody_answers,
            call_id=call_id,
            turn_id=turn_id,
            thread_id=thread.thread_id,
            settings=settings,
            boundary=boundary,
            clock=thread.clock,
            emit=emit,
            truncation=thread.truncation,
            accepts_images=thread.traits.accepts_images,
            freeform_patch=thread.tools.has_freeform_patch,
            image_as_message=self._image_as_message,
            processes=self.processes,
            permit_command=approvals.permit_command,
            permit_patch=approvals.permit_patch,
            permit_retry=approvals.permit_retry,
            permit_patch_retry=approvals.permit_patch_retry,
            permit_tool=approvals.permit_tool,
            elicit=approvals.elicit,
            notes=thread.notes,
            offload_home=self._offload_home,
            diff=self._diff,
        )
