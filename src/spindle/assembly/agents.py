"""Sub-agents: sessions that another session opens."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from spindle.assembly.request import SessionRequest
from spindle.config.schema import Config
from spindle.core.session import Session
from spindle.core.stream import EventStream
from spindle.policy.rulebook import RuleBook
from spindle.protocol.settings import AgentRole

if TYPE_CHECKING:
    from spindle.core.subagents import AgentOrder, Subagents

OpenSession = Callable[[SessionRequest], Awaitable[Session]]


def agent_roles(config: Config) -> tuple[AgentRole, ...] | None:
    """The roles a model can choose from; None if it has no sub-agents. Describing a role switches them on."""
    is_on = config.features.get("collab") or config.agent_roles
    return tuple(config.agent_roles.values()) if is_on else None


def make_agents(
    open_session: OpenSession, request: SessionRequest, rules: RuleBook, session: Session, stream: EventStream
) -> Subagents:
    from spindle.core.subagents import Subagents  # with the first sub-agent

    config = request.config
    return Subagents.of_session(
        session,
        stream,
        open_agent=lambda order: open_session(_agent_request(request.root or request, order, session)),
        roles=config.agent_roles,
        rules=rules,
        order=request.order,
        max_threads=config.agents_max_threads,
        max_depth=config.agents_max_depth,
        max_tokens=config.spindle.agents_max_tokens,
        max_requests=config.spindle.agents_max_requests,
    )


def _agent_request(root: SessionRequest, order: AgentOrder, parent: Session) -> SessionRequest:
    """A new thread with the configuration of the session that a person opened, as it was read then."""
    from spindle.config.roles import config_for_agent  # with the first sub-agent
    from spindle.prompt.bundled import text

    return SessionRequest(
        config=config_for_agent(root.config, order.settings, order.role, text("subagent")),
        source=root.source,
        originator=root.originator,
        ephemeral=root.ephemeral,
        base_instructions=root.base_instructions,
        user_instructions=root.user_instructions,
        bypass=root.bypass,
        client=root.client,
        clock=root.clock,
        order=order,
        root=root,
        pool=parent.servers.pool if parent.servers is not None else None,
    )
