"""The one actor that owns a live thread: ops go in, events come out, at most one turn runs.

`run` handles ops one by one and never waits for a turn, except to see it end after it was stopped. Everything that
changes the thread happens on this actor or inside the one running turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from spindle.core.briefing import Briefing
from spindle.core.live_thread import CompactionOptions, LiveThread
from spindle.core.notify import Notifier
from spindle.core.settings import apply_op
from spindle.core.stream import EventStream, Subscription
from spindle.core.turns import Turns
from spindle.core.workbench import Workbench
from spindle.errors import SpindleError
from spindle.protocol.events import (
    ConversationPath,
    Error,
    Event,
    GrantRevoked,
    ListGrantsResponse,
    ListModelsResponse,
    ListSkillsResponse,
    Msg,
    PinsUpdated,
    SessionConfigured,
    ShutdownComplete,
    ThreadNameUpdated,
    ThreadRolledBack,
    Warning,
)
from spindle.protocol.ops import (
    Compact,
    ExecApproval,
    GetContext,
    GetPath,
    Interrupt,
    ListGrants,
    ListModels,
    ListSkills,
    OverrideTurnContext,
    PatchApproval,
    Pin,
    RevokeGrant,
    SetThreadName,
    Shutdown,
    Submission,
    ThreadRollback,
    Unpin,
    UserInput,
    UserTurn,
)
from spindle.protocol.settings import ThreadSettings
from spindle.thread.history import History
from spindle.thread.store import ThreadStore


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
        notifier: Notifier,
        configured: SessionConfigured,
        warnings: tuple[str, ...] = (),
        max_samples: int = 0,
        turn_limit_s: float = 0.0,
        legacy_interrupt_error: bool = False,
        compaction: CompactionOptions | None = None,
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
        self._stream = stream or EventStream()
        self._warming = warming
        """Opens the connection to the model; owned here so that it ends with the session."""
        self._ops: asyncio.Queue[Submission] = asyncio.Queue()
        self._turns = Turns(
            thread=thread,
            briefing=briefing,
            workbench=workbench,
            notifier=notifier,
            stream=self._stream,
            abort=lambda: self.submit(Submission("", Interrupt())),
            max_samples=max_samples,
            limit_s=turn_limit_s,
            legacy_interrupt_error=legacy_interrupt_error,
            compaction=compaction or CompactionOptions(),
        )

    # ---- the outside ---------------------------------------------------------------------------

    @property
    def thread_id(self) -> str:
        return self.thread.thread_id

    def submit(self, submission: Submission) -> None:
        """Hand in an op. Never waits."""
        self._ops.put_nowait(submission)

    async def settle(self) -> None:
        """Wait until every op that was handed in so far has been dealt with; a turn may go on after that."""
        await self._ops.join()

    def subscribe(self, skip: tuple[type[Msg], ...] = ()) -> Subscription:
        return self._stream.subscribe(skip)

    async def run(self, configured_by: str = "") -> None:
        """Handle ops until shutdown. Owns the running turn: when this task ends, so has the turn."""
        self._emit(configured_by, self._configured)
        for text in self._warnings:
            self._emit("", Warning(message=text))
        try:
            while True:
                submission = await self._ops.get()
                if isinstance(submission.op, Shutdown):
                    await self._close()
                    self._emit(submission.id, ShutdownComplete())
                    return
                try:
                    await self._handle(submission)
                except SpindleError as error:
                    self._emit(submission.id, Error(message=str(error)))
                except Exception as error:  # our bug: the op fails, the session lives on
                    self._emit(submission.id, Error(message=f"internal error: {type(error).__name__}: {error}"))
                self._ops.task_done()
        finally:
            await self._close()

    def kill_processes(self) -> None:
        """Kill what runs without waiting for anything. For a process that must end this instant."""
        self._workbench.processes.kill_all()

    async def _close(self) -> None:
        """Stop the turn, kill what it left running, and let go of the record. Safe to call twice."""
        await self._turns.close()
        if self._warming is not None and not self._warming.done():
            self._warming.cancel()
            await asyncio.wait([self._warming])
        await self._workbench.processes.aclose()
        await self.thread.client.aclose()
        self.thread.history.close()

    def _emit(self, sub_id: str, msg: Msg) -> None:
        self._stream.emit(Event(sub_id, msg))

    # ---- ops -----------------------------------------------------------------------------------

    async def _handle(self, submission: Submission) -> None:
        match submission.op:
            case UserTurn() as op:
                settings = apply_op(self.settings, op)
                branch = self._branch(op.last_response_id) if op.last_response_id is not None else None
                await self._turns.stop("replaced")
                self.settings = settings
                if branch is not None:
                    branch()
                self._turns.start(submission, settings)
            case UserInput(mode="steer") if self._turns.is_running:
                self._turns.steer(submission)
            case UserInput():
                await self._turns.stop("replaced")
                self._turns.start(submission, self.settings)
            case Compact():
                await self._turns.stop("replaced")
                self._turns.start(submission, self.settings)
            case OverrideTurnContext() as op:
                self.settings = apply_op(self.settings, op)
            case Interrupt():
                await self._turns.stop("interrupted")
            case ExecApproval(id=request_id, decision=decision) | PatchApproval(id=request_id, decision=decision):
                kind = "exec" if isinstance(submission.op, ExecApproval) else "patch"
                if not self._turns.approvals.answer(kind, request_id, decision):
                    self._emit(submission.id, Warning(message=f"no open approval request {request_id!r}"))
            case RevokeGrant(id=grant_id):
                grant = self._turns.approvals.revoke(grant_id)
                if grant is None:
                    raise SpindleError(f"there is no grant {grant_id!r}")
                self._emit(submission.id, GrantRevoked(grant=grant.to_wire()))
            case Pin(text=text):
                if not text.strip():
                    raise SpindleError("there is nothing to pin: the text is empty")
                self.thread.notes.pin(text)
                self._emit(submission.id, PinsUpdated(pins=self.thread.notes.pins))
            case Unpin(text=text):
                if not self.thread.notes.unpin(text):
                    raise SpindleError("no such fact is pinned")
                self._emit(submission.id, PinsUpdated(pins=self.thread.notes.pins))
            case ThreadRollback(num_turns=num_turns):
                self._roll_back(num_turns)
                self._emit(submission.id, ThreadRolledBack(num_turns=num_turns))
            case SetThreadName(name=name):
                self._store.set_name(self.thread_id, name)
                self._emit(submission.id, ThreadNameUpdated(thread_id=self.thread_id, thread_name=name))
            case op:
                self._emit(submission.id, self._answer(op))

    def _answer(self, op: object) -> Msg:
        """Ops that only ask."""
        match op:
            case ListSkills(cwds=cwds, force_reload=force):
                found = [
                    {"cwd": cwd, **msgspec.to_builtins(self._briefing.skills(cwd, reload=force))}
                    for cwd in cwds or [self.settings.cwd]
                ]
                return ListSkillsResponse(skills=found)
            case GetContext():
                from spindle.core.usage import context_usage  # only for who asks

                return context_usage(self.thread)
            case ListGrants():
                return ListGrantsResponse(grants=[grant.to_wire() for grant in self._turns.approvals.list_grants()])
            case ListModels():
                return ListModelsResponse(models=[msgspec.to_builtins(m) for m in self.thread.catalog.listed])
            case GetPath():
                writer = self.thread.history.writer
                path = writer.recorded_path if writer is not None else None
                return ConversationPath(conversation_id=self.thread_id, path=path)
            case _:
                raise SpindleError(f"a session does not take the op {type(op).__name__}")

    def _roll_back(self, num_turns: int) -> None:
        if self._turns.is_running:
            raise SpindleError("a thread cannot be rolled back while a turn runs; interrupt it first")
        if num_turns < 1:
            raise SpindleError("num_turns must be at least 1")
        self.thread.history.append_rolled_back(num_turns)
        self.thread.cache.declare("rollback")
        self._briefing.forget_since(self.thread.history.last_turn_context)

    def _branch(self, response_id: str) -> Callable[[], None]:
        """How to go back to the state after a response of this thread, or of another one that is recorded."""
        history = self.thread.history
        if history.has_bookmark(response_id):

            def go_back() -> None:
                history.cut_to_bookmark(response_id)
                self.thread.cache.declare("rollback")
                self._briefing.forget_since(history.last_turn_context)

            return go_back
        ref = self._store.find_response_id(response_id)
        if ref is None:
            raise SpindleError(f"unknown response id {response_id!r}; the turn was not started")
        other = History.replay(self._store.read(ref))
        other.cut_to_bookmark(response_id)

        def take_over() -> None:
            history.append_compacted("", [entry.item for entry in other.entries])
            self.thread.cache.declare("fork")
            self._briefing.forget_since(other.last_turn_context)

        return take_over
