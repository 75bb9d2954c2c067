"""Ops that only ask: what a session says of itself. Nothing here changes anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from spindle.core.usage import context_usage
from spindle.errors import SpindleError
from spindle.protocol.answers import ConversationPath, ListGrantsResponse, ListModelsResponse, ListSkillsResponse
from spindle.protocol.events import Msg
from spindle.protocol.ops import GetContext, GetPath, ListGrants, ListModels, ListSkills

if TYPE_CHECKING:
    from spindle.core.session import Session


def answer(session: Session, op: object) -> Msg:
    thread = session.thread
    match op:
        case ListSkills(cwds=cwds, force_reload=force):
            found = [
                {"cwd": cwd, **msgspec.to_builtins(session.briefing.skills(cwd, reload=force))}
                for cwd in cwds or [session.settings.cwd]
            ]
            return ListSkillsResponse(skills=found)
        case GetContext():
            return context_usage(thread)
        case ListGrants():
            return ListGrantsResponse(grants=[grant.to_wire() for grant in session.turns.approvals.list_grants()])
        case ListModels():
            return ListModelsResponse(models=[msgspec.to_builtins(model) for model in thread.catalog.listed])
        case GetPath():
            writer = thread.history.writer
            path = writer.recorded_path if writer is not None else None
            return ConversationPath(conversation_id=thread.thread_id, path=path)
        case _:
            raise SpindleError(f"a session does not take the op {type(op).__name__}")
