"""Events of a session → notifications. One translator per loaded thread; no I/O, time comes as an argument.

It knows which items are open, which turn runs, and what the turn waits for; so it also knows a thread's status.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable
from typing import Any

import msgspec

from spindle.frontends.app_server import notifications as notes
from spindle.frontends.app_server import server_requests as asks
from spindle.frontends.app_server.asking import Put, tool_put, user_input_put
from spindle.frontends.app_server.decisions import approval_op, decision_for_client
from spindle.frontends.app_server.items import (
    camel,
    command_actions,
    command_item,
    file_changes,
    finished_command,
    review_item,
    shown_item,
    source_of,
    turn_error,
    web_action,
)
from spindle.frontends.app_server.notifications import Note
from spindle.frontends.app_server.objects import (
    Active,
    AgentMessageItem,
    CommandItem,
    DynamicToolCallItem,
    FileChangeItem,
    Idle,
    ImageViewItem,
    SystemError,
    ThreadItem,
    ThreadStatus,
    Turn,
    TurnError,
    WebSearchItem,
)
from spindle.frontends.app_server.server_requests import Ask
from spindle.frontends.app_server.usage import rate_limits, token_usage
from spindle.protocol import events
from spindle.protocol.events import Event, Msg
from spindle.protocol.goal import Goal, ThreadGoalUpdated
from spindle.protocol.ops import ExecApproval, PatchApproval
from spindle.protocol.questions import (
    DynamicToolCallRequest,
    DynamicToolCallResponse,
    PlanDelta,
    RequestUserInput,
)
from spindle.protocol.quote import shell_join, visible

Said = Note | Put


class Translator:
    """What one thread has shown so far."""

    def __init__(self, thread_id: str, new_id: Callable[[], str]) -> None:
        self.expected = ""
        """The turn that was asked for last; if it fails before it begins, that is told as its end."""
        self._thread_id = thread_id
        self._new_id = new_id
        self._turn: Turn | None = None
        self._started_ms = 0
        self._open: dict[str, ThreadItem] = {}
        """Items that were started and not completed."""
        self._decoders: dict[str, codecs.IncrementalDecoder] = {}
        self._last_message: AgentMessageItem | None = None
        self._error: TurnError | None = None
        self._has_failed = False
        self._waiting: list[str] = []
        """What the open questions wait for, one entry each."""

    @property
    def turn(self) -> Turn | None:
        """The turn that runs, as far as clients have been told."""
        return self._turn

    @property
    def status(self) -> ThreadStatus:
        if self._turn is None:
            return SystemError() if self._has_failed else Idle()
        return Active(active_flags=sorted(set(self._waiting)))  # pyright: ignore[reportArgumentType]

    def translate(self, event: Event, now_ms: int) -> list[Said]:
        """What clients are told of one event, in order; of most events one thing."""
        msg = event.msg
        match msg:
            case events.TaskStarted(turn_id=turn_id, turn_attribution=said):
                return self._begin(turn_id, now_ms, said.get("root_turn_id") if said else None)
            case events.TaskComplete() | events.TurnAborted():
                return self._end(isinstance(msg, events.TurnAborted), now_ms)
            case events.Warning(message=message):
                return [notes.WarningNote(thread_id=self._thread_id, message=message)]
            case events.ThreadNameUpdated(thread_id=thread_id, thread_name=name):
                return [notes.ThreadNameUpdated(thread_id=thread_id, thread_name=name)]
            case ThreadGoalUpdated():
                return self._goal(msg)
            case events.HookStarted(turn_id=turn_id, run=run):
                return [notes.HookStarted(thread_id=self._thread_id, turn_id=turn_id, run=_hook_run(run))]
            case events.HookCompleted(turn_id=turn_id, run=run):
                return [notes.HookCompleted(thread_id=self._thread_id, turn_id=turn_id, run=_hook_run(run))]
            case events.ExecCommandEnd() | events.ExecCommandOutputDelta() | events.PatchApplyEnd():
                # May come after the end of the turn: a command that was left running.
                return self._of_work(msg, now_ms)
            case events.Error(message=message, codex_error_info=info) if self._turn is None:
                if event.id != self.expected:
                    return []
                begun = self._begin(event.id, now_ms)
                return [*begun, *self._fail(turn_error(message, info)), *self._end(False, now_ms)]
            case _ if self._turn is None:
                # Tool servers are started with the thread, not with a turn.
                return self._of_servers(msg, now_ms) if msg.__struct_config__.tag == "mcp_startup_update" else []
            case events.Error(message=message, codex_error_info=info, budget=budget):
                return self._fail(msgspec.structs.replace(turn_error(message, info), budget=budget))
            case events.StreamError(message=message, codex_error_info=info, additional_details=details):
                error = turn_error(message, info, details)
                return [notes.ErrorNote(error=error, will_retry=True, **self._here)]
            case events.TokenCount():
                return self._usage(msg)
            case events.PlanUpdate(plan=plan, explanation=explanation):
                steps = [notes.PlanStep(step=step["step"], status=_step_status(step["status"])) for step in plan]
                return [notes.TurnPlanUpdated(explanation=explanation, plan=steps, **self._here)]
            case events.TurnDiff(unified_diff=diff):
                return [notes.TurnDiffUpdated(diff=diff, **self._here)]
            case events.ContextCompacted():
                return [notes.ThreadCompacted(**self._here)]
            case _:
                return self._of_text(msg, now_ms) or self._of_work(msg, now_ms)

    # ---- turns ---------------------------------------------------------------------------------

    @property
    def _here(self) -> dict[str, str]:
        return {"thread_id": self._thread_id, "turn_id": self._turn.id if self._turn is not None else ""}

    def _status_note(self) -> Note:
        return notes.ThreadStatusChanged(thread_id=self._thread_id, status=self.status)

    def _begin(self, turn_id: str, now_ms: int, root_id: str | None = None) -> list[Said]:
        self._turn = Turn(id=turn_id, root_turn_id=root_id or turn_id, started_at=now_ms // 1000)
        self._started_ms = now_ms
        self._last_message = self._error = None
        self._has_failed = False
        return [self._status_note(), notes.TurnStarted(thread_id=self._thread_id, turn=self._turn)]

    def _fail(self, error: TurnError) -> list[Said]:
        """The turn cannot go on; its end follows."""
        self._error = error
        self._has_failed = True
        status = notes.ThreadStatusChanged(thread_id=self._thread_id, status=SystemError())
        return [status, notes.ErrorNote(error=error, will_retry=False, **self._here)]

    def _end(self, is_aborted: bool, now_ms: int) -> list[Said]:
        if self._turn is None:
            return []
        last = self._last_message
        status = "interrupted" if is_aborted else "failed" if self._error is not None else "completed"
        has_summary = last is not None and status == "completed"
        turn = msgspec.structs.replace(
            self._turn,
            status=status,
            error=None if is_aborted else self._error,
            items=[last] if has_summary else [],
            items_view="summary" if has_summary else "notLoaded",
            completed_at=now_ms // 1000,
            duration_ms=now_ms - self._started_ms,
        )
        self._turn = None
        self._waiting.clear()
        if is_aborted:
            self._has_failed = False
        told = [] if self._has_failed else [self._status_note()]
        return [*told, notes.TurnCompleted(thread_id=self._thread_id, turn=turn)]

    def _usage(self, msg: events.TokenCount) -> list[Said]:
        said: list[Said] = []
        if (info := msg.info) is not None:
            said.append(notes.TokenUsageUpdated(token_usage=token_usage(info), **self._here))
        if msg.rate_limits is not None:
            said.append(notes.RateLimitsUpdated(rate_limits=rate_limits(msg.rate_limits)))
        return said

    def _goal(self, msg: ThreadGoalUpdated) -> list[Said]:
        if msg.goal is None:
            return [notes.ThreadGoalCleared(thread_id=msg.thread_id)]
        return [notes.ThreadGoalUpdated(thread_id=msg.thread_id, turn_id=msg.turn_id, goal=Goal.from_wire(msg.goal))]

    # ---- items ---------------------------------------------------------------------------------

    def _start(self, item: ThreadItem, now_ms: int, turn_id: str | None = None) -> Said:
        item = msgspec.structs.replace(item, started_at_ms=now_ms)
        self._open[item.id] = item
        where = {**self._here, "turn_id": turn_id or self._here["turn_id"]}
        return notes.ItemStarted(item=item, started_at_ms=now_ms, **where)

    def _complete(self, item: ThreadItem, now_ms: int, turn_id: str | None = None) -> list[Said]:
        """The item is final; one that nobody saw begin begins here."""
        said: list[Said] = [] if item.id in self._open else [self._start(item, now_ms, turn_id)]
        began = self._open.pop(item.id)
        item = msgspec.structs.replace(item, started_at_ms=began.started_at_ms, completed_at_ms=now_ms)
        if isinstance(item, AgentMessageItem):
            self._last_message = item
        turn_id = turn_id or self._here["turn_id"]
        done = notes.ItemCompleted(item=item, thread_id=self._thread_id, turn_id=turn_id, completed_at_ms=now_ms)
        return [*said, done]

    def _show_patch(self, item: FileChangeItem, now_ms: int, turn_id: str | None = None) -> list[Said]:
        """The item begins; or, if it has begun with other changes, those that count now are told."""
        began = self._open.get(item.id)
        if began is None:
            return [self._start(item, now_ms, turn_id)]
        if not isinstance(began, FileChangeItem) or began.changes == item.changes:
            return []
        self._open[item.id] = msgspec.structs.replace(began, changes=item.changes)
        where = {**self._here, "turn_id": turn_id or self._here["turn_id"]}
        return [notes.PatchUpdated(item_id=item.id, changes=item.changes, **where)]

    def _of_text(self, msg: Msg, now_ms: int) -> list[Said]:
        """Messages, reasoning and what else a session shows as an item of its own."""
        match msg:
            case events.ItemStarted(item=shown):
                item = shown_item(shown, self._new_id())
                if item is None:
                    return []
                if isinstance(item, AgentMessageItem):
                    item = msgspec.structs.replace(item, text="")
                return [self._start(item, now_ms)]
            case events.ItemCompleted(item=shown):
                # An input has no id of its own; it is completed in the moment it begins.
                item = shown_item(shown, next(reversed(self._open), "") or self._new_id())
                return self._complete(item, now_ms) if item is not None else []
            case events.AgentMessageContentDelta(item_id=item_id, delta=delta):
                return [notes.AgentMessageDelta(item_id=item_id, delta=delta, **self._here)]
            case events.AgentReasoningSectionBreak(item_id=item_id, summary_index=index):
                return [notes.ReasoningSummaryPartAdded(item_id=item_id, summary_index=index, **self._here)]
            case events.ReasoningContentDelta(item_id=item_id, delta=delta, summary_index=index):
                return [
                    notes.ReasoningSummaryTextDelta(item_id=item_id, delta=delta, summary_index=index, **self._here)
                ]
            case events.ReasoningRawContentDelta(item_id=item_id, delta=delta, content_index=index):
                return [notes.ReasoningTextDelta(item_id=item_id, delta=delta, content_index=index, **self._here)]
            case events.WebSearchBegin(call_id=call_id):
                return [self._start(WebSearchItem(id=call_id, query=""), now_ms)]
            case events.WebSearchEnd(call_id=call_id, query=query, action=action):
                return self._complete(WebSearchItem(id=call_id, query=query, action=web_action(action)), now_ms)
            case events.ViewImageToolCall(call_id=call_id, path=path):
                return self._complete(ImageViewItem(id=call_id, path=path), now_ms)
            case _:
                return []

    def _of_work(self, msg: Msg, now_ms: int) -> list[Said]:
        """Commands, patches, and the questions about them."""
        match msg:
            case events.ExecApprovalRequest():
                return self._ask_about_command(msg, now_ms)
            case events.ApplyPatchApprovalRequest():
                return self._ask_about_patch(msg, now_ms)
            case events.ExecCommandBegin(call_id=call_id):
                if call_id in self._open:
                    self._open[call_id] = _with_process(self._open[call_id], msg)
                    return []
                return [self._start(command_item(msg), now_ms, msg.turn_id)]
            case events.ExecCommandOutputDelta(call_id=call_id, chunk=chunk):
                return self._output(call_id, chunk)
            case events.TerminalInteraction(call_id=call_id, process_id=process_id, stdin=stdin):
                return [notes.TerminalInteraction(item_id=call_id, process_id=process_id, stdin=stdin, **self._here)]
            case events.ExecCommandEnd():
                self._decoders.pop(msg.call_id, None)
                return self._complete(finished_command(msg), now_ms, msg.turn_id)
            case events.PatchApplyBegin(call_id=call_id, changes=changes):
                item = FileChangeItem(id=call_id, changes=file_changes(changes))
                return self._show_patch(item, now_ms, msg.turn_id)
            case events.PatchApplyEnd(call_id=call_id, changes=changes, success=success):
                status = "completed" if success else "failed"
                item = FileChangeItem(id=call_id, changes=file_changes(changes), status=status)
                return self._complete(item, now_ms, msg.turn_id)
            case _:
                return self._of_others(msg, now_ms)

    def _of_others(self, msg: Msg, now_ms: int) -> list[Said]:
        """What not every session has: sub-agents, tool servers, plans, questions to a person."""
        match str(msg.__struct_config__.tag).partition("_")[0]:
            case "collab":
                return self._of_agents(msg, now_ms)
            case "mcp" | "elicitation":
                return self._of_servers(msg, now_ms)
            case "model" | "patch":
                return self._of_model(msg)
            case "entered" | "exited":
                item = review_item(msgspec.to_builtins(msg), self._new_id())
                return self._complete(item, now_ms) if item is not None else []
            case _:
                pass
        match msg:
            case RequestUserInput():
                return self._wait(user_input_put(msg, self._thread_id), None, now_ms)
            case DynamicToolCallRequest() | DynamicToolCallResponse():
                return self._of_client_tools(msg, now_ms)
            case PlanDelta(item_id=item_id, delta=delta):
                return [notes.PlanDelta(item_id=item_id, delta=delta, **self._here)]
            case _:
                return []

    def _of_client_tools(self, msg: DynamicToolCallRequest | DynamicToolCallResponse, now_ms: int) -> list[Said]:
        item = DynamicToolCallItem(id=msg.call_id, namespace=msg.namespace, tool=msg.tool, arguments=msg.arguments)
        if isinstance(msg, DynamicToolCallResponse):
            done = msgspec.structs.replace(
                item,
                status="completed" if msg.success else "failed",
                content_items=msg.content_items,
                success=msg.success,
                duration_ms=msg.duration_ms,
            )
            return self._complete(done, now_ms)
        return self._wait(tool_put(msg, self._thread_id), item, now_ms)

    def _of_servers(self, msg: Msg, now_ms: int) -> list[Said]:
        from spindle.frontends.app_server import tool_servers  # only for those who have some
        from spindle.protocol import tool_servers as told  # the same

        match msg:
            case told.McpToolCallBegin():
                return [self._start(tool_servers.call_item(msg), now_ms)]
            case told.McpToolCallProgress(call_id=call_id, message=message):
                return [notes.ToolCallProgress(item_id=call_id, message=message, **self._here)]
            case told.McpToolCallEnd():
                return self._complete(tool_servers.call_item(msg), now_ms)
            case told.McpStartupUpdate():
                return [tool_servers.startup_note(msg, self._thread_id)]
            case told.ElicitationRequest():
                return self._wait(tool_servers.elicitation_put(msg, self._thread_id, now_ms), None, now_ms)
            case _:
                return []

    def _of_model(self, msg: Msg) -> list[Said]:
        from spindle.protocol.model_side import ModelReroute, PatchApplyUpdated  # not in every turn

        match msg:
            case ModelReroute(from_model=asked, to_model=answering):
                reason = "highRiskCyberActivity"
                return [notes.ModelRerouted(from_model=asked, to_model=answering, reason=reason, **self._here)]
            case PatchApplyUpdated(call_id=call_id, changes=changes):
                return [notes.PatchUpdated(item_id=call_id, changes=file_changes(changes), **self._here)]
            case _:
                return []

    def _of_agents(self, msg: Msg, now_ms: int) -> list[Said]:
        from spindle.frontends.app_server.agent_items import agent_item  # with the first sub-agent

        item = agent_item(msg)
        if item is None:
            return []
        return [self._start(item, now_ms)] if item.status == "inProgress" else self._complete(item, now_ms)

    def _output(self, call_id: str, chunk: bytes) -> list[Said]:
        decoder = self._decoders.get(call_id)
        if decoder is None:
            decoder = self._decoders[call_id] = codecs.getincrementaldecoder("utf-8")("replace")
        text = decoder.decode(chunk)
        return [notes.CommandOutputDelta(item_id=call_id, delta=text, **self._here)] if text else []

    # ---- questions -----------------------------------------------------------------------------

    def _ask_about_command(self, msg: events.ExecApprovalRequest, now_ms: int) -> list[Said]:
        item = CommandItem(
            id=msg.call_id,
            command=shell_join(msg.command),
            cwd=msg.cwd,
            command_actions=command_actions(msg.parsed_cmd),
        )
        ask = asks.CommandApproval(
            item_id=msg.call_id,
            started_at_ms=now_ms,
            reason=msg.reason,
            command=visible(item.command, keep="\n\t"),  # what a person decides on hides nothing
            cwd=msg.cwd,
            command_actions=item.command_actions,
            proposed_execpolicy_amendment=msg.proposed_execpolicy_amendment,
            available_decisions=[decision_for_client(decision) for decision in msg.available_decisions],
            **self._here,
        )
        put = Put(ask, lambda reply: approval_op(ExecApproval, msg.call_id, reply))
        return self._wait(put, item if msg.thread_id is None else None, now_ms)

    def _ask_about_patch(self, msg: events.ApplyPatchApprovalRequest, now_ms: int) -> list[Said]:
        item = FileChangeItem(id=msg.call_id, changes=file_changes(msg.changes))
        ask = asks.FileChangeApproval(
            item_id=msg.call_id,
            started_at_ms=now_ms,
            reason=msg.reason,
            grant_root=msg.grant_root,
            **self._here,
        )
        put = Put(ask, lambda reply: approval_op(PatchApproval, msg.call_id, reply))
        return self._wait(put, item if msg.thread_id is None else None, now_ms)

    def _wait(self, put: Put, item: ThreadItem | None, now_ms: int) -> list[Said]:
        """The status, the item in question unless it is shown already (or a sub-agent's), and the question."""
        said: list[Said] = []
        if put.ask.flag is not None:
            self._waiting.append(put.ask.flag)
            said.append(self._status_note())
        if isinstance(item, FileChangeItem):
            said += self._show_patch(item, now_ms)
        elif item is not None and item.id not in self._open:
            said.append(self._start(item, now_ms))
        return [*said, put]

    def answered(self, ask: Ask, is_declined: bool, now_ms: int) -> list[Said]:
        """What clients are told after a question was answered, or need no longer be."""
        if ask.flag is None:
            return []
        if ask.flag in self._waiting:
            self._waiting.remove(ask.flag)
        said: list[Said] = []
        if is_declined and isinstance(ask, asks.CommandApproval | asks.FileChangeApproval):
            item = self._open.get(ask.item_id)
            if isinstance(item, CommandItem | FileChangeItem):
                said += self._complete(msgspec.structs.replace(item, status="declined"), now_ms)
        return [*said, self._status_note()] if self._turn is not None else said


def _hook_run(run: dict[str, Any]) -> notes.HookRunSummary:
    given = {camel(key): value for key, value in run.items()}
    return msgspec.convert({**given, "eventName": camel(run["event_name"])}, notes.HookRunSummary)


def _step_status(status: str) -> Any:
    return "inProgress" if status == "in_progress" else status


def _with_process(item: ThreadItem, msg: events.ExecCommandBegin) -> ThreadItem:
    if not isinstance(item, CommandItem):
        return item
    return msgspec.structs.replace(item, process_id=msg.process_id, source=source_of(msg.source))
