"""Ops with an answer and no turn: what a session says about itself, and small changes to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from spindle.core.settings import apply_op
from spindle.core.usage import context_usage
from spindle.errors import SpindleError
from spindle.protocol.answers import (
    ConversationPath,
    ListGrantsResponse,
    ListModelsResponse,
    ListSkillsResponse,
    TurnUpdated,
)
from spindle.protocol.events import GrantRevoked, Msg, PinsUpdated, ThreadNameUpdated
from spindle.protocol.ops import (
    GetContext,
    GetPath,
    ListGrants,
    ListModels,
    ListSkills,
    OverrideTurnContext,
    Pin,
    RevokeGrant,
    SetThreadName,
    Unpin,
    UpdateTurn,
)

if TYPE_CHECKING:
    from spindle.core.session import Session


def answer(session: Session, op: object) -> Msg:
    thread = session.thread
    match op:
        case ListSkills(cwds=cwds, force_reload=force):
            found = [
                {"cwd": cwd, **msgspec.to_builtins(session.briefing.skills(cwd, session.settings, reload=force))}
                for cwd in cwds or [session.settings.cwd]
            ]
            return ListSkillsResponse(skills=found)
        case UpdateTurn():
            return TurnUpdated(is_applied=update_turn(session, op))
        case GetContext():
            return context_usage(thread)
        case ListGrants():
            return ListGrantsResponse(grants=[grant.to_wire() for grant in session.turns.approvals.list_grants()])
        case RevokeGrant(id=grant_id):
            grant = session.turns.approvals.revoke(grant_id)
            if grant is None:
                raise SpindleError(f"there is no grant {grant_id!r}")
            return GrantRevoked(grant=grant.to_wire())
        case SetThreadName(name=name):
            session.store.set_name(thread.thread_id, name)
            return ThreadNameUpdated(thread_id=thread.thread_id, thread_name=name)
        case ListModels():
            return ListModelsResponse(models=[msgspec.to_builtins(model) for model in thread.catalog.listed])
        case GetPath():
            writer = thread.history.writer
            path = writer.recorded_path if writer is not None else None
            return ConversationPath(conversation_id=thread.thread_id, path=path)
        case Pin(text=text):
            if not text.strip():
                raise SpindleError("there is nothing to pin: the text is empty")
            thread.notes.pin(text)
            return PinsUpdated(pins=thread.notes.pins)
        case Unpin(text=text):
            if not thread.notes.unpin(text):
                raise SpindleError("no such fact is pinned")
            return PinsUpdated(pins=thread.notes.pins)
        case _:
            raise SpindleError(f"a session does not take the op {type(op).__name__}")


def update_turn(session: Session, op: UpdateTurn) -> bool:
    """Give the running turn other settings from its next request on; False when another turn, or none, runs."""
    turn = session.turns.running
    if turn is None or turn.turn_id != op.turn_id or turn.is_stopping:
        return False
    changes = OverrideTurnContext(model=op.model, effort=op.effort, summary=op.summary)
    settings = apply_op(turn.settings, changes, session.limits.allowed, session.thread.provider_ids)
    if settings.model != turn.settings.model:
        session.thread.use_model(settings.model)
    turn.settings = session.limits.cap(settings)
    return True
