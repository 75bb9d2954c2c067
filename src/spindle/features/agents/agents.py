"""Sub-agents as a feature: the tools by which a model has them, and what a session asks of those that there are.

The sub-agents themselves (`subagents.py`) are loaded when the first one is started.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from spindle.core.feature import Feature
from spindle.protocol.settings import AgentRole
from spindle.tools.agent_tools import agent_tools
from spindle.tools.router import Unlisted
from spindle.tools.tool import Tool

if TYPE_CHECKING:
    from spindle.core.session import Session
    from spindle.features.agents.subagents import Staff, Subagents


class Agents(Feature):
    """The sub-agents of one session, once there are any."""

    def __init__(self, roles: Sequence[AgentRole], staff: Callable[[], Staff], *, may_spawn: bool) -> None:
        self._roles = roles
        self._may_spawn = may_spawn
        """Without it the session is deep in the tree, and its tools only tell why they cannot help."""
        self._staff = staff
        """Which ones the session may have; asked when the first one is started."""
        self._session: Session
        self._started: Subagents | None = None

    def tools(self) -> Sequence[Tool]:
        tools = agent_tools(self._roles)
        return tools if self._may_spawn else [Unlisted(tool) for tool in tools]

    def open(self, session: Session) -> None:
        self._session = session
        session.workbench.agents = self.started

    def started(self) -> Subagents:
        """The sub-agents, for the tools."""
        if self._started is None:
            from spindle.features.agents.subagents import Subagents  # with the first sub-agent

            self._started = Subagents(self._session, self._staff())
        return self._started

    def answer(self, kind: str, request_id: str, decision: Any, content: dict[str, Any] | None) -> bool:
        return self._started is not None and self._started.answer(kind, request_id, decision, content)

    def steered(self) -> None:
        if self._started is not None:
            self._started.nudge()

    async def interrupt(self) -> None:
        if self._started is not None:
            await self._started.interrupt()

    def kill(self) -> None:
        for session in self._started.sessions.values() if self._started is not None else ():
            session.kill_processes()

    async def aclose(self) -> None:
        if self._started is not None:
            await self._started.aclose()
