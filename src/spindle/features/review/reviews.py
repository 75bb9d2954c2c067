"""Reviews as a feature: the turn of a thread in which another session, the reviewer, looks at code and reports.

The reviewer has a thread, a record and instructions of its own and knows nothing of the conversation. It is confined to
reading, whatever the thread may do. People see what it does as part of the turn; of what it says they see the report
alone. The thread is told of the report, so that its next turn can act on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from spindle.core.child_session import SessionOrder, Tap, end_session, open_whole
from spindle.core.feature import Feature, Handler
from spindle.core.running_turn import RunningTurn, TurnOutcome
from spindle.errors import BudgetReached, ModelError, SpindleError
from spindle.features.review.merge_base import merge_base
from spindle.features.review.relay import Relay
from spindle.policy.narrow import narrowed_sandbox
from spindle.policy.rulebook import RestrictingBook, RuleBook
from spindle.prompt.review import review_cut_short, review_note, review_request
from spindle.protocol.events import AgentMessage, Error, ItemCompleted, ItemStarted, Msg
from spindle.protocol.items import assistant_message
from spindle.protocol.ops import Review, Submission, UserTurn
from spindle.protocol.request import TokenUsage
from spindle.protocol.review import BaseBranch, EnteredReviewMode, ExitedReviewMode, Target, hint_of, read_target
from spindle.protocol.review_output import read_output, render
from spindle.protocol.settings import CollaborationMode, SandboxPolicy, ThreadSettings

if TYPE_CHECKING:
    from spindle.core.session import Session

_READ_ONLY = SandboxPolicy(mode="read-only")


class ReviewerPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How the reviewers of a session are opened."""

    open_reviewer: Callable[[SessionOrder], Coroutine[Any, Any, Session]]
    rules: RuleBook
    depth: int = 0
    model: str | None = None
    """The model of reviews; None = that of the thread."""


class Reviews(Feature):
    """The reviews of one session; one at a time, because each is a turn."""

    def __init__(self, plan: ReviewerPlan) -> None:
        self._plan = plan
        self._reviewer: Session | None = None

    def ops(self) -> Mapping[type[Any], Handler]:
        return {Review: self._start}

    def kill(self) -> None:
        if self._reviewer is not None:
            self._reviewer.kill_processes()

    async def _start(self, session: Session, submission: Submission) -> None:
        op = submission.op
        assert isinstance(op, Review)
        target = read_target(op.review_request.get("target"))
        hint = op.review_request.get("user_facing_hint")
        hint = hint.strip() if isinstance(hint, str) else ""

        async def work(turn: RunningTurn) -> TurnOutcome:
            return await self._review(turn, target, hint or hint_of(target))

        await session.start_turn(submission, work)

    # ---- one review ----------------------------------------------------------------------------

    async def _review(self, turn: RunningTurn, target: Target, hint: str) -> TurnOutcome:
        await turn.announce()
        turn.thread.history.begin_file()
        turn.inputs.append(hint)
        _tell(turn, EnteredReviewMode(target=msgspec.to_builtins(target), user_facing_hint=hint))
        try:
            said = await self._have_reviewed(turn, target)
        except BaseException:
            turn.thread.history.append_item(review_cut_short())
            _tell(turn, ExitedReviewMode(review_output=None))
            raise
        output = read_output(said)
        report = render(output)
        turn.thread.history.append_item(review_note(report))
        _tell(turn, ExitedReviewMode(review_output=msgspec.to_builtins(output)))
        _say(turn, report)
        turn.complete()
        return TurnOutcome(last_message=report)

    async def _have_reviewed(self, turn: RunningTurn, target: Target) -> str | None:
        """What the reviewer says at last. Raises SpindleError when it fails."""
        session = await open_whole(self._plan.open_reviewer(self._order(turn)))
        relay = Relay(turn, has_other_model=session.settings.model != turn.settings.model)
        session.listen(Tap(relay.hear))
        self._reviewer = session
        actor = asyncio.ensure_future(session.run())
        try:
            base = await merge_base(session, target.branch) if isinstance(target, BaseBranch) else None
            text = review_request(target, base)
            session.submit(Submission(turn.thread.clock.uuid7(), UserTurn(items=[{"type": "text", "text": text}])))
            await asyncio.wait([relay.done, actor], return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end_session(session, actor)
            self._reviewer = None
            if turn.thread.total_usage != relay.usage_before:
                turn.thread.report_usage(turn.emit)
        if relay.failure is not None:
            raise _as_error(relay.failure)
        if not relay.done.done():
            raise SpindleError("the reviewer's session ended before there was a report")
        return relay.last_message

    def _order(self, turn: RunningTurn) -> SessionOrder:
        thread = turn.thread

        def confined(wanted: ThreadSettings) -> ThreadSettings:
            """Reading is all that a reviewer may do, now and later, and nobody is asked for more."""
            sandbox = narrowed_sandbox(wanted.sandbox, wanted.cwd, _READ_ONLY, wanted.cwd)
            return msgspec.structs.replace(wanted, sandbox=sandbox)

        settings = msgspec.structs.replace(
            turn.settings,
            model=self._plan.model or turn.settings.model,
            approval_policy="never",
            collaboration_mode=CollaborationMode(),
        )

        def charge(usage: TokenUsage) -> None:
            thread.total_usage = thread.total_usage + usage

        return SessionOrder(
            parent_thread_id=thread.thread_id,
            parent_transcript=None if (writer := thread.history.writer) is None else writer.path,
            depth=self._plan.depth + 1,
            name="review",
            header="review",
            source={"subagent": "review"},
            settings=confined(settings),
            cap=confined,
            charge=charge,
            rules=RestrictingBook(self._plan.rules),
            budget=lambda: thread.budget,
        )


def _tell(turn: RunningTurn, msg: Msg) -> None:
    """Record an event, then tell it."""
    turn.thread.history.append_event(msgspec.to_builtins(msg))
    turn.emit(msg)


def _say(turn: RunningTurn, report: str) -> None:
    """The report as the message of the thread's assistant."""
    thread = turn.thread
    item_id = f"msg_{thread.clock.uuid7()}"
    shown = {"type": "AgentMessage", "id": item_id, "content": [{"type": "Text", "text": report}], "phase": None}
    thread.history.append_event({"type": "agent_message", "message": report})
    thread.history.append_item(assistant_message(report))
    turn.last_message = report
    turn.emit(ItemStarted(thread_id=thread.thread_id, turn_id=turn.turn_id, item={**shown, "content": []}))
    turn.emit(AgentMessage(message=report))
    turn.emit(ItemCompleted(thread_id=thread.thread_id, turn_id=turn.turn_id, item=shown))


def _as_error(failure: Error) -> SpindleError:
    """What ended the reviewer's turn ends this one, too."""
    if isinstance(failure.budget, dict):
        return BudgetReached(failure.message, failure.budget)
    return ModelError(failure.message, failure.codex_error_info or "other")
