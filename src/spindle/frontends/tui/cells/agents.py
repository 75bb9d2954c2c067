"""Sub-agents: a tree of them with what each does, how long, and what it costs; and a line for what happens to one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

import msgspec

from spindle.frontends.plain_text import duration_words
from spindle.frontends.tui.cells.cell import Look, short
from spindle.frontends.tui.cells.commands import script_of
from spindle.frontends.tui.cells.notes import Note, money
from spindle.frontends.tui.cells.spending import Cost
from spindle.frontends.tui.shown import Line, Span, line
from spindle.protocol.agent_events import (
    CollabAgentEvent,
    CollabAgentInteractionEnd,
    CollabAgentSpawnEnd,
    CollabCloseEnd,
    CollabWaitingBegin,
    CollabWaitingEnd,
)
from spindle.protocol.events import Msg
from spindle.protocol.request import TokenUsage

if TYPE_CHECKING:
    from spindle.frontends.tui.desk import AgentSeen

_STYLES = {"running": "running", "done": "ok", "stopped": "warning", "failed": "error"}


class Agent:
    """One sub-agent, as far as the thread has heard of it."""

    __slots__ = ("begun_s", "doing", "ended_s", "is_closed", "name", "parent_id", "prompt", "role", "state", "usage")

    def __init__(self, name: str, parent_id: str, prompt: str, begun_s: float) -> None:
        self.name = name
        self.role = ""
        self.parent_id = parent_id
        self.prompt = prompt
        self.state = "running"
        self.doing = ""
        self.begun_s = begun_s
        self.ended_s: float | None = None
        self.usage = TokenUsage()
        self.is_closed = False

    def set_state(self, state: str, now_s: float) -> None:
        self.state = state
        self.ended_s = None if state == "running" else now_s
        self.doing = ""

    def figures(self, now_s: float, cost: Cost | None) -> str:
        """`12s · 3,400 tokens · $0.02`."""
        took = duration_words((self.ended_s if self.ended_s is not None else now_s) - self.begun_s)
        parts = [took]
        if self.usage.total_tokens:
            parts.append(f"{self.usage.total_tokens:,} tokens")
            dollars = cost(self.usage) if cost is not None else None
            parts += [] if dollars is None else [money(dollars)]
        return " · ".join(parts)


class Agents(Sequence["AgentSeen"]):
    """All sub-agents of a thread, in the order they came; as a sequence, what lists need of each."""

    def __init__(self, now_s: Callable[[], float], cost: Cost | None) -> None:
        self._now_s = now_s
        self._cost = cost
        self.all: dict[str, Agent] = {}
        self.waited_for = 0
        """How many the model waits for now."""

    @property
    def running(self) -> int:
        return sum(agent.state == "running" for agent in self.all.values())

    def name_of(self, thread_id: str) -> str:
        """What the interface calls a sub-agent."""
        return self.all[thread_id].name if thread_id in self.all else short(thread_id, 40)

    # ---- as a sequence -------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.all)

    @overload
    def __getitem__(self, index: int) -> AgentSeen: ...

    @overload
    def __getitem__(self, index: slice) -> list[AgentSeen]: ...

    def __getitem__(self, index: int | slice) -> AgentSeen | list[AgentSeen]:
        from spindle.frontends.tui.desk import AgentSeen  # for lists; the module knows the whole interface

        listed = [
            AgentSeen(
                thread_id=thread_id,
                parent_id=agent.parent_id,
                role=agent.role,
                state="closed" if agent.is_closed else agent.state,
                doing=agent.doing or agent.prompt,
                tokens=agent.usage.total_tokens,
            )
            for thread_id, agent in self.all.items()
        ]
        return listed[index]

    # ---- events --------------------------------------------------------------------------------

    def take(self, msg: Msg) -> Note | None:
        """Note what happened; gives the line that people should read of it."""
        match msg:
            case CollabAgentSpawnEnd(new_thread_id=str(new), sender_thread_id=parent, prompt=prompt):
                agent = self._known(new, parent)
                agent.prompt = prompt
                return _said(f"{agent.name} started: {short(prompt)}")
            case CollabAgentSpawnEnd(status={"errored": str(reason)}):
                return _said(f"No agent started: {short(reason)}", style="error")
            case CollabAgentInteractionEnd(receiver_thread_id=receiver, prompt=prompt, status=status):
                if status == "not_found" or receiver not in self.all:
                    return _said(f"There is no agent {short(receiver, 40)} to talk to", style="error")
                self.all[receiver].set_state("running", self._now_s())
                return _said(f"{self.all[receiver].name} is told: {short(prompt)}")
            case CollabWaitingBegin(receiver_thread_ids=ids):
                self.waited_for = len(ids) or self.running
            case CollabWaitingEnd(statuses=statuses, usage=usage, timed_out=timed_out):
                return self._waited(statuses, usage, timed_out=timed_out)
            case CollabCloseEnd(receiver_thread_id=receiver, usage=usage) if receiver in self.all:
                agent = self.all[receiver]
                self._book(agent, usage)
                agent.is_closed = True
                if agent.state == "running":
                    agent.set_state("stopped", self._now_s())
                return _said(f"{agent.name} closed ({agent.figures(self._now_s(), self._cost)})", style="dim")
            case CollabAgentEvent(thread_id=thread_id, parent_thread_id=parent, agent_type=role, msg=inner):
                return self._heard(self._known(thread_id, parent, role), inner)
            case _:
                pass
        return None

    def _waited(self, statuses: dict[str, Any], usage: dict[str, Any], *, timed_out: bool) -> Note | None:
        self.waited_for = 0
        for thread_id, spent in usage.items():
            if thread_id in self.all:
                self._book(self.all[thread_id], spent)
        for thread_id, status in statuses.items():
            if thread_id in self.all and (state := _state(status)) != "running":
                self.all[thread_id].set_state(state, self.all[thread_id].ended_s or self._now_s())
        return _said("Agents still run; the model goes on without waiting for them", style="dim") if timed_out else None

    def _heard(self, agent: Agent, inner: dict[str, Any]) -> Note | None:
        """Something a sub-agent did itself."""
        now_s = self._now_s()
        match inner:
            case {"type": "task_started"}:
                agent.set_state("running", now_s)
            case {"type": "exec_command_begin", "command": [*words]}:
                agent.doing = script_of([str(word) for word in words])
            case {"type": "exec_command_end" | "patch_apply_end"}:
                agent.doing = ""
            case {"type": "token_count", "info": {"total_token_usage": dict(total)}}:
                self._book(agent, total)
            case {"type": "task_complete", "last_agent_message": answer}:
                if agent.state == "failed":
                    return None
                agent.set_state("done", now_s)
                words = f": {short(answer)}" if isinstance(answer, str) and answer else ""
                return _said(f"{agent.name} finished ({agent.figures(now_s, self._cost)}){words}", style="ok")
            case {"type": "turn_aborted"}:
                agent.set_state("stopped", now_s)
                return _said(f"{agent.name} was stopped", style="warning")
            case {"type": "error", "message": str(text)}:
                agent.set_state("failed", now_s)
                return _said(f"{agent.name} failed: {short(text)}", style="error")
            case {"type": "warning", "message": str(text)}:
                return _said(f"{agent.name} warns: {short(text)}", style="warning")
            case _:
                pass
        return None

    def _known(self, thread_id: str, parent_id: str, role: str | None = None) -> Agent:
        agent = self.all.get(thread_id)
        if agent is None:
            agent = self.all[thread_id] = Agent(f"Agent {len(self.all) + 1}", parent_id, "", self._now_s())
        if role and not agent.role:
            agent.role = short(role, 40)
            agent.name += f" ({agent.role})"
        return agent

    @staticmethod
    def _book(agent: Agent, usage: dict[str, Any]) -> None:
        try:
            spent = msgspec.convert(usage, TokenUsage)
        except msgspec.ValidationError:
            return
        agent.usage = max(agent.usage, spent, key=lambda known: known.total_tokens)

    # ---- the tree ------------------------------------------------------------------------------

    def live(self, look: Look) -> list[Line]:
        """The tree while any of them runs."""
        return self.tree(look) if self.running else []

    def tree(self, look: Look) -> list[Line]:
        """All of them that are not closed, each below the one that started it."""
        if not self.all:
            return []
        rows = [
            line(
                Span(f"  {lead}", "dim"),
                Span(agent.name, "bold"),
                ": ",
                Span(agent.state, _STYLES.get(agent.state, "")),
                Span(f" · {agent.figures(self._now_s(), self._cost)}", "dim"),
                f" · {short(agent.doing or agent.prompt, 60)}" if agent.doing or agent.prompt else "",
            )
            for lead, agent in self._rows(None, "", not look.words)
        ]
        return [look.title(Span("•", "running"), "Agents", f"({self.running} running)"), *rows]

    def _rows(self, parent_id: str | None, lead: str, has_signs: bool) -> Iterator[tuple[str, Agent]]:
        children = [
            (thread_id, agent)
            for thread_id, agent in self.all.items()
            if not agent.is_closed and (agent.parent_id if agent.parent_id in self.all else None) == parent_id
        ]
        for number, (thread_id, agent) in enumerate(children):
            is_last = number == len(children) - 1
            branch, stem = (("└ ", "  ") if is_last else ("├ ", "│ ")) if has_signs else ("  ", "  ")
            yield lead + branch, agent
            yield from self._rows(thread_id, lead + stem, has_signs)


def _state(status: Any) -> str:
    match status:
        case "running":
            return "running"
        case {"errored": _}:
            return "failed"
        case {"completed": _}:
            return "done"
        case _:
            return "stopped"


def _said(text: str, *, style: str = "") -> Note:
    return Note(text, word="Agents", style=style)
