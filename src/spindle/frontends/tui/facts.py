"""What the status line and `/status` are made of, at this moment."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from spindle.frontends.tui.status_line import StatusFacts
from spindle.workspace.git import GitFacts, find_repository, git_facts

if TYPE_CHECKING:
    from spindle.frontends.tui.interface import Interface


class Facts:
    """Knows the folder's repository, and puts the rest together whenever it is asked for."""

    def __init__(self, interface: Interface) -> None:
        self._interface = interface
        self._git: GitFacts | None = None
        self._project = ""
        self._home = os.path.expanduser("~")
        self._weakness = ""
        """How commands are confined less than they should be."""

    def look(self) -> None:
        """Read the branch; after a turn it may be another one."""
        cwd = self._interface.cwd
        self._git = git_facts(cwd)
        self._project = find_repository(cwd) or ""
        from spindle.process.sandbox import found_problem  # not before the first thread is open

        if found_problem(self._interface.config.spindle.fence) is not None:
            self._weakness = "no sandbox here"

    def now(self) -> StatusFacts:
        interface = self._interface
        thread, seen, config = interface.thread, interface.conversation, interface.config
        settings = thread.settings if thread is not None else None
        sandbox = settings.sandbox if settings is not None else config.sandbox
        approval = settings.approval_policy if settings is not None else config.approval_policy
        spent = seen.spending
        is_waiting = interface.view is not None
        return StatusFacts(
            state="starting"
            if thread is None
            else "waiting"
            if is_waiting
            else "working"
            if interface.is_working
            else "idle",
            model=settings.model if settings is not None else config.model or "",
            effort=thread.effort if thread is not None else config.model_reasoning_effort,
            cwd=interface.cwd,
            project=self._project,
            branch=self._git.branch if self._git is not None else None,
            mode=interface.modes.mode,
            permissions=f"{sandbox.mode}, {approval}",
            sandbox=sandbox.permissions.name if sandbox.permissions is not None else sandbox.mode,
            weakness="" if sandbox.is_full_access else self._weakness,
            has_network=sandbox.network_access and not sandbox.is_full_access,
            thread_id=thread.id if thread is not None else "",
            thread_name=thread.name if thread is not None else None,
            window=spent.window,
            context_used=spent.last.total_tokens or None,
            context_left=spent.context_left if spent.last.total_tokens else None,
            input_tokens=spent.total.input_tokens,
            cached_tokens=spent.total.cached_input_tokens,
            output_tokens=spent.total.output_tokens,
            cost_usd=spent.cost_of(spent.total),
            queued=len(interface.turns.queued),
            background=len(seen.commands.background),
            warnings=len(seen.warnings),
            agents=seen.agents_running,
            plan=seen.plan_progress,
            goal=seen.goal_status,
            is_raw=config.tui.raw_output_mode,
            rate_limits=spent.rate_limits,
            home=self._home,
        )
