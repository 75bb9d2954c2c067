"""The reviews of a session: another session, with instructions of its own, that can only read."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from spindle.assembly.record import Draft
from spindle.assembly.request import SessionRequest
from spindle.config.schema import Config
from spindle.core.child_session import SessionOrder
from spindle.core.feature import Feature
from spindle.features.review.read_only import ReadOnly
from spindle.features.review.reviews import ReviewerPlan, Reviews
from spindle.prompt.review import reviewer_instructions
from spindle.protocol.settings import ThreadSettings

if TYPE_CHECKING:
    from spindle.core.session import Session
    from spindle.mcp.pool import ServerPool


def make_reviews(draft: Draft, pool: Callable[[], ServerPool | None], checkpoints: Any) -> Feature:
    """`pool` gives the MCP servers that a reviewer shares with the session."""
    request, order = draft.request, draft.request.order

    async def open_reviewer(order: SessionOrder) -> Session:
        from spindle.assembly import open_session  # which made the session that asks

        return await open_session(_reviewer_request(request.root or request, order, pool(), checkpoints))

    return Reviews(
        ReviewerPlan(
            open_reviewer=open_reviewer,
            rules=draft.rules,
            depth=0 if order is None else order.depth,
            model=request.config.review_model,
        )
    )


def _reviewer_request(
    root: SessionRequest, order: SessionOrder, pool: ServerPool | None, checkpoints: Any
) -> SessionRequest:
    return SessionRequest(
        config=_reviewer_config(root.config, order.settings),
        source=root.source,
        originator=root.originator,
        ephemeral=root.ephemeral,
        base_instructions=reviewer_instructions(),
        user_instructions=root.user_instructions,
        is_attended=False,
        client=root.client,
        gate=root.gate,
        clock=root.clock,
        order=order,
        features=(ReadOnly(),),
        hooks=root.hooks,
        root=root,
        pool=pool,
        checkpoints=checkpoints,
    )


def _reviewer_config(config: Config, settings: ThreadSettings) -> Config:
    """The person's, but for what a reviewer must not have: rights, sub-agents, notes for later threads."""
    return msgspec.structs.replace(
        config,
        cwd=settings.cwd,
        model=settings.model,
        approval_policy=settings.approval_policy,
        granular=settings.granular,
        sandbox=settings.sandbox,
        features={**config.features, "collab": False},
        agent_roles={},
        spindle=msgspec.structs.replace(config.spindle, memory=False),
        # Reading without asking is less than anything that an administrator can allow.
        allowed_approval_policies=_with(config.allowed_approval_policies, "never"),
        allowed_sandbox_modes=_with(config.allowed_sandbox_modes, "read-only"),
        notify=(),
        warnings=[],
    )


def _with(allowed: tuple[str, ...] | None, value: str) -> tuple[str, ...] | None:
    return None if allowed is None else (*allowed, value)
