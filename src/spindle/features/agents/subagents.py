"""Sub-agents: sessions of their own that a session's model starts, talks to, waits for and closes.

Each has its own thread, record and context; only its final message comes back. It is allowed at most what its parent is
allowed, now and when it was started. What it asks a person goes through the parent's stream, and so does, wrapped, all
that it does. It never takes its parent down: whatever goes wrong in it becomes its status.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from spindle.core.child_session import CLOSE_S, Charge, SessionOrder, Tap, end_session, open_whole
from spindle.core.stream import DELTAS
from spindle.errors import SpindleError, ToolError
from spindle.features.agents.agent_tree import AgentTree
from spindle.policy.narrow import narrowed
from spindle.policy.rulebook import RuleBook
from spindle.protocol.agent_events import CollabAgentEvent, Status
from spindle.protocol.events import (
    ApplyPatchApprovalRequest,
    Error,
    Event,
    ExecApprovalRequest,
    ExecCommandOutputDelta,
    Msg,
    ReasoningRawContentDelta,
    TaskComplete,
    TaskStarted,
    TokenCount,
    TurnAborted,
    usage_info,
)
from spindle.protocol.ops import (
    ExecApproval,
    Interrupt,
    Op,
    PatchApproval,
    ResolveElicitation,
    Submission,
    UserInput,
    UserTurn,
)
from spindle.protocol.request import TokenUsage
from spindle.protocol.settings import AgentRole, CollaborationMode, ThreadSettings
from spindle.protocol.tool_servers import ElicitationRequest

if TYPE_CHECKING:
    from spindle.core.session import Session

KIND = "spindle_agent"
"""The lines of the record that tell of a thread's sub-agents."""

_NOT_FORWARDED = (*DELTAS, ReasoningRawContentDelta, ExecCommandOutputDelta)
"""A reader that falls behind must not drown in pieces of what it gets as a whole."""


class AgentOrder(SessionOrder, frozen=True, kw_only=True):
    """What the composition root needs to open a sub-agent's session.

    Its `cap` takes out of settings what the parent may not do now, or might not when it gave the order.
    """

    role: AgentRole | None
    tree: AgentTree


OpenAgent = Callable[[AgentOrder], Coroutine[Any, Any, "Session"]]


class Staff(msgspec.Struct, frozen=True, kw_only=True):
    """Which sub-agents a session may have: those of a person's session, or of a sub-agent within its parent's."""

    open_agent: OpenAgent
    roles: Mapping[str, AgentRole]
    rules: RuleBook
    tree: AgentTree
    depth: int = 0
    """How deep in the tree the session itself stands."""
    charge_above: Charge | None = None
    """Books what they cost at the session that started this one."""


class Agent:
    """One sub-agent that is open."""

    def __init__(self, session: Session, role: AgentRole | None) -> None:
        self.session = session
        self.role = role
        self.status: Status = "running"
        self.failure: str | None = None
        """What went wrong in the turn that runs."""
        self.questions: dict[str, tuple[str, str]] = {}
        """Open requests to a person: the id in the parent's stream → kind, and the id in the agent's own."""
        self.actor: asyncio.Task[None] | None = None

    @property
    def id(self) -> str:
        return self.session.thread_id

    @property
    def is_done(self) -> bool:
        """Nothing more happens until somebody sends something."""
        return self.status != "running" and not self.session.is_running


class Subagents:
    """The sub-agents of one session. Owned by it and closed with it."""

    def __init__(self, session: Session, staff: Staff) -> None:
        thread = session.thread
        self._session = session
        self._staff = staff
        self._thread = thread
        self._stream = session.stream
        self._roles = staff.roles
        self._tree = staff.tree
        self._depth = staff.depth
        self._agents: dict[str, Agent] = {}
        self._closed: dict[str, TokenUsage | None] = {
            agent_id: None
            for record in thread.history.records
            if record.kind == KIND and isinstance(agent_id := record.payload.get("id"), str)
        }
        """Those that were, with what they cost where that is known; a resumed thread finds the former ones here."""
        self._changed = asyncio.Event()
        self._nudges = 0

    # ---- what tools ask for --------------------------------------------------------------------

    async def spawn(self, message: str, role_name: str | None, settings: ThreadSettings) -> str:
        """Start a sub-agent on a task; its id. `settings` are those of the turn that wants it."""
        role = self._role(role_name)
        ledger = self._thread.budget
        if ledger is not None and (spent := ledger.spent_below()) is not None:
            raise SpindleError(str(spent))
        self._tree.admit(self._depth + 1)
        try:
            session = await self._open(role, settings)
        except BaseException:
            self._tree.release()
            raise
        agent = Agent(session, role)
        self._agents[agent.id] = agent
        session.listen(Tap(partial(self._hear, agent)))
        agent.actor = asyncio.ensure_future(session.run())
        agent.actor.add_done_callback(partial(self._on_end, agent))
        self._record(agent.id, "running", role=role_name, task=message)
        session.submit(Submission(self._thread.clock.uuid7(), UserTurn(items=_text(message))))
        return agent.id

    async def send(self, agent_id: str, message: str, *, interrupt: bool = False) -> None:
        """Tell a sub-agent something; returns when it has it."""
        agent = self._find(agent_id)
        mode = "replace" if interrupt else "steer"
        agent.status = "running"
        agent.session.submit(Submission(self._thread.clock.uuid7(), UserInput(items=_text(message), mode=mode)))
        await self._settled(agent)

    async def wait(self, ids: list[str], timeout_s: float, *, any_of_them: bool = False) -> bool:
        """Wait until all, or any, of them are done, or somebody is in a hurry; false when the time was up before.

        Those that do not exist count as done.
        """
        enough, nudges = any if any_of_them else all, self._nudges
        try:
            async with asyncio.timeout(timeout_s):
                while nudges == self._nudges and not enough(self._is_done(agent_id) for agent_id in ids):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True

    async def close(self, agent_id: str) -> None:
        """End a sub-agent; one that is closed already stays so."""
        if agent_id in self._closed:
            return
        await self._end(self._find(agent_id))

    def status(self, agent_id: str) -> Status:
        agent = self._agents.get(agent_id)
        if agent is None:
            return "shutdown" if agent_id in self._closed else "not_found"
        return "running" if agent.session.is_running else agent.status

    def usage(self, agent_id: str) -> dict[str, Any] | None:
        """What a sub-agent, with its own, has cost; None where that is not known."""
        agent = self._agents.get(agent_id)
        usage = self._closed.get(agent_id) if agent is None else agent.session.thread.total_usage
        return None if usage is None else usage.to_dict()

    # ---- what the session asks for -------------------------------------------------------------

    @property
    def sessions(self) -> dict[str, Session]:
        """The live sub-agents by id, for front ends that want to read one's own stream."""
        return {agent_id: agent.session for agent_id, agent in self._agents.items()}

    def answer(self, kind: str, request_id: str, decision: Any, content: dict[str, Any] | None = None) -> bool:
        """Pass a person's answer on to the sub-agent that asked; false when none has such a question."""
        for agent in self._agents.values():
            asked, own_id = agent.questions.get(request_id, ("", ""))
            if asked == kind:
                del agent.questions[request_id]
                agent.session.submit(Submission("", _answer_op(kind, own_id, decision, content)))
                return True
        return False

    def nudge(self) -> None:
        """Nobody waits any longer: there is something the model should hear first."""
        self._nudges += 1
        self._changed.set()

    async def interrupt(self) -> None:
        """Stop what the sub-agents do. They stay open: what they have learned is not lost."""
        running = [agent for agent in self._agents.values() if not agent.is_done]
        for agent in running:
            agent.session.submit(Submission("", Interrupt()))
        await asyncio.gather(*(self._settled(agent) for agent in running))

    async def aclose(self) -> None:
        """Close all of them. Safe to call twice."""
        await asyncio.gather(*(self._end(agent) for agent in list(self._agents.values())))

    # ---- one sub-agent -------------------------------------------------------------------------

    def _role(self, name: str | None) -> AgentRole | None:
        role = self._roles.get(name or "default")
        if role is None and name is not None:
            known = ", ".join(dict.fromkeys(("default", *self._roles)))
            raise SpindleError(f"there is no agent type {name!r}; known: {known}")
        return role

    async def _open(self, role: AgentRole | None, settings: ThreadSettings) -> Session:
        def cap(wanted: ThreadSettings) -> ThreadSettings:
            return narrowed(narrowed(wanted, settings), self._session.present_settings)

        spawned: dict[str, Any] = {"parent_thread_id": self._thread.thread_id, "depth": self._depth + 1}
        if role is not None:
            spawned["agent_role"] = role.name
        order = AgentOrder(
            parent_thread_id=self._thread.thread_id,
            parent_transcript=None if (writer := self._thread.history.writer) is None else writer.path,
            depth=self._depth + 1,
            name=role.name if role is not None else "default",
            header="collab_spawn",
            source={"subagent": {"thread_spawn": spawned}},
            role=role,
            settings=cap(_with_role(settings, role)),
            cap=cap,
            tree=self._tree,
            charge=self._book,
            rules=self._staff.rules,
            budget=lambda: self._thread.budget,
        )
        return await open_whole(self._staff.open_agent(order))

    def _book(self, usage: TokenUsage) -> None:
        """What sub-agents cost counts as the session's own cost, all the way up."""
        self._thread.total_usage = self._thread.total_usage + usage
        if self._staff.charge_above is not None:
            self._staff.charge_above(usage)

    def _hear(self, agent: Agent, event: Event) -> None:
        try:
            self._on_event(agent, event)
        except Exception as error:  # our bug: it must neither stop the sub-agent in mid-sentence nor go unseen
            agent.failure = f"internal error: {type(error).__name__}: {error}"
            if isinstance(event.msg, TaskComplete | TurnAborted):
                agent.status = {"errored": agent.failure}
                self._changed.set()

    def _on_event(self, agent: Agent, event: Event) -> None:
        msg = event.msg
        match msg:
            case TaskStarted():
                agent.status, agent.failure = "running", None
            case Error(message=message):
                agent.failure = message
                if agent.status == "running" and not agent.session.is_running:  # what was sent could not even begin
                    agent.status = {"errored": message}
                    self._changed.set()
            case TaskComplete(last_agent_message=text):
                agent.status = {"completed": text} if agent.failure is None else {"errored": agent.failure}
            case TurnAborted():
                agent.status = "interrupted"
            case ExecApprovalRequest() | ApplyPatchApprovalRequest() | ElicitationRequest():
                self._put_question(agent, msg)
                return
            case _:
                pass
        if isinstance(msg, CollabAgentEvent):
            self._stream.emit(Event("", msg))
        elif not isinstance(msg, _NOT_FORWARDED):
            self._stream.emit(Event("", self._wrapped(agent, msg)))
        if isinstance(msg, TaskComplete | TurnAborted):
            agent.questions.clear()
            self._record(agent.id, agent.status if isinstance(agent.status, str) else next(iter(agent.status)))
            self._report_usage()
            self._changed.set()

    def _report_usage(self) -> None:
        """Tell what the session has cost by now.

        While a turn runs, its next response records that: in the record a count marks the end of a request, and here
        none has ended.
        """
        thread = self._thread
        if self._session.is_running:
            info = usage_info(thread.total_usage, thread.last_usage, thread.window_tokens)
            self._stream.emit(Event("", TokenCount(info=info, rate_limits=thread.rate_limits)))
        else:
            thread.report_usage(lambda msg: self._stream.emit(Event("", msg)))

    def _wrapped(self, agent: Agent, msg: Msg) -> CollabAgentEvent:
        return CollabAgentEvent(
            thread_id=agent.id,
            parent_thread_id=self._thread.thread_id,
            agent_type=agent.role.name if agent.role else None,
            msg=msgspec.to_builtins(msg),
        )

    def _put_question(
        self, agent: Agent, msg: ExecApprovalRequest | ApplyPatchApprovalRequest | ElicitationRequest
    ) -> None:
        """A request to a person, under an id that no other thread can have."""
        is_own = msg.thread_id is None
        if isinstance(msg, ElicitationRequest):
            request_id = f"{agent.id}:{msg.id}:{self._thread.clock.uuid7()[-8:]}" if is_own else msg.id
            agent.questions[request_id] = ("elicitation", msg.id)
            forwarded = msgspec.structs.replace(msg, id=request_id, thread_id=agent.id if is_own else msg.thread_id)
            self._stream.emit(Event(request_id, forwarded))
            return
        # A model chooses its call ids, and knows its sub-agents' ids: an answer must not reach another question.
        request_id = f"{agent.id}:{msg.call_id}:{self._thread.clock.uuid7()[-8:]}" if is_own else msg.call_id
        agent.questions[request_id] = ("exec" if isinstance(msg, ExecApprovalRequest) else "patch", msg.call_id)
        thread_id = agent.id if is_own else msg.thread_id
        self._stream.emit(Event(request_id, msgspec.structs.replace(msg, call_id=request_id, thread_id=thread_id)))

    def _on_end(self, agent: Agent, actor: asyncio.Task[None]) -> None:
        """The sub-agent's task is over. If nobody closed it, it crashed."""
        if agent.id in self._agents:
            error = None if actor.cancelled() else actor.exception()
            reason = f"internal error: {type(error).__name__}: {error}" if error else "the sub-agent was stopped"
            if not isinstance(agent.status, dict):
                agent.status = {"errored": reason}
            self._changed.set()

    async def _settled(self, agent: Agent) -> None:
        """Wait until the sub-agent has dealt with what was submitted, or is gone."""
        assert agent.actor is not None
        settled = asyncio.ensure_future(agent.session.settle())
        try:
            await asyncio.wait([settled, agent.actor], timeout=CLOSE_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            settled.cancel()

    async def _end(self, agent: Agent) -> None:
        if self._agents.pop(agent.id, None) is None:
            return
        self._tree.release()
        self._closed[agent.id] = agent.session.thread.total_usage
        self._changed.set()
        assert agent.actor is not None
        try:
            await end_session(agent.session, agent.actor)
        finally:
            self._closed[agent.id] = agent.session.thread.total_usage
            self._record(agent.id, "closed")

    def _record(self, agent_id: str, state: str, **more: str | None) -> None:
        """A line of the parent's record; the ledger of its work is made of such lines."""
        self._thread.history.append_extra(KIND, {"id": agent_id, "state": state, **more})

    def _find(self, agent_id: str) -> Agent:
        agent = self._agents.get(agent_id)
        if agent is not None and agent.actor is not None and not agent.actor.done():
            return agent
        if agent is not None or agent_id in self._closed:
            raise ToolError(f"agent {agent_id} is closed; start a new one for more work")
        raise ToolError(f"there is no agent {agent_id!r}")

    def _is_done(self, agent_id: str) -> bool:
        agent = self._agents.get(agent_id)
        return agent is None or agent.is_done


def _with_role(settings: ThreadSettings, role: AgentRole | None) -> ThreadSettings:
    changes: dict[str, Any] = {"collaboration_mode": CollaborationMode()}
    mode = role.sandbox_mode if role is not None else None
    if settings.collaboration_mode.mode == "plan":
        mode = "read-only"  # who only plans has nothing changed by others either
    if mode is not None:
        changes["sandbox"] = msgspec.structs.replace(settings.sandbox, mode=mode)
    if role is not None:
        changes |= {"model": role.model or settings.model, "effort": role.effort or settings.effort}
    return msgspec.structs.replace(settings, **changes)


def _answer_op(kind: str, own_id: str, decision: Any, content: dict[str, Any] | None) -> Op:
    if kind == "elicitation":
        return ResolveElicitation(server_name="", request_id=own_id, decision=decision, content=content)
    return (ExecApproval if kind == "exec" else PatchApproval)(id=own_id, decision=decision)


def _text(message: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": message}]
