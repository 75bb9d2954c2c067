"""Goals as a feature: a thread with an active goal goes on by itself, one turn after the other.

A turn that the goal starts is a turn like any other; it begins with words of ours in place of a person's. It is asked
for by an op in the session's queue, so whatever a person has sent goes first. The work ends when the model reports that
the goal is complete or blocked, when its tokens are used up, when a turn fails, when a person stops it, and when turns
bring nothing: no request is made that none of these could prevent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import msgspec

from spindle.core.feature import Feature, Handler, RunCall
from spindle.errors import SpindleError
from spindle.features.goal.tools import LOOKING, goal_tools
from spindle.prompt.goal import budget_message, goal_message
from spindle.protocol.events import Error, Warning
from spindle.protocol.goal import Goal, Status, ThreadGoalUpdated, charged_tokens, check_budget, check_objective
from spindle.protocol.ops import GoalClear, GoalSet, InjectItems, Op, Submission
from spindle.protocol.quote import visible
from spindle.thread.codex_goals import present_goal
from spindle.thread.goals import CLEARED, OURS, goal_line, recorded_goal
from spindle.tools.tool import Tool, ToolCall, ToolResult

if TYPE_CHECKING:
    from spindle.core.running_turn import RunningTurn
    from spindle.core.session import Session

MOST_SILENT_TURNS = 3
"""So many turns of its own may bring neither a word nor a call, one after the other."""
MOST_IDLE_TURNS = 10
"""So many may bring words alone: a model that only talks gets nowhere, and would do so for ever."""
MOST_OVERTIME_REQUESTS = 10
"""So many requests a turn may still make after the goal's tokens are used up, to leave nothing broken."""
_COUNTED: tuple[Status, ...] = ("active", "budgetLimited")


class PursueGoal(Op, frozen=True, kw_only=True, tag="goal_pursue"):
    """The thread may go on with its goal, if nothing else has begun meanwhile. Not on the wire."""


class Goals(Feature):
    """The goal of one thread."""

    def __init__(self, *, pursues: bool, late_tools: list[Tool], foreign: Literal["", "waits", "goes on"] = "") -> None:
        """`late_tools` are those that join the list after it was made; whoever makes the list anew adds them.

        `foreign`: the thread's file is not of this home, and what becomes of a goal that it brings.
        """
        self._foreign = foreign
        self._pursues = pursues
        self._late_tools = late_tools
        self._tools = goal_tools(self)
        self._session: Session
        self._goal: Goal | None = None
        self._recorded: Goal | None = None
        """As the last line about it says."""
        self._is_told = False
        """The model knows the objective as it is now."""
        self._is_queued = False
        """A turn of ours has been asked for and has not begun."""
        self._pursuit = ""
        """The last turn of ours."""
        self._turn_id: str | None = None
        self._counts = False
        """What the running turn uses, it uses for the goal."""
        self._charged = 0
        """What the thread had used when the goal was last charged, in tokens, and when that was."""
        self._moment = 0.0
        self._seconds = 0.0
        self._has_acted = False
        self._overtime = 0
        self._idle_turns = self._silent_turns = 0

    # ---- the goal ------------------------------------------------------------------------------

    @property
    def goal(self) -> Goal | None:
        self._charge()
        return self._goal

    def create(self, objective: str, token_budget: int | None, turn_id: str) -> Goal:
        """A goal that the model was asked to set."""
        self._charge()
        goal = self._new(objective, token_budget, "active")
        self._is_told, self._counts = True, True
        self._put(goal, turn_id)
        return goal

    def report(self, status: Literal["complete", "blocked"], turn_id: str) -> Goal:
        """What the model says of it."""
        self._charge()
        assert self._goal is not None
        goal = msgspec.structs.replace(self._goal, status=status)
        self._put(goal, turn_id)
        return goal

    def _new(self, objective: str, token_budget: int | None, status: Status) -> Goal:
        now = self._now()
        self._seconds = 0.0
        return Goal(
            thread_id=self._session.thread_id,
            objective=objective,
            status=status,
            token_budget=token_budget,
            created_at=now,
            updated_at=now,
        )

    def _now(self) -> int:
        return int(self._session.thread.clock.now())

    def _put(self, goal: Goal | None, turn_id: str | None = None, sub_id: str = "") -> None:
        """The goal is this one from now on: record it, then tell it."""
        former = self._recorded
        if goal is not None and former is not None and goal.created_at == former.created_at:
            # Another one was made a moment ago: it has not been changed since, though a second may have begun.
            goal = msgspec.structs.replace(goal, updated_at=self._now())
        self._goal = self._recorded = goal
        history = self._session.thread.history
        if goal is None:
            history.append_extra(CLEARED, {})
        else:
            history.append_event(goal_line(goal, turn_id), beside=OURS)
        self._tell(turn_id, sub_id)

    def _tell(self, turn_id: str | None = None, sub_id: str = "") -> None:
        told = None if self._goal is None else self._goal.to_wire()
        self._session.emit(sub_id, ThreadGoalUpdated(thread_id=self._session.thread_id, turn_id=turn_id, goal=told))

    def _charge(self) -> None:
        """Charge the goal with what the running turn has used since the last time."""
        thread = self._session.thread
        total, now = charged_tokens(thread.total_usage), thread.clock.monotonic()
        used, seconds = max(0, total - self._charged), now - self._moment
        self._charged, self._moment = total, now
        goal = self._goal
        if goal is None or not self._counts or self._turn_id is None:
            return
        self._seconds += seconds
        goal = msgspec.structs.replace(
            goal, tokens_used=goal.tokens_used + used, time_used_seconds=max(goal.time_used_seconds, int(self._seconds))
        )
        self._goal = _within_budget(goal)

    # ---- ops -----------------------------------------------------------------------------------

    def ops(self) -> Mapping[type[Op], Handler]:
        return {GoalSet: self._set, GoalClear: self._clear, PursueGoal: self._pursue}

    def open(self, session: Session) -> None:
        self._session = session
        thread = session.thread
        self._charged, self._moment = charged_tokens(thread.total_usage), thread.clock.monotonic()
        self._turn_id = None if session.turns.running is None else session.turns.running.turn_id
        self._goal = self._recorded = present_goal(thread.history.records, thread.thread_id, session.store.home)
        if self._goal is None and recorded_goal(thread.history.records, thread.thread_id) is not None:
            thread.history.append_extra(CLEARED, {})  # so that whoever reads the record hears of it
        if self._goal is not None:
            self._goal = _within_budget(self._goal)
            self._seconds = float(self._goal.time_used_seconds)
            if self._foreign and self._is_active:
                self._take_over(self._goal)
            else:
                self._tell()
            self._queue()

    def _take_over(self, goal: Goal) -> None:
        """A goal that nobody here set. It starts no work by itself, unless to go on is what a person asked for."""
        what = (
            f"the thread's file, which Spindle with this home did not write, brings a goal: {visible(goal.objective)}"
        )
        if self._foreign == "goes on":
            self._session.emit("", Warning(message=f"{what}; the thread goes on with it"))
            self._tell()
            return
        self._session.emit("", Warning(message=f"{what}; it waits until you resume it"))
        self._put(msgspec.structs.replace(goal, status="paused"))

    async def _set(self, session: Session, submission: Submission) -> None:
        op = submission.op
        assert isinstance(op, GoalSet)
        self._charge()
        goal = self._changed(op)
        if not self._late_tools and any(tool.name in session.thread.tools for tool in self._tools):
            raise SpindleError(
                "this thread already has tools with the names of the goal tools, so it cannot have a goal"
            )
        former = self._goal
        self._is_told = self._is_told and former is not None and former.objective == goal.objective
        self._counts = self._counts or goal.status == "active"
        self._idle_turns = self._silent_turns = 0
        session.thread.history.begin_file()
        self._put(goal, sub_id=submission.id)
        self._queue()

    def _changed(self, op: GoalSet) -> Goal:
        """The goal as the op wants it. Raises SpindleError."""
        objective = None if op.objective is None else check_objective(op.objective)
        status = _status(op.status)
        budget = None if op.token_budget is msgspec.UNSET else check_budget(op.token_budget)
        goal = self._goal
        if goal is None or (goal.status == "complete" and objective is not None):
            if objective is None:
                raise SpindleError("this thread has no goal that could be changed; give an objective to set one")
            return _within_budget(self._new(objective, budget, status or "active"))
        return _within_budget(
            msgspec.structs.replace(
                goal,
                objective=objective or goal.objective,
                status=status or goal.status,
                token_budget=goal.token_budget if op.token_budget is msgspec.UNSET else budget,
            )
        )

    async def _clear(self, session: Session, submission: Submission) -> None:
        self._counts = False
        if self._goal is None:
            self._tell(sub_id=submission.id)
        else:
            self._put(None, sub_id=submission.id)

    def _queue(self) -> None:
        """Ask for a turn of ours: behind what people have asked for."""
        session = self._session
        if self._pursues and self._is_active and not self._is_queued and not session.is_closing:
            self._is_queued = True
            session.submit(Submission(session.thread.clock.uuid7(), PursueGoal()))

    async def _pursue(self, session: Session, submission: Submission) -> None:
        self._is_queued = False
        goal = self._goal
        is_planning = session.settings.collaboration_mode.mode == "plan"
        if goal is None or not self._is_active or session.is_running or is_planning:
            return
        self._is_told, self._pursuit = True, submission.id
        await session.start_turn(Submission(submission.id, InjectItems(items=[goal_message(goal)])))

    @property
    def _is_active(self) -> bool:
        return self._goal is not None and self._goal.status == "active"

    async def interrupt(self) -> None:
        """Between two turns a person stops what is about to begin."""
        if self._is_queued and self._is_active and self._goal is not None:
            self._put(msgspec.structs.replace(self._goal, status="paused"))

    # ---- its turns -----------------------------------------------------------------------------

    async def begin_turn(self, turn: RunningTurn) -> None:
        self._charge()
        self._turn_id, self._counts = turn.turn_id, self._goal is not None and self._goal.status in _COUNTED
        self._has_acted, self._overtime = False, 0
        self._join(turn)

    def _join(self, turn: RunningTurn) -> None:
        """The tools become the thread's with its first goal, and stay: one break of the prefix, which is declared."""
        thread = turn.thread
        missing = [tool for tool in self._tools if tool.name not in thread.tools]
        if self._late_tools or not missing:
            return
        self._late_tools += missing
        tools = thread.tools.joined_by(missing)
        if thread.cache.is_begun:
            thread.cache.declare("tools_changed")
            if (forecast := thread.cache.forecast_of(tools=tools.specs_bytes)) is not None:
                turn.session.tell(Warning(message=str(forecast)))
        thread.tools = tools

    async def before_request(self, turn: RunningTurn) -> None:
        before = self._goal
        self._charge()
        goal = self._goal
        if goal is None:
            return
        if self._recorded is not None and goal.status != self._recorded.status:
            self._put(goal, turn.turn_id)
            turn.thread.append_items([budget_message(goal)])
        elif goal != before and goal.status in _COUNTED:
            self._tell(turn.turn_id)
        if goal.status == "active" and not self._is_told and LOOKING in turn.thread.tools:
            self._is_told = True
            turn.thread.append_items([goal_message(goal)])
        if self._counts and goal.status == "budgetLimited":
            self._overtime += 1
            if self._overtime > MOST_OVERTIME_REQUESTS:
                raise SpindleError(
                    f"the goal has used up its {goal.token_budget:,} tokens, and the model was told to come to an end; "
                    f"it was stopped after {MOST_OVERTIME_REQUESTS} more requests"
                )

    async def around_call(self, turn: RunningTurn, call: ToolCall, run: RunCall) -> ToolResult:
        self._has_acted |= call.name != LOOKING
        return await run(call)

    async def after_compaction(self, turn: RunningTurn, trigger: str) -> None:
        """A summary may have left out the objective."""
        self._is_told = False

    async def leave_turn(self, turn: RunningTurn) -> None:
        self._charge()
        self._turn_id, self._counts = None, False
        goal = self._goal
        if goal is None:
            return
        if goal.status == "active":
            goal = msgspec.structs.replace(goal, status=self._status_after(turn))
        if goal != self._recorded:
            self._put(goal, turn.turn_id)

    def _status_after(self, turn: RunningTurn) -> Status:
        """What becomes of an active goal with the end of a turn."""
        if turn.error is not None:
            return _status_after_failure(turn.error)
        if turn.is_stopping:
            is_wish = turn.reason == "interrupted" and not self._session.is_closing
            return "paused" if is_wish else "active"
        if turn.turn_id != self._pursuit:
            self._idle_turns = self._silent_turns = 0
            return "active"
        return self._status_after_pursuit(turn)

    def _status_after_pursuit(self, turn: RunningTurn) -> Status:
        """A turn of ours has come to its end: can another one get any further?"""
        self._idle_turns = 0 if self._has_acted else self._idle_turns + 1
        self._silent_turns = 0 if self._has_acted or turn.last_message else self._silent_turns + 1
        if turn.requests == 0:
            why = "a turn for it made no request"
        elif self._silent_turns >= MOST_SILENT_TURNS:
            why = f"the model answered nothing in {MOST_SILENT_TURNS} turns"
        elif self._idle_turns >= MOST_IDLE_TURNS:
            why = f"the model only talked, for {MOST_IDLE_TURNS} turns, and never reported it complete or blocked"
        else:
            return "active"
        turn.emit(Warning(message=f"the goal is not worked on any further: {why}"))
        return "blocked"

    def after_turn(self, turn: RunningTurn) -> None:
        if not turn.is_stopping:  # another turn takes its place, or a person wants peace
            self._queue()


def _status(given: str | None) -> Status | None:
    if given is None:
        return None
    try:
        return msgspec.convert(given, Status)
    except msgspec.ValidationError as error:
        raise SpindleError(
            f"a goal cannot be {given[:40]!r}; it is active, paused, blocked, usageLimited, budgetLimited or complete"
        ) from error


def _within_budget(goal: Goal) -> Goal:
    """An active goal whose tokens are used up is limited by that."""
    if goal.status == "active" and goal.is_spent:
        return msgspec.structs.replace(goal, status="budgetLimited")
    return goal


def _status_after_failure(error: Error) -> Status:
    """A turn that failed is not tried again: nobody knows how often it would fail."""
    if isinstance(error.budget, dict):
        return "budgetLimited"
    return "usageLimited" if error.codex_error_info == "usage_limit_exceeded" else "blocked"
