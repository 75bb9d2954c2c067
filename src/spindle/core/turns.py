"""The turns of one session: at most one runs, each ends with exactly one terminal event.

Starts, steers and stops them, and keeps the order of what is recorded around them. What a turn does is `turn.py`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from spindle.core.approvals import Approvals
from spindle.core.briefing import Briefing
from spindle.core.calls import CallEvents
from spindle.core.live_thread import CompactionOptions, LiveThread
from spindle.core.notify import Notifier
from spindle.core.stream import EventStream
from spindle.core.turn import Emit, Turn, run_turn
from spindle.core.workbench import Workbench
from spindle.errors import ModelError, SpindleError
from spindle.prompt.aborted import aborted_marker
from spindle.protocol.events import Error, Event, Msg, TaskComplete, TaskStarted, TurnAborted, Warning
from spindle.protocol.items import Item
from spindle.protocol.ops import Compact, RunUserShellCommand, StartOver, Submission, UserInput, UserTurn
from spindle.protocol.settings import ThreadSettings
from spindle.tools.tool import ToolContext

if TYPE_CHECKING:
    from spindle.core.compaction import Compactor
    from spindle.core.hooks import Hooks, TurnHooks
    from spindle.core.plan_mode import PlanView
    from spindle.core.servers import Servers

WARM_AFTER_S = 0.05
"""When a turn is still waiting after this long, the time is used to get ready for its first command."""


class RunningTurn:
    """The turn that runs now. `reason` is what its terminal event says should somebody stop it."""

    __slots__ = (
        *("emit", "has_begun", "hooks", "inputs", "is_stopping", "reason", "settings", "submission", "task"),
        "turn_id",
    )

    def __init__(
        self, submission: Submission, turn_id: str, settings: ThreadSettings, emit: Emit, hooks: Hooks | None = None
    ) -> None:
        self.submission = submission
        self.turn_id = turn_id
        self.settings = settings
        self.emit = emit
        self.hooks: TurnHooks | None = hooks and hooks.at(turn_id, settings, emit)
        self.reason = "interrupted"
        self.inputs: list[str] = []
        """What the person said, steered input included."""
        self.task: asyncio.Task[None] | None = None
        self.has_begun = False
        self.is_stopping = False


class Turns:
    """Owned by a session. Nothing else appends to the thread while a turn runs."""

    def __init__(
        self,
        *,
        thread: LiveThread,
        briefing: Briefing,
        workbench: Workbench,
        notifier: Notifier,
        stream: EventStream,
        abort: Callable[[], None],
        max_samples: int,
        limit_s: float,
        legacy_interrupt_error: bool,
        compaction: CompactionOptions,
        cap: Callable[[ThreadSettings], ThreadSettings] = lambda settings: settings,
        servers: Servers | None = None,
        hooks: Hooks | None = None,
    ) -> None:
        self._thread = thread
        self._briefing = briefing
        self._workbench = workbench
        self._notifier = notifier
        self._stream = stream
        self._max_samples = max_samples
        self._limit_s = limit_s
        """Longest time of a turn; 0 = no limit."""
        self._legacy_interrupt_error = legacy_interrupt_error
        self._running: RunningTurn | None = None
        self._steered: list[Submission] = []
        self._said_lost = False
        self._cap = cap
        """Takes out of settings what is not allowed at this moment."""
        self.servers = servers
        self._hooks = hooks
        self._compaction = compaction
        self._compactor: Compactor | None = None
        self.approvals = Approvals(
            workbench.sandbox_problem,
            abort,
            workbench.rules,
            mask=thread.secrets.mask,
            search_path=workbench.environment.get("PATH", os.defpath),
            note=lambda what, is_granted: thread.notes.approval(what, is_granted=is_granted),
            new_id=thread.clock.uuid7,
        )

    @property
    def is_running(self) -> bool:
        return self._running is not None

    def start(self, submission: Submission, settings: ThreadSettings) -> None:
        """Begin a turn; the one before must have ended."""
        assert self._running is None
        turn_id = submission.id or self._thread.clock.uuid7()

        def emit(msg: Msg) -> None:
            self._briefing.notice(msg)
            self._stream.emit(Event(submission.id, msg))

        running = RunningTurn(submission, turn_id, self._cap(settings), emit, self._hooks)
        self._running = running
        running.task = asyncio.ensure_future(self._run(running))

    def steer(self, submission: Submission) -> None:
        """Feed the running turn; the input is appended before its next request."""
        self._steered.append(submission)

    async def stop(self, reason: str) -> None:
        """End the running turn and wait until its terminal event is out."""
        self._drop_steered()
        while (running := self._running) is not None and running.task is not None:
            if not running.has_begun:
                # A task that is cancelled before its first step runs nothing at all, not even what tells of its end.
                await asyncio.sleep(0)
            elif not running.is_stopping:
                running.is_stopping = True
                running.reason = reason
                running.task.cancel()
            else:
                # Cancelled once: a second time would cut short what is done for a whole record.
                await asyncio.wait([running.task])

    async def close(self) -> None:
        await self.stop("interrupted")
        if self._hooks is not None:
            await self._hooks.aclose(lambda msg: self._stream.emit(Event("", msg)))

    def _drop_steered(self) -> None:
        """What waits for a turn that is stopped goes with it; whoever sent it is told."""
        steered, self._steered = self._steered, []
        for submission in steered:
            text = "the turn was stopped before this input reached the model; it was dropped"
            self._stream.emit(Event(submission.id, Warning(message=text)))

    # ---- one turn ------------------------------------------------------------------------------

    async def _run(self, running: RunningTurn) -> None:
        """One turn from its first event to its terminal one."""
        running.has_begun = True
        emit, turn_id = running.emit, running.turn_id
        warming = asyncio.ensure_future(self._warm_up(running.settings))
        try:
            terminal = await self._run_to_the_end(running)
        except asyncio.CancelledError:
            # Swallowed on purpose: this task has one more thing to say, and its owner only waits for its end.
            self._thread.history.append_item(aborted_marker())
            if self._legacy_interrupt_error and running.reason == "interrupted":
                emit(Error(message="interrupted"))
            terminal = TurnAborted(turn_id=turn_id, reason=running.reason)
        except SpindleError as error:
            info = error.info if isinstance(error, ModelError) else "other"
            if info == "context_window_exceeded":
                self._thread.note_window_full(emit)
            emit(Error(message=str(error), codex_error_info=info))
            terminal = TaskComplete(turn_id=turn_id, last_agent_message=None)
        except Exception as error:  # our bug: the turn fails, the session and the record live on
            emit(Error(message=f"internal error: {type(error).__name__}: {error}", codex_error_info="other"))
            terminal = TaskComplete(turn_id=turn_id, last_agent_message=None)
        warming.cancel()
        self._thread.history.append_event(msgspec.to_builtins(terminal))
        self._running = None
        self._workbench.processes.let_go()
        self._report_lost_record(emit)
        emit(terminal)
        # Input that was steered into a turn which then failed, or ended, starts a turn of its own.
        if self._steered:
            self.start(self._steered.pop(0), running.settings)

    async def _run_to_the_end(self, running: RunningTurn) -> Msg:
        try:
            async with asyncio.timeout(self._limit_s or None):
                return await self._work(running)
        except TimeoutError:
            raise ModelError(f"stopped after {self._limit_s:g} seconds (spindle.limits.turn_timeout_sec)") from None

    async def _work(self, running: RunningTurn) -> Msg:
        """What the submission asks for; the terminal event when it is done."""
        emit, turn_id, settings = running.emit, running.turn_id, running.settings
        if isinstance(op := running.submission.op, Compact):
            await self._announce(running)
            await self.compactor.compact(settings, turn_id, emit, op.instructions, trigger="manual")
            return TaskComplete(turn_id=turn_id, last_agent_message=None)
        if isinstance(op, StartOver):
            await self._announce(running)
            self.compactor.start_over(settings, turn_id, emit)
            return TaskComplete(turn_id=turn_id, last_agent_message=None)
        if isinstance(op, RunUserShellCommand):
            from spindle.core.user_command import run_user_command  # seldom

            await self._announce(running)
            events = CallEvents(emit)
            context = self._tool_context(self._thread.clock.uuid7(), running, events.emit)
            try:
                await run_user_command(self._thread, context, op.command)
            finally:
                events.recorded()
            return TaskComplete(turn_id=turn_id, last_agent_message=None)
        op = _input_op(running.submission)
        if not await self._begin(running, op):
            return TaskComplete(turn_id=turn_id, last_agent_message=None)
        turn = Turn(
            turn_id=turn_id,
            settings=settings,
            output_schema=op.final_output_json_schema,
            absorb_input=lambda: self._absorb(running),
            make_context=lambda call_id, emit: self._tool_context(call_id, running, emit),
            make_room=lambda is_full: self._make_room(running, is_full=is_full),
            around_call=running.hooks and running.hooks.around_call,
            goes_on=running.hooks and running.hooks.goes_on,
            plan=self._plan_view(running) if settings.collaboration_mode.mode == "plan" else None,
            max_samples=self._max_samples,
        )
        outcome = await run_turn(self._thread, turn, emit)
        trouble = self._notifier.turn_completed(
            thread_id=self._thread.thread_id,
            turn_id=turn_id,
            cwd=settings.cwd,
            inputs=[self._thread.secrets.mask_known(text, own_only=True) for text in running.inputs],
            last_message=outcome.last_message and self._thread.secrets.mask_known(outcome.last_message),
        )
        if trouble is not None:
            emit(Warning(message=trouble))
        return TaskComplete(turn_id=turn_id, last_agent_message=outcome.last_message, response_id=outcome.response_id)

    def _plan_view(self, running: RunningTurn) -> PlanView:
        from spindle.core.plan_mode import PlanView  # only in plan mode

        return PlanView(self._thread, running.turn_id, running.emit)

    async def _begin(self, running: RunningTurn, op: UserTurn | UserInput) -> bool:
        """Append what changed in the world, then the input, in the record's order. False if a hook refuses it."""
        thread, settings = self._thread, running.settings
        model_before = thread.traits.slug
        if model_before != settings.model:
            thread.cache.declare("model_changed")
            if (forecast := thread.cache.forecast_of(settings.model)) is not None:
                self._stream.emit(Event("", Warning(message=str(forecast))))
        thread.use_model(settings.model)
        self._workbench.new_turn()

        # A turn's first event is that it started: what there is to say before belongs to no submission.
        def say(msg: Msg) -> None:
            self._stream.emit(Event("", msg))

        self.approvals.begin_turn(lambda: self._workbench.boundary(settings), say)
        prefixes = self.approvals.prefixes_to_tell(settings, say)
        snapshot = self._briefing.before_input(thread, settings, say, prefixes)
        await self._announce(running)
        try:
            await self._make_room(running, model=model_before)
        except (SpindleError, asyncio.CancelledError) as error:
            # What a person said stays said, though there was no room for it. A hook that might object is not asked by
            # a turn that was stopped.
            if running.hooks is None or isinstance(error, SpindleError):
                await self._take_input(running, op)
            raise
        is_stopped = running.hooks is not None and await running.hooks.begin() is not None
        is_taken = not is_stopped and await self._take_input(running, op)
        thread.history.append_turn_context(
            self._briefing.turn_context(snapshot, thread, settings, running.turn_id, op.final_output_json_schema)
        )
        return is_taken

    async def _take_input(self, running: RunningTurn, op: UserTurn | UserInput) -> bool:
        """Append an input and what hooks add to it; false when one of them does not let it in."""
        added: list[Item] = []
        if running.hooks is not None:
            refusal, added = await running.hooks.prompt(_text_of(op))
            if refusal is not None:
                running.emit(Warning(message=f"a hook refused this input, so the model does not see it: {refusal}"))
                return False
        thread, settings = self._thread, running.settings
        running.inputs.append(self._briefing.append_input(thread, op.items, settings, running.turn_id, running.emit))
        thread.append_items(added)
        return True

    async def _announce(self, running: RunningTurn) -> None:
        """The turn has begun. No request is made before it is known which tools there are."""
        started = TaskStarted(
            turn_id=running.turn_id,
            model_context_window=self._thread.window_tokens,
            collaboration_mode_kind=running.settings.collaboration_mode.mode,
        )
        self._thread.history.append_event(msgspec.to_builtins(started))
        running.emit(started)
        if self.servers is not None:
            await self.servers.prepare(self._thread, lambda msg: self._stream.emit(Event("", msg)))

    @property
    def compactor(self) -> Compactor:
        if self._compactor is None:
            from spindle.core.compaction import Compactor  # when a thread first comes near its limit

            editor = None
            if self._compaction.mode != "append_only":
                from spindle.core.editing import Editor

                editor = Editor(self._thread, self._compaction)
            self._compactor = Compactor(self._thread, self._briefing, self._compaction, editor, self._hooks)
        return self._compactor

    async def _make_room(self, running: RunningTurn, *, is_full: bool = False, model: str | None = None) -> bool:
        """Compact the thread if that is due. `model` is the one that knows the thread, if another takes over now."""
        thread, settings = self._thread, running.settings
        limit = thread.compact_limit
        is_due = limit is not None and thread.tokens_in_context >= limit
        if not is_due and not is_full and self._compactor is None and self._compaction.mode == "append_only":
            return False
        if model is None or model == settings.model:
            return await self.compactor.make_room(
                settings, running.turn_id, running.emit, is_full=is_full, is_new_turn=model is not None
            )
        if not is_due or not self.compactor.is_due(running.emit, is_new_turn=True):
            return False
        thread.use_model(model)
        try:
            await self.compactor.compact(
                msgspec.structs.replace(settings, model=model), running.turn_id, running.emit, shown_to=settings
            )
        finally:
            thread.use_model(settings.model)
        return True

    async def _absorb(self, running: RunningTurn) -> bool:
        """Append steered input; true when there was any. Asked before each request, a good time for bad news too."""
        self._report_lost_record(running.emit)
        self._briefing.append_nested(self._thread, running.settings, running.emit)
        is_any = False
        while self._steered:
            submission = self._steered[0]
            is_any |= await self._take_input(running, _input_op(submission))
            if submission in self._steered:  # whoever stops the turn meanwhile has dropped it, and said so
                self._steered.remove(submission)
        return is_any

    def _tool_context(self, call_id: str, running: RunningTurn, emit: Emit) -> ToolContext:
        settings, turn_id = self._cap(running.settings), running.turn_id
        boundary = self._workbench.boundary(settings)
        approvals = self.approvals.for_call(
            sub_id=running.submission.id,
            turn_id=turn_id,
            call_id=call_id,
            settings=settings,
            boundary=boundary,
            emit=emit,
            consult=running.hooks and running.hooks.permission,
        )
        return self._workbench.tool_context(
            self._thread,
            call_id=call_id,
            turn_id=turn_id,
            settings=settings,
            boundary=boundary,
            emit=emit,
            approvals=approvals,
        )

    async def _warm_up(self, settings: ThreadSettings) -> None:
        """Load what runs tools, and try the sandbox, while the model thinks. A profile must not run without need."""
        await asyncio.sleep(WARM_AFTER_S)
        from spindle.core import leave  # noqa: F401  kept out of the way of the first request
        from spindle.tools import patching, sessions  # noqa: F401

        if not settings.sandbox.is_full_access:
            await self._workbench.sandbox_problem()

    def _report_lost_record(self, emit: Emit) -> None:
        """Say once that the thread is no longer being recorded."""
        writer = self._thread.history.writer
        if writer is not None and writer.failed and not self._said_lost:
            self._said_lost = True
            emit(Warning(message=f"this thread is not being recorded: {writer.failed}"))


def _text_of(op: UserTurn | UserInput) -> str:
    """What the person typed, as hooks are told."""
    texts = (item.get("text") for item in op.items)
    return "\n".join(text for text in texts if isinstance(text, str))


def _input_op(submission: Submission) -> UserTurn | UserInput:
    assert isinstance(submission.op, UserTurn | UserInput)
    return submission.op
