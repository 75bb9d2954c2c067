"""The running turn: its settings and inputs, and what the loop in `turn.py` needs of the session around it.

Its methods call the features of the session at their moments; see `feature.py` for what each of them may do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from spindle.core.access import about_new_model
from spindle.core.permission.approvals import CallSite
from spindle.core.showing import MessageView
from spindle.errors import ModelError, SpindleError, WindowFull
from spindle.protocol.events import Error, Event, ItemCompleted, ItemStarted, Msg, TaskStarted, Warning
from spindle.protocol.items import Item
from spindle.protocol.ops import InjectItems, Submission, UserInput, UserTurn
from spindle.protocol.settings import ThreadSettings
from spindle.tools.tool import ToolContext

if TYPE_CHECKING:
    from spindle.core.session import Session

Emit = Callable[[Msg], None]

CONTEXT_FULL = "context_window_exceeded"
"""The `info` of a ModelError when the input does not fit."""


class TurnOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a turn ended well."""

    last_message: str | None = None
    response_id: str | None = None


Work = Callable[["RunningTurn"], Awaitable[TurnOutcome]]
"""What a turn does, from its first event to its end."""


class RunningTurn:
    """One turn of a session, from the op that asked for it to its terminal event."""

    def __init__(self, session: Session, submission: Submission, settings: ThreadSettings, work: Work) -> None:
        self.session = session
        self.thread = session.thread
        self.submission = submission
        self.turn_id = submission.id or session.thread.clock.uuid7()
        self.settings = settings
        self.work = work
        self.view = MessageView(self)
        """How its messages are shown; a feature may put another in its place when the turn begins."""
        self.former_model = session.thread.traits.slug
        """The model that knows the thread, where another one takes over now."""
        self.has_new_provider = False
        """It begins with another provider than the turn before."""
        self.has_other_model = False  # and people know that the server lets another one answer
        self.inputs: list[str] = []
        """What the person said, steered input included."""
        self.steered: list[Submission] = []
        """Input that joins the turn before its next request."""
        self.requests = 0
        """How many were answered."""
        self.failure: ModelError | None = None
        """Why the last request failed for good, while features try to put that right."""
        self.last_message: str | None = None
        self.task: asyncio.Task[None] | None = None
        self.has_begun = False
        self.is_stopping = False
        self.reason = "interrupted"
        """What its terminal event says if somebody stops it."""
        self.error: Error | None = None
        """Why it failed, once it has."""

    def emit(self, msg: Msg) -> None:
        """Tell people what the turn does."""
        self.session.briefing.notice(msg)
        self.session.stream.emit(Event(self.submission.id, msg))

    @property
    def output_schema(self) -> dict[str, Any] | None:
        op = self.submission.op
        return op.final_output_json_schema if isinstance(op, UserTurn | UserInput) else None

    # ---- its beginning -------------------------------------------------------------------------

    async def announce(self) -> None:
        """The turn has begun. No request is made before every feature is ready for it."""
        op = self.submission.op
        attribution = op.attribution if isinstance(op, UserTurn) else None
        started = TaskStarted(
            turn_id=self.turn_id,
            model_context_window=self.thread.window_tokens,
            collaboration_mode_kind=self.settings.collaboration_mode.mode,
            turn_attribution=msgspec.UNSET if attribution is None else msgspec.to_builtins(attribution),
        )
        self.thread.history.append_event(msgspec.to_builtins(started))
        self.emit(started)
        for feature in self.session.features:
            await feature.begin_turn(self)

    async def begin(self) -> bool:
        """Append what changed in the world, then the input, in the record's order. False if a feature refuses it."""
        session, thread, settings = self.session, self.thread, self.settings
        warnings = thread.use_provider(settings.model_provider)
        self.has_new_provider = warnings is not None
        for text in (*(warnings or ()), *about_new_model(thread, self.former_model, settings.model)):
            session.tell(Warning(message=text))
        thread.use_model(settings.model)
        session.workbench.new_turn()
        # A turn's first event is that it started: what there is to say before belongs to no submission.
        approvals = session.turns.approvals
        approvals.begin_turn(lambda more: session.workbench.boundary(settings, more), session.tell)
        prefixes = approvals.prefixes_to_tell(settings, session.tell)
        snapshot = session.briefing.before_input(thread, settings, session.tell, prefixes)
        await self.announce()
        is_taken = await self._prepare() and await self._take_input(self.submission)
        thread.history.append_turn_context(
            session.briefing.turn_context(snapshot, thread, settings, self.turn_id, self.output_schema)
        )
        return is_taken

    async def _prepare(self) -> bool:
        """Everything that comes before the input; false when the turn must not go on."""
        try:
            for feature in self.session.features:
                if not await feature.before_input(self):
                    return False
        except SpindleError:
            await self._take_input(self.submission)  # what a person said stays said, though there was no room for it
            raise
        except asyncio.CancelledError:
            # The same, but a feature that might object is not asked by a turn that was stopped.
            if not (_is_of_person(self.submission) and any(feature.screens_input for feature in self.session.features)):
                self._append_input(self.submission)
            raise
        return True

    async def _take_input(self, submission: Submission) -> bool:
        """Append an input and what features add to it; false when one of them does not let it in."""
        added: list[Item] = []
        # What a feature or a program began the turn with is no person's input, which others could refuse.
        for feature in self.session.features if _is_of_person(submission) else ():
            admission = await feature.admit_input(self, _text_of(submission))
            if admission is None:
                continue
            if admission.refusal is not None:
                self.emit(Warning(message=admission.refusal))
                return False
            added += admission.added
        self._append_input(submission)
        self.thread.append_items(added)
        return True

    def _append_input(self, submission: Submission) -> None:
        """Record an input, then tell it: the message itself, what people see of it, and the skills it selects."""
        thread, briefing = self.thread, self.session.briefing
        if isinstance(submission.op, InjectItems):
            thread.append_items(submission.op.items)
            return
        op = _input_op(submission)
        if op.tool_output is not None:
            from spindle.core.external import append_external  # few threads have one

            append_external(self, op.tool_output)
            if not op.items:
                return
        items = op.items
        message, said = briefing.read_input(items, self.settings, self.emit)
        thread.history.append_item(message)
        thread.history.append_event(msgspec.to_builtins(said))
        shown = {"type": "UserMessage", "id": "", "content": list(items)}
        self.emit(ItemStarted(thread_id=thread.thread_id, turn_id=self.turn_id, item=shown))
        self.emit(ItemCompleted(thread_id=thread.thread_id, turn_id=self.turn_id, item=shown))
        self.emit(said)
        briefing.append_skills(thread, items, self.settings, self.emit)
        self.inputs.append(said.message)

    # ---- its requests --------------------------------------------------------------------------

    async def before_request(self) -> None:
        """Features act, then input that arrived meanwhile is appended. People hear of it before the model does."""
        for feature in self.session.features:
            await feature.before_request(self)
        await self.absorb_input()
        await self.session.stream.settle()

    async def absorb_input(self) -> bool:
        """Append steered input; true when there was any. Asked before each request, a good time for bad news too."""
        self.session.turns.report_lost_record(self.emit)
        self.session.briefing.append_nested(self.thread, self.settings, self.emit)
        is_any = False
        while self.steered:
            submission = self.steered[0]
            is_any |= await self._take_input(submission)
            if submission in self.steered:  # whoever stops the turn meanwhile has dropped it, and said so
                self.steered.remove(submission)
        return is_any

    async def recover(self, error: ModelError) -> bool:
        """True when a feature has removed the cause of the failure, so that the request should be made again."""
        self.failure = error
        if isinstance(error, WindowFull) and error.window is not None:
            self.thread.learn_window(error.window)
        try:
            for feature in self.session.features:
                if await feature.recover(self, error):
                    return True
        finally:
            self.failure = None
        return False

    async def goes_on(self) -> bool:
        """The model is done: true when a feature gave it more to do."""
        for feature in self.session.features:
            if await feature.before_end(self):
                return True
        return False

    def complete(self) -> None:
        """The model has nothing more to do, and no feature has."""
        for feature in self.session.features:
            feature.end_turn(self)

    # ---- its calls -----------------------------------------------------------------------------

    def make_context(self, call_id: str, emit: Emit) -> ToolContext:
        """What one call may use, as the settings are at this moment."""
        session, settings = self.session, self.session.limits.cap(self.settings)
        base, more = session.workbench.boundary(settings), session.turns.approvals.widening()
        site = CallSite(
            sub_id=self.submission.id,
            turn_id=self.turn_id,
            call_id=call_id,
            settings=settings,
            boundary=base if more is None else session.workbench.boundary(settings, more),
            emit=emit,
            consult=self.permit,
            base=base,
        )
        return session.workbench.tool_context(self.thread, site, session.turns.approvals)

    async def permit(self, call_id: str, reason: str | None) -> bool:
        """Before a person is asked: true when a feature gives the permission. Raises Rejected when one refuses it."""
        for feature in self.session.features:
            if await feature.permit(self, call_id, reason):
                return True
        return False


def _is_of_person(submission: Submission) -> bool:
    if isinstance(submission.op, InjectItems):
        return False
    op = _input_op(submission)
    return op.tool_output is None or bool(op.items)


def _text_of(submission: Submission) -> str:
    """What the person typed, as features are told."""
    texts = (item.get("text") for item in _input_op(submission).items)
    return "\n".join(text for text in texts if isinstance(text, str))


def _input_op(submission: Submission) -> UserTurn | UserInput:
    assert isinstance(submission.op, UserTurn | UserInput)
    return submission.op
