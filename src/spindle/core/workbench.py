"""What the tools of one session work with: its processes, the environment of children, and the context of each call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from spindle.core.live_thread import LiveThread
from spindle.core.permission.approvals import Approvals, CallSite
from spindle.errors import ToolError
from spindle.policy.rulebook import RuleBook
from spindle.policy.sandbox import Boundary, Fence, boundary_of
from spindle.process.table import ProcessTable
from spindle.protocol.settings import SandboxPolicy, ThreadSettings
from spindle.tools.tool import OutputForm, ToolContext

if TYPE_CHECKING:
    from spindle.patch.diff import TurnDiffTracker
    from spindle.policy.widening import Widening
    from spindle.tools.services import EditorFiles, FileKeeper, FindSubAgents, SubAgents


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
        self._widened: tuple[Boundary, Widening, Boundary] | None = None
        self._image_as_message = image_as_message
        self._offload_home = offload_home
        self._asks_client = asks_client
        """Somebody can answer what tools ask."""
        self.agents: FindSubAgents = _no_agents
        """Gives the session's sub-agents; set by the session."""
        self.keeper: FileKeeper | None = None
        """Keeps files before tools change them; set by the session."""
        self.editor: EditorFiles | None = None
        """Through which files are patched; set where a client has one."""
        self._diff: TurnDiffTracker | None = None

    def new_turn(self) -> None:
        """A turn's diff begins empty, and its boundary is drawn anew."""
        self._diff = None
        self._boundary = None

    def boundary(self, settings: ThreadSettings, more: Widening | None = None) -> Boundary:
        """What the calls of this turn may reach; drawn once, so nothing that happens meanwhile moves it.

        `more` is what a person has given beside the settings."""
        if self._boundary is None or self._boundary.policy != settings.sandbox or self._boundary.cwd != settings.cwd:
            self._boundary = self._draw(settings.sandbox, settings.cwd)
        base = self._boundary
        if more is None:
            return base
        if self._widened is None or self._widened[0] is not base or self._widened[1] != more:
            from spindle.policy.widening import widened  # after a person has given something

            self._widened = base, more, widened(base, more, lambda policy: self._draw(policy, settings.cwd))
        return self._widened[2]

    def _draw(self, policy: SandboxPolicy, cwd: str) -> Boundary:
        return boundary_of(policy, cwd=cwd, env=self.environment, home=self._home, fence=self._fence)

    async def sandbox_problem(self) -> str | None:
        """Why commands cannot be confined here in the user's way, or None."""
        return await self.processes.sandbox_problem(self._fence)

    def tool_context(self, thread: LiveThread, site: CallSite, approvals: Approvals) -> ToolContext:
        """What the tool that answers one call is handed."""
        return ToolContext(
            call_id=site.call_id,
            turn_id=site.turn_id,
            thread_id=thread.thread_id,
            settings=site.settings,
            boundary=site.boundary,
            clock=thread.clock,
            emit=site.emit,
            output=OutputForm(
                truncation=thread.truncation,
                accepts_images=thread.traits.accepts_images,
                image_as_message=self._image_as_message,
                freeform_patch=thread.tools.has_freeform_patch,
                offload_home=self._offload_home,
            ),
            permission=approvals.permission(site),
            person=approvals.person(site, answers_tools=self._asks_client),
            processes=self.processes,
            notes=thread.notes,
            diff=self.turn_diff(),
            keeper=self.keeper,
            agents=self.agents,
            editor=self.editor,
        )

    def turn_diff(self) -> TurnDiffTracker:
        """What the running turn has changed so far."""
        if self._diff is None:
            from spindle.patch.diff import TurnDiffTracker  # loaded with the first call

            self._diff = TurnDiffTracker()
        return self._diff


def _no_agents() -> SubAgents:
    raise ToolError("there are no sub-agents in this session")
