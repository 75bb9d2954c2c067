"""The one actor that owns a live thread: ops go in, events come out, at most one turn runs.

`run` handles ops one by one and never waits for a turn, except to see it end after it was stopped. Everything that
changes the thread happens on this actor or inside the one running turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from spindle.core.briefing import Briefing
from spindle.core.live_thread import CompactionOptions, LiveThread
from spindle.core.notify import Notifier
from spindle.core.permission.approvals import reading
from spindle.core.settings import apply_op
from spindle.core.stream import EventStream, Subscription
from spindle.core.turns import Turns
from spindle.core.workbench import Workbench
from spindle.errors import SpindleError, reason_of
from spindle.protocol.events import (
    Error,
    Event,
    GrantRevoked,
    Msg,
    SessionConfigured,
    ShutdownComplete,
    ThreadNameUpdated,
    ThreadRolledBack,
    Warning,
)
from spindle.protocol.ops import (
    ANSWERS,
    Compact,
    InjectItems,
    Interrupt,
    ListMcpTools,
    OverrideTurnContext,
    RefreshMcpServers,
    RevokeGrant,
    RunUserShellCommand,
    SetThreadName,
    Shutdown,
    StartOver,
    Submission,
    ThreadRollback,
    UserInput,
    UserTurn,
)
from spindle.protocol.settings import ThreadSettings
from spindle.thread.store import ThreadStore

if TYPE_CHECKING:
    from spindle.core.hooks import Hooks
    from spindle.core.servers import Servers
    from spindle.core.subagents import Subagents


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
        cap: Callable[[ThreadSettings], ThreadSettings] = lambda settings: settings,
        make_agents: Callable[[Session, EventStream], Subagents] | None = None,
        servers: Servers | None = None,
        make_servers: Callable[[], Servers] | None = None,
        hooks: Hooks | None = None,
    ) -> None:
        self.thread = thread
        self.settings = settings
        self.briefing = briefing
        self._workbench = workbench
        self._store = store
        self._configured = configured
        self._warnings = warnings
        self._stream = stream or EventStream()
        self._warming = warming
        """Opens the connection to the model; owned here so that it ends with the session."""
        self._cap = cap
        """Settings within what is allowed at this moment; a sub-agent's parent has a say in it."""
        self._make_agents = make_agents
        self._agents: Subagents | None = None
        self.servers = servers
        """The MCP servers; None where there are none."""
        self._make_servers = make_servers
        workbench.agents = lambda: self.agents
        self._ops: asyncio.Queue[Submission] = asyncio.Queue()
        self.turns = Turns(
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
            cap=cap,
            servers=servers,
            hooks=hooks,
        )

    # ---- the outside ---------------------------------------------------------------------------

    @property
    def thread_id(self) -> str:
        return self.thread.thread_id

    @property
    def is_running(self) -> bool:
        return self.turns.is_running

    @property
    def present_settings(self) -> ThreadSettings:
        """What a turn would be allowed now."""
        return self._cap(self.settings)

    @property
    def agents(self) -> Subagents:
        """The sub-agents of this thread."""
        if self._agents is None:
            if self._make_agents is None:
                raise SpindleError("this session starts no sub-agents")
            self._agents = self._make_agents(self, self._stream)
        return self._agents

    def submit(self, submission: Submission) -> None:
        """Hand in an op. Never waits."""
        self._ops.put_nowait(submission)

    async def settle(self) -> None:
        """Wait until every op that was handed in so far has been dealt with; a turn may go on after that."""
        await self._ops.join()

    def subscribe(self, skip: tuple[type[Msg], ...] = ()) -> Subscription:
        return self._stream.subscribe(skip)

    def listen(self, reader: Subscription) -> None:
        self._stream.attach(reader)

    def end_stream(self) -> None:
        """Nothing more will be emitted: whoever reads the events comes to their end."""
        self._stream.close()

    async def run(self, configured_by: str = "") -> None:
        """Handle ops until shutdown. Owns the running turn: when this task ends, so has the turn."""
        self._emit(configured_by, self._configured)
        for text in self._warnings:
            self._emit("", Warning(message=text))
        if self.servers is not None:
            self.servers.begin(self.thread, partial(self._emit, ""))
        try:
            while True:
                submission = await self._ops.get()
                if isinstance(submission.op, Shutdown):
                    await self.aclose()
                    self._emit(submission.id, ShutdownComplete())
                    return
                try:
                    await self._handle(submission)
                except (SpindleError, OSError) as error:
                    self._emit(submission.id, Error(message=reason_of(error)))
                except Exception as error:  # our bug: the op fails, the session lives on
                    self._emit(submission.id, Error(message=f"internal error: {type(error).__name__}: {error}"))
                self._ops.task_done()
        finally:
            await self.aclose()

    def kill_processes(self) -> None:
        """Kill what runs without waiting for anything. For a process that must end this instant."""
        self._workbench.processes.kill_all()
        for session in self._agents.sessions.values() if self._agents else ():
            session.kill_processes()
        if self.servers is not None:
            self.servers.kill()

    async def aclose(self) -> None:
        """Stop the turn, kill what it left running, and let go of the record. Safe to call twice."""
        await self.turns.close()
        if self._agents is not None:
            await self._agents.aclose()
        if self.servers is not None:
            await self.servers.aclose()
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
                branch = self._way_back(op.last_response_id) if op.last_response_id is not None else None
                await self._stop("replaced")
                self.settings = settings
                if branch is not None:
                    branch()
                self.turns.start(submission, settings)
            case UserInput(mode="steer") if self.turns.is_running:
                self.turns.steer(submission)
                if self._agents is not None:
                    self._agents.nudge()
            case RunUserShellCommand() if self.turns.is_running:
                raise SpindleError("a command of yours can be run when the turn has ended")
            case UserInput() | Compact() | StartOver() | RunUserShellCommand():
                await self._stop("replaced")
                self.turns.start(submission, self.settings)
            case OverrideTurnContext() as op:
                self.settings = apply_op(self.settings, op)
            case Interrupt():
                await self._stop("interrupted")
            case op if isinstance(op, ANSWERS):
                kind, request_id, decision, content = reading(op)
                if not self._answer_question(kind, request_id, decision, content):
                    text = f"no open approval request or question {request_id!r}"
                    self._emit(submission.id, Warning(message=text))
            case ListMcpTools() | RefreshMcpServers() as op:
                await self._present_servers().handle(op, self.turns.is_running, partial(self._emit, submission.id))
            case RevokeGrant(id=grant_id):
                grant = self.turns.approvals.revoke(grant_id)
                if grant is None:
                    raise SpindleError(f"there is no grant {grant_id!r}")
                self._emit(submission.id, GrantRevoked(grant=grant.to_wire()))
            case ThreadRollback(num_turns=num_turns):
                self._roll_back(num_turns)
                self._emit(submission.id, ThreadRolledBack(num_turns=num_turns))
            case InjectItems() if self.turns.is_running:
                raise SpindleError("items cannot be injected while a turn runs; steer it, or wait for its end")
            case InjectItems(items=items):
                self.thread.append_items(items)
            case SetThreadName(name=name):
                self._store.set_name(self.thread_id, name)
                self._emit(submission.id, ThreadNameUpdated(thread_id=self.thread_id, thread_name=name))
            case op:
                from spindle.core.answers import answer  # for the ops that are answered at once, and seldom come

                self._emit(submission.id, answer(self, op))

    def _present_servers(self) -> Servers:
        if self.servers is None:
            if self._make_servers is None:
                raise SpindleError("this session starts no MCP servers")
            self.servers = self.turns.servers = self._make_servers()
            self.servers.begin(self.thread, partial(self._emit, ""))
        return self.servers

    async def _stop(self, reason: str) -> None:
        """End the running turn, and what sub-agents do for it; without a turn only an interrupt reaches them."""
        is_theirs = self.turns.is_running or reason == "interrupted"
        await self.turns.stop(reason)
        if is_theirs and self._agents is not None:
            await self._agents.interrupt()

    def _answer_question(self, kind: str, request_id: str, decision: object, content: Any = None) -> bool:
        if self.turns.approvals.answer(kind, request_id, decision, content):
            return True
        return self._agents is not None and self._agents.answer(kind, request_id, decision, content)

    def _roll_back(self, num_turns: int) -> None:
        from spindle.core.branching import roll_back  # seldom

        if self.turns.is_running:
            raise SpindleError("a thread cannot be rolled back while a turn runs; interrupt it first")
        roll_back(self.thread, self.briefing, num_turns)

    def _way_back(self, response_id: str) -> Callable[[], None]:
        from spindle.core.branching import way_back  # few turns go back

        return way_back(self.thread, self.briefing, self._store, response_id)
