"""The one actor that owns a live thread: ops go in, events come out, at most one turn runs.

`run` handles ops one by one and never waits for a turn, except to see it end after it was stopped. Everything that
changes the thread happens on this actor or inside the one running turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from spindle.core.approvals import Approvals
from spindle.core.briefing import Briefing
from spindle.core.live_thread import LiveThread
from spindle.core.settings import apply_op
from spindle.core.stream import EventStream, Subscription
from spindle.core.turn import Turn, run_turn
from spindle.core.workbench import Workbench
from spindle.errors import ModelError, SpindleError
from spindle.prompt.aborted import aborted_marker
from spindle.protocol.events import (
    ConversationPath,
    Error,
    Event,
    ListModelsResponse,
    ListSkillsResponse,
    Msg,
    SessionConfigured,
    ShutdownComplete,
    TaskComplete,
    TaskStarted,
    ThreadNameUpdated,
    ThreadRolledBack,
    TurnAborted,
    Warning,
)
from spindle.protocol.ops import (
    ExecApproval,
    GetPath,
    Interrupt,
    ListModels,
    ListSkills,
    OverrideTurnContext,
    PatchApproval,
    SetThreadName,
    Shutdown,
    Submission,
    ThreadRollback,
    UserInput,
    UserTurn,
)
from spindle.protocol.settings import ThreadSettings
from spindle.thread.history import History
from spindle.thread.store import ThreadStore
from spindle.tools.tool import ToolContext


class RunningTurn:
    """The turn that runs now. `reason` is set when somebody stops it."""

    __slots__ = ("reason", "sub_id", "task", "turn_id")

    def __init__(self, sub_id: str, turn_id: str) -> None:
        self.sub_id = sub_id
        self.turn_id = turn_id
        self.reason = "interrupted"
        self.task: asyncio.Task[None] | None = None


class Session:
    """A live thread. Submit ops, subscribe to events, run it in a task of yours, and close it."""

    def __init__(
        self,
        *,
        thread: LiveThread,
        settings: ThreadSettings,
        briefing: Briefing,
        workbench: Workbench,
        store: ThreadStore,
        configured: SessionConfigured,
        warnings: tuple[str, ...] = (),
        max_samples: int = 0,
        legacy_interrupt_error: bool = False,
        stream: EventStream | None = None,
        warming: asyncio.Task[None] | None = None,
    ) -> None:
        self.thread = thread
        self.settings = settings
        self._briefing = briefing
        self._workbench = workbench
        self._store = store
        self._configured = configured
        self._warnings = warnings
        self._max_samples = max_samples
        self._legacy_interrupt_error = legacy_interrupt_error
        self._stream = stream or EventStream()
        self._warming = warming
        """Opens the connection to the model; owned here so that it ends with the session."""
        self._ops: asyncio.Queue[Submission] = asyncio.Queue()
        self._running: RunningTurn | None = None
        self._closing = False
        self._said_lost = False
        self._steered: list[Submission] = []
        self._approvals = Approvals(
            workbench.environment,
            workbench.processes.sandbox_problem,
            interrupt=lambda: self.submit(Submission("", Interrupt())),
        )

    # ---- the outside ---------------------------------------------------------------------------

    @property
    def thread_id(self) -> str:
        return self.thread.thread_id

    def submit(self, submission: Submission) -> None:
        """Hand in an op. Never waits."""
        self._ops.put_nowait(submission)

    def subscribe(self, skip: tuple[type[Msg], ...] = ()) -> Subscription:
        return self._stream.subscribe(skip)

    async def run(self, configured_by: str = "") -> None:
        """Handle ops until shutdown. Owns the running turn: when this task ends, so has the turn."""
        self.emit(configured_by, self._configured)
        for text in self._warnings:
            self.emit("", Warning(message=text))
        try:
            while True:
                submission = await self._ops.get()
                if isinstance(submission.op, Shutdown):
                    await self._close()
                    self.emit(submission.id, ShutdownComplete())
                    return
                try:
                    await self._handle(submission)
                except SpindleError as error:
                    self.emit(submission.id, Error(message=str(error)))
        finally:
            await self._close()

    async def _close(self) -> None:
        """Stop the turn, kill what it left running, and let go of the record. Safe to call twice."""
        self._closing = True
        await self._stop("interrupted")
        if self._warming is not None and not self._warming.done():
            self._warming.cancel()
            await asyncio.wait([self._warming])
        await self._workbench.processes.aclose()
        await self.thread.client.aclose()
        self.thread.history.close()

    def kill_processes(self) -> None:
        """Kill what runs without waiting for anything. For a process that must end this instant."""
        self._workbench.processes.kill_all()

    def emit(self, sub_id: str, msg: Msg) -> None:
        self._stream.emit(Event(sub_id, msg))

    # ---- ops -----------------------------------------------------------------------------------

    async def _handle(self, submission: Submission) -> None:
        match submission.op:
            case UserTurn() as op:
                settings = apply_op(self.settings, op)
                branch = self._branch(op.last_response_id) if op.last_response_id is not None else None
                await self._stop("replaced")
                self.settings = settings
                if branch is not None:
                    branch()
                self._start(submission)
            case UserInput(mode="steer") if self._running is not None:
                self._steered.append(submission)
            case UserInput():
                await self._stop("replaced")
                self._start(submission)
            case OverrideTurnContext() as op:
                self.settings = apply_op(self.settings, op)
            case Interrupt():
                await self._stop("interrupted")
            case ExecApproval(id=request_id, decision=decision) | PatchApproval(id=request_id, decision=decision):
                if not self._approvals.answer(request_id, decision):
                    self.emit(submission.id, Warning(message=f"no open approval request {request_id!r}"))
            case ListSkills(cwds=cwds, force_reload=force):
                found = [
                    {"cwd": cwd, **msgspec.to_builtins(self._briefing.skills(cwd, reload=force))}
                    for cwd in cwds or [self.settings.cwd]
                ]
                self.emit(submission.id, ListSkillsResponse(skills=found))
            case ListModels():
                models = [msgspec.to_builtins(model) for model in self.thread.catalog.listed]
                self.emit(submission.id, ListModelsResponse(models=models))
            case ThreadRollback(num_turns=num_turns):
                if self._running is not None:
                    raise SpindleError("a thread cannot be rolled back while a turn runs; interrupt it first")
                self.thread.history.append_rolled_back(num_turns)
                self._briefing.forget_since(self.thread.history.last_turn_context)
                self.emit(submission.id, ThreadRolledBack(num_turns=num_turns))
            case SetThreadName(name=name):
                self._store.set_name(self.thread_id, name)
                self.emit(submission.id, ThreadNameUpdated(thread_id=self.thread_id, thread_name=name))
            case GetPath():
                writer = self.thread.history.writer
                path = writer.recorded_path if writer is not None else None
                self.emit(submission.id, ConversationPath(conversation_id=self.thread_id, path=path))
            case op:
                raise SpindleError(f"a session does not take the op {type(op).__name__}")

    def _branch(self, response_id: str) -> Callable[[], None]:
        """How to go back to the state after a response of this thread, or of another one that is recorded."""
        history = self.thread.history
        if history.has_bookmark(response_id):

            def go_back() -> None:
                history.cut_to_bookmark(response_id)
                self._briefing.forget_since(history.last_turn_context)

            return go_back
        ref = self._store.find_response_id(response_id)
        if ref is None:
            raise SpindleError(f"unknown response id {response_id!r}; the turn was not started")
        other = History.replay(self._store.read(ref))
        other.cut_to_bookmark(response_id)

        def take_over() -> None:
            history.append_compacted("", [entry.item for entry in other.entries])
            self._briefing.forget_since(other.last_turn_context)

        return take_over

    async def _stop(self, reason: str) -> None:
        """End the running turn and wait until its terminal event is out."""
        running = self._running
        if running is None or running.task is None:
            return
        running.reason = reason
        running.task.cancel()
        await asyncio.wait([running.task])

    # ---- the turn ------------------------------------------------------------------------------

    def _start(self, submission: Submission) -> None:
        running = RunningTurn(submission.id, submission.id or self.thread.clock.uuid7())
        self._running = running
        running.task = asyncio.ensure_future(self._run_turn(running, submission))

    async def _run_turn(self, running: RunningTurn, submission: Submission) -> None:
        """One turn from its first event to its terminal one."""
        settings, turn_id, sub_id = self.settings, running.turn_id, running.sub_id
        history = self.thread.history

        def emit(msg: Msg) -> None:
            self.emit(sub_id, msg)

        terminal: Msg
        try:
            self._begin(turn_id, submission, settings, emit)
            outcome = await run_turn(
                self.thread,
                Turn(
                    turn_id=turn_id,
                    settings=settings,
                    output_schema=_input_op(submission).final_output_json_schema,
                    absorb_input=lambda: self._absorb(turn_id, settings, emit),
                    make_context=lambda call_id: self._tool_context(call_id, running, settings, emit),
                    max_samples=self._max_samples,
                ),
                emit,
            )
            terminal = TaskComplete(
                turn_id=turn_id, last_agent_message=outcome.last_message, response_id=outcome.response_id
            )
        except asyncio.CancelledError:
            # Swallowed on purpose: this task has one more thing to say, and its owner only waits for its end.
            history.append_item(aborted_marker())
            if self._legacy_interrupt_error and running.reason == "interrupted":
                emit(Error(message="interrupted"))
            terminal = TurnAborted(turn_id=turn_id, reason=running.reason)
        except SpindleError as error:
            info = error.info if isinstance(error, ModelError) else "other"
            if info == "context_window_exceeded":
                self.thread.note_window_full(emit)
            emit(Error(message=str(error), codex_error_info=info))
            terminal = TaskComplete(turn_id=turn_id, last_agent_message=None)
        except Exception as error:  # our bug: the turn fails, the session and the record live on
            emit(Error(message=f"internal error: {type(error).__name__}: {error}", codex_error_info="other"))
            terminal = TaskComplete(turn_id=turn_id, last_agent_message=None)
        history.append_event(msgspec.to_builtins(terminal))
        self._running = None
        self._report_lost_record(emit)
        emit(terminal)
        # Input that was steered in the instant the turn ended starts a turn of its own.
        if self._steered and not self._closing:
            self._start(self._steered.pop(0))

    def _begin(
        self, turn_id: str, submission: Submission, settings: ThreadSettings, emit: Callable[[Msg], None]
    ) -> None:
        """Append what changed in the world, then the input; the order is the record's order."""
        thread, op = self.thread, _input_op(submission)
        thread.use_model(settings.model)
        self._workbench.new_turn()
        snapshot = self._briefing.before_input(thread, settings, emit)
        started = TaskStarted(
            turn_id=turn_id,
            model_context_window=thread.window_tokens,
            collaboration_mode_kind=settings.collaboration_mode.mode,
        )
        thread.history.append_event(msgspec.to_builtins(started))
        emit(started)
        self._briefing.append_input(thread, op.items, settings, turn_id, emit)
        thread.history.append_turn_context(
            self._briefing.turn_context(snapshot, thread, settings, turn_id, op.final_output_json_schema)
        )

    def _report_lost_record(self, emit: Callable[[Msg], None]) -> None:
        """Say once that the thread is no longer being recorded."""
        writer = self.thread.history.writer
        if writer is not None and writer.failed and not self._said_lost:
            self._said_lost = True
            emit(Warning(message=f"this thread is not being recorded: {writer.failed}"))

    def _absorb(self, turn_id: str, settings: ThreadSettings, emit: Callable[[Msg], None]) -> bool:
        """Append steered input; true when there was any."""
        steered, self._steered = self._steered, []
        for submission in steered:
            self._briefing.append_input(self.thread, _input_op(submission).items, settings, turn_id, emit)
        return bool(steered)

    def _tool_context(
        self, call_id: str, running: RunningTurn, settings: ThreadSettings, emit: Callable[[Msg], None]
    ) -> ToolContext:
        approvals = self._approvals.for_call(
            sub_id=running.sub_id, turn_id=running.turn_id, call_id=call_id, settings=settings, emit=emit
        )
        return self._workbench.tool_context(
            self.thread, call_id=call_id, turn_id=running.turn_id, settings=settings, emit=emit, approvals=approvals
        )


def _input_op(submission: Submission) -> UserTurn | UserInput:
    assert isinstance(submission.op, UserTurn | UserInput)
    return submission.op
