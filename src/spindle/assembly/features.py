"""Which features a session has, and in which order. Those that few sessions need are loaded by those that do."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from spindle.assembly.options import agent_roles, notes_folder, offloads
from spindle.assembly.record import Draft
from spindle.config.schema import Config
from spindle.core.feature import Feature, Late
from spindle.core.running_turn import CONTEXT_FULL, RunningTurn
from spindle.errors import SpindleError
from spindle.policy.secrets import Secrets
from spindle.protocol.ops import (
    CallMcpTool,
    Compact,
    GoalClear,
    GoalSet,
    ListMcpTools,
    ReadMcpResource,
    RefreshMcpServers,
    Review,
    StartOver,
    Undo,
    UserTurn,
)
from spindle.tools.router import ToolSet

if TYPE_CHECKING:
    from spindle.core.feature import RunCall
    from spindle.core.session import Session
    from spindle.features.checkpoints.feature import Checkpoints
    from spindle.features.servers import Servers
    from spindle.mcp.pool import ServerPool
    from spindle.process.command import Command
    from spindle.process.running import Running
    from spindle.tools.tool import Tool, ToolCall, ToolResult

_MOST_VERDICTS = 1_000


def make_features(draft: Draft, secrets: Secrets, build_tools: Callable[..., ToolSet]) -> list[Feature]:
    """In the order in which they are asked at each moment; it decides.

    Checkpoints see what every other feature does to files. What a model is told of repeated calls stands behind all
    else. A turn has its budget before a request can be made for it. Room is made before hooks hear of a turn.
    Sub-agents end before the servers they use. The tools of a goal stand behind those of servers.
    """
    late_tools: list[Tool] = []

    def build(*more: Any) -> ToolSet:
        return build_tools(*more).joined_by(late_tools)

    config, servers = draft.request.config, _ServersOf(draft, secrets, build)
    checkpoints = _CheckpointGate(draft)
    features: list[Feature] = [checkpoints, _repeat_guard(), _budget(draft), _compaction(config)]
    if config.hooks or config.notify or draft.request.hooks:
        from spindle.assembly.hook_feature import hook_features  # only for those who have any

        features += hook_features(draft)
    if (roles := agent_roles(config)) is not None:
        from spindle.assembly.agent_sessions import agent_staff, may_spawn  # only where sub-agents are switched on
        from spindle.features.agents.agents import Agents  # likewise

        staff = partial(agent_staff, draft, servers.pool, checkpoints)
        features.append(Agents(roles, staff, may_spawn=may_spawn(draft.request)))
    if config.spindle.memory:
        from spindle.features.memory import ProjectNotes  # only where notes are switched on

        features.append(ProjectNotes(notes_folder(config)))
    features.append(servers.feature())
    features.append(Late(_schema_answer, is_needed=lambda turn: turn.output_schema is not None))
    features.append(Late(partial(_reviews, draft, servers.pool, checkpoints), (Review,)))
    features.append(_goals(draft, late_tools))
    features.append(Late(_plan, is_needed=lambda turn: turn.settings.collaboration_mode.mode == "plan"))
    if config.notify:
        from spindle.features.notify import Notify  # only for those who have such a program

        features.append(Notify(config.notify, is_trusted=config.trust_level == "trusted"))
    return features


def _budget(draft: Draft) -> Feature:
    """Loaded where something is limited, by a turn at the latest; and in sub-agents: what they use counts above."""

    def make() -> Feature:
        from spindle.assembly.budget_feature import make_budgets  # most sessions have no budget

        return make_budgets(draft)

    def brings_one(turn: RunningTurn) -> bool:
        op = turn.submission.op
        return isinstance(op, UserTurn) and bool(op.budget)

    request, spindle = draft.request, draft.request.config.spindle
    configured = (spindle.budget, spindle.budget_thread, spindle.tree_limits, spindle.budget_day)
    is_limited = any(configured) or request.budget or request.order is not None
    return make() if is_limited else Late(make, (), brings_one)


def _compaction(config: Config) -> Feature:
    def make() -> Feature:
        from spindle.features.compaction.compactor import Compactor  # when a thread first comes near its limit
        from spindle.features.compaction.options import CompactionOptions  # likewise

        options = CompactionOptions(
            prompt=config.compact_prompt,
            keep=config.spindle.compact_keep,
            keeps_tools=config.spindle.compact_keep_tools,
            asks_server=config.features.get("remote_compaction", True),
            mode=config.spindle.context_mode,
            rule=config.spindle.context_rule,
            prices=config.spindle.price_list,
            offload_home=config.home if offloads(config) else None,
        )
        return Compactor(options)

    def is_needed(turn: RunningTurn) -> bool:
        is_full = turn.failure is not None and turn.failure.info == CONTEXT_FULL
        if is_full or config.spindle.context_mode != "append_only":
            return True
        limit = turn.thread.compact_limit
        return limit is not None and turn.thread.tokens_in_context >= limit

    return Late(make, (Compact, StartOver), is_needed)


class _CheckpointGate(Late):
    """Stands before the checkpoints, which are loaded with the first command that may write, patch, or undo.

    Sub-agents have a gate that leads to the one of the session a person opened: what they do is its turn's.
    """

    def __init__(self, draft: Draft) -> None:
        super().__init__(self._make_feature, (Undo,))
        self._draft = draft
        self._root: _CheckpointGate | None = draft.request.checkpoints
        self._session: Session | None = None
        self._loaded: Checkpoints | None = None
        self._verdicts: dict[tuple[str, ...], bool] = {}

    def open(self, session: Session) -> None:
        self._session = session
        if self._draft.request.config.spindle.checkpoints_enabled:
            session.workbench.processes.watch = self
            session.workbench.keeper = self
        if self._root is None and _has_entries(f"{self._draft.request.config.home}/spindle/checkpoints/restoring"):
            self._feature()  # which finishes what a killed process may have left there

    def _make_feature(self) -> Feature:
        from spindle.assembly.checkpoint_feature import make_checkpoints  # only where something may be written

        self._loaded = make_checkpoints(self._draft)
        return self._loaded

    def _feature(self) -> Checkpoints:
        if self._root is not None:
            return self._root._feature()
        if self._loaded is None:
            assert self._session is not None
            self._made(self._session)
        assert self._loaded is not None
        return self._loaded

    def concerns(self, command: Command) -> bool:
        """May it change files of the person? What is known to look only may not, nor may what is fenced in so."""
        if command.is_confined and command.boundary is not None and not command.boundary.roots:
            return False
        words = tuple(command.argv)
        verdict = self._verdicts.get(words)
        if verdict is None:
            from spindle.policy.commands import is_known_safe  # loaded before the first command

            if len(self._verdicts) > _MOST_VERDICTS:
                self._verdicts.clear()
            verdict = self._verdicts[words] = not is_known_safe(words)
        return verdict

    async def around(self, command: Command, start: Coroutine[Any, Any, Running]) -> Running:
        return await self._feature().around(start)

    async def before(self, paths: Sequence[str]) -> None:
        await self._feature().before(paths)

    async def after(self) -> None:
        await self._feature().after()

    async def around_call(self, turn: RunningTurn, call: ToolCall, run: RunCall) -> ToolResult:
        """Of a session whose checkpoints are loaded, these stand here themselves; so this is for the others."""
        try:
            return await run(call)
        finally:
            if (loaded := self._loaded or (self._root._loaded if self._root is not None else None)) is not None:
                await loaded.close_if_idle()

    async def leave_turn(self, turn: RunningTurn) -> None:
        if self._loaded is not None:
            await self._loaded.leave_turn(turn)


def _has_entries(folder: str) -> bool:
    try:
        return bool(os.listdir(folder))
    except OSError:
        return False


def _repeat_guard() -> Feature:
    """For models that nobody knows, and small ones."""

    def make() -> Feature:
        from spindle.features.repeats import RepeatGuard  # most models need none

        return RepeatGuard()

    return Late(make, (), lambda turn: turn.thread.traits.facts.is_unproven)


def _schema_answer() -> Feature:
    from spindle.features.schema_answer import SchemaAnswer  # only where an answer must fit a schema

    return SchemaAnswer()


def _reviews(draft: Draft, pool: Callable[[], ServerPool | None], checkpoints: Any) -> Feature:
    from spindle.assembly.review_feature import make_reviews  # with the first review

    return make_reviews(draft, pool, checkpoints)


def _goals(draft: Draft, late_tools: list[Tool]) -> Feature:
    """A thread has it with its first goal, and from then on: the tools of goals stay in its list."""
    is_on = draft.request.config.features.get("goals", True)

    def make() -> Feature:
        if not is_on:
            raise SpindleError("goals are switched off; `spindle features enable goals` switches them on")
        from spindle.features.goal.goals import Goals  # few threads have a goal

        foreign = "" if not draft.is_foreign else "goes on" if draft.request.pursues_foreign_goals else "waits"
        return Goals(pursues=draft.request.pursues_goals, late_tools=late_tools, foreign=foreign)

    return make() if is_on and draft.history.has_had_goal else Late(make, (GoalSet, GoalClear))


def _plan() -> Feature:
    from spindle.features.plan import PlanMode  # only in plan mode

    return PlanMode()


class _ServersOf:
    """The MCP servers of one session. A session without any gets this with the first op about them."""

    def __init__(self, draft: Draft, secrets: Secrets, build_tools: Callable[..., ToolSet]) -> None:
        self._draft = draft
        self._secrets = secrets
        self._build_tools = build_tools
        self._made: Servers | None = None

    def feature(self) -> Feature:
        request = self._draft.request
        if request.pool is not None or any(server.enabled for server in request.config.mcp_servers.values()):
            return self._make()
        return Late(self._make, (ListMcpTools, RefreshMcpServers, CallMcpTool, ReadMcpResource))

    def pool(self) -> ServerPool | None:
        """Those that are there now, for a sub-agent."""
        return None if self._made is None else self._made.pool

    def _make(self) -> Servers:
        from spindle.assembly.servers import make_servers  # only for those who have any

        self._made = make_servers(self._draft.request, self._build_tools, self._secrets)
        return self._made
