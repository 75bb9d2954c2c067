"""Sub-agents: sessions that another session opens."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from spindle.assembly.record import Draft
from spindle.assembly.request import SessionRequest

if TYPE_CHECKING:
    from spindle.core.session import Session
    from spindle.features.agents.subagents import AgentOrder, Staff
    from spindle.mcp.pool import ServerPool


def may_spawn(request: SessionRequest) -> bool:
    """There is room below this session for sub-agents of its own."""
    config, depth = request.config, 0 if request.order is None else request.order.depth
    return depth < config.agents_max_depth and config.agents_max_threads > 0


def agent_staff(draft: Draft, pool: Callable[[], ServerPool | None], checkpoints: Any) -> Staff:
    """The sub-agents that a session may have; `pool` gives the MCP servers that they share with it, and `checkpoints`
    keeps what they do to files."""
    from spindle.features.agents.agent_tree import AgentTree  # with the first sub-agent
    from spindle.features.agents.subagents import AgentOrder, Staff  # likewise

    request, config, order = draft.request, draft.request.config, draft.request.order
    limits = AgentTree(max_threads=config.agents_max_threads, max_depth=config.agents_max_depth)

    async def open_agent(order: AgentOrder) -> Session:
        from spindle.assembly import open_session  # which made the session that asks

        return await open_session(_agent_request(request.root or request, order, pool(), checkpoints))

    return Staff(
        open_agent=open_agent,
        roles=config.agent_roles,
        rules=draft.rules,
        tree=order.tree if isinstance(order, AgentOrder) else limits,
        depth=0 if order is None else order.depth,
        charge_above=None if order is None else order.charge,
    )


def _agent_request(
    root: SessionRequest, order: AgentOrder, pool: ServerPool | None, checkpoints: Any
) -> SessionRequest:
    """A new thread with the configuration of the session that a person opened, as it was read then."""
    from spindle.config.roles import config_for_agent  # with the first sub-agent
    from spindle.prompt.bundled import text  # likewise

    return SessionRequest(
        config=config_for_agent(root.config, order.settings, order.role, text("subagent")),
        source=root.source,
        originator=root.originator,
        ephemeral=root.ephemeral,
        base_instructions=root.base_instructions,
        user_instructions=root.user_instructions,
        is_attended=root.is_attended,
        bypass=root.bypass,
        client=root.client,
        gate=root.gate,
        clock=root.clock,
        order=order,
        tools=root.agent_tools.get(order.role.name, ()) if order.role is not None else (),
        hooks=root.hooks,
        root=root,
        pool=pool,
        checkpoints=checkpoints,
    )
