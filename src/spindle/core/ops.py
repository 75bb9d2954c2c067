"""What a session does with an op that begins no new turn: steering, answers to its questions, the way back, commands.

A session that gets only turns does not load this. `answers.py` has the rare ops that are answered at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spindle.core.permission.approvals import reading
from spindle.core.settings import apply_op
from spindle.errors import SpindleError
from spindle.protocol.events import ThreadRolledBack, Warning
from spindle.protocol.ops import (
    ANSWERS,
    CleanBackgroundTerminals,
    InjectItems,
    OverrideTurnContext,
    RunUserShellCommand,
    Submission,
    ThreadRollback,
    UserInput,
    UserTurn,
)

if TYPE_CHECKING:
    from spindle.core.session import Session


async def handle(session: Session, submission: Submission) -> None:
    """Deal with one op. Raises SpindleError when it cannot be."""
    match submission.op:
        case UserInput(mode="steer") if session.is_running:
            session.turns.steer(submission)
            for feature in session.features:
                feature.steered()
        case UserInput():
            await session.start_turn(submission)
        case UserTurn() as op:
            await _branch_off(session, submission, op)
        case RunUserShellCommand() if session.is_running:
            raise SpindleError("you can run your own command when the turn has ended")
        case RunUserShellCommand():
            from spindle.core.user_command import run_user_command  # seldom

            await session.start_turn(submission, run_user_command)
        case CleanBackgroundTerminals(process_ids=ids):
            from spindle.protocol.answers import BackgroundStopped  # seldom

            session.emit(submission.id, BackgroundStopped(process_ids=await session.workbench.processes.stop_some(ids)))
        case OverrideTurnContext() as op:
            session.settings = apply_op(session.settings, op, session.limits.allowed, session.thread.provider_ids)
        case op if isinstance(op, ANSWERS):
            kind, request_id, decision, content = reading(op)
            askers = (session.turns.approvals, *session.features)
            if not any(asker.answer(kind, request_id, decision, content) for asker in askers):
                text = f"no open approval request or question {request_id!r}"
                session.emit(submission.id, Warning(message=text))
        case ThreadRollback(num_turns=num_turns):
            _roll_back(session, num_turns)
            session.emit(submission.id, ThreadRolledBack(num_turns=num_turns))
        case InjectItems() if session.is_running:
            raise SpindleError("items cannot be injected while a turn runs; steer it, or wait for its end")
        case InjectItems(items=items):
            session.thread.append_items(items)
        case op:
            from spindle.core.answers import answer  # for the ops that are answered at once, and seldom come

            session.emit(submission.id, answer(session, op))


async def _branch_off(session: Session, submission: Submission, op: UserTurn) -> None:
    """A turn that goes on from an earlier response. Nothing is stopped before it is known that it can."""
    assert op.last_response_id is not None
    from spindle.core.branching import way_back  # few turns go back

    settings = apply_op(session.settings, op, session.limits.allowed, session.thread.provider_ids)
    branch = way_back(session.thread, session.briefing, session.store, op.last_response_id)
    await session.stop("replaced")
    session.settings = settings
    branch()
    session.begin_turn(submission, settings)


def _roll_back(session: Session, num_turns: int) -> None:
    from spindle.core.branching import roll_back  # seldom

    if session.is_running:
        raise SpindleError("a thread cannot be rolled back while a turn runs; interrupt it first")
    roll_back(session.thread, session.briefing, num_turns)
