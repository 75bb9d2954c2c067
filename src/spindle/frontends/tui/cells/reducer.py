"""The reducer: what each event of a thread means for the cells.

Events that most threads do not have are dealt with in modules of their own, loaded with the first of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from spindle.frontends.tui.cells import notes
from spindle.frontends.tui.cells.activity import Doing
from spindle.frontends.tui.cells.cell import Cell, Look, one_line, short
from spindle.frontends.tui.cells.messages import Answer, ProposedPlan, Reasoning, UserMessage
from spindle.frontends.tui.cells.notes import Note, TurnEnd
from spindle.frontends.tui.cells.running_commands import RunningCommands
from spindle.frontends.tui.cells.spending import Cost, Spending
from spindle.frontends.tui.cells.stage import Stage
from spindle.protocol import events as v1
from spindle.protocol.clock import Clock
from spindle.protocol.events import Event, Msg

if TYPE_CHECKING:
    from spindle.frontends.tui.cells.agents import Agents
    from spindle.frontends.tui.cells.plans import Checklist
    from spindle.frontends.tui.cells.tools import ToolCall, WebSearch


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What a conversation must know of its surroundings."""

    clock: Clock
    cwd: str = ""
    hides_reasoning: bool = False
    shows_raw_reasoning: bool = False
    words: bool = False
    """Plain mode: words in place of signs."""
    cost: Cost | None = None
    """What tokens cost in dollars, where prices are known."""


class Reducer:
    """Takes events, puts cells on the stage, and keeps what must be known of the thread."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.now_s = options.clock.monotonic
        self.cwd = options.cwd
        self.stage = Stage()
        self.doing = Doing()
        self.spending = Spending(options.cost)
        self.commands = RunningCommands(self.stage, self.show, self.now_s)
        self.is_raw = False
        """Answers are shown as the model wrote them; holds for those that begin after it was set."""
        self.mode = "default"
        """Of the last turn."""
        self.last_answer = ""
        """The last whole answer, as the model wrote it: what `/copy` copies."""
        self.last_plan = ""
        """The plan that this turn proposed; empty when it proposed none."""
        self._answers: dict[str, Answer] = {}
        """What streams, by item."""
        self._plan: Checklist | None = None
        self._calls: dict[str, ToolCall | WebSearch] = {}
        self._agents: Agents | None = None
        self.servers: dict[str, str] = {}
        """MCP servers by name: "starting", "ready", "cancelled", or "failed: REASON"."""
        self.goal_status = ""
        """How the thread's goal stands; empty without one."""
        self.warnings: list[str] = []
        """All that were shown."""
        self._is_persons_turn = False
        """The turn is a command of the person's own."""

    # ---- events --------------------------------------------------------------------------------

    def take(self, event: Event) -> None:
        """Note what happened."""
        self.take_msg(event.msg, is_of_turn=bool(event.id))

    def take_msg(self, msg: Msg, *, is_of_turn: bool = True) -> None:
        match msg:
            case v1.AgentMessageContentDelta(item_id=item_id, delta=delta):
                self._stream(item_id, delta, self._answer_kind())
            case v1.ExecCommandOutputDelta(call_id=call_id, chunk=chunk):
                self.commands.output(call_id, chunk)
            case v1.ReasoningContentDelta(delta=delta) | v1.ReasoningRawContentDelta(delta=delta):
                if not self.options.hides_reasoning:
                    self.doing.think(delta)
            case v1.AgentReasoningSectionBreak():
                self.doing.new_section()
            case v1.ItemCompleted(item=item):
                self._item(item)
            case v1.UserMessage(message=text, images=images, local_images=local):
                self.show(UserMessage(text, len(images) + len(local)))
            case v1.ExecCommandBegin(call_id=call_id):
                self.doing.waiting.discard(call_id)
                self._is_persons_turn = self.commands.begin(msg).is_users
            case v1.ExecCommandEnd():
                self.commands.end(msg)
            case v1.TerminalInteraction(call_id=call_id, stdin=typed):
                self.commands.typed(call_id, typed)
            case v1.PatchApplyEnd():
                from spindle.frontends.tui.cells.patches import Patch  # with the first patch

                self.show(Patch(msg))
            case v1.PlanUpdate(plan=plan, explanation=why):
                self._plan_update(plan, why)
            case v1.TokenCount(info=info, rate_limits=limits):
                self.spending.count(info, limits)
                if is_of_turn:  # a response is over, and with it its calls
                    self.commands.let_run()
                    self.doing.speak()
            case v1.TaskStarted(model_context_window=window, collaboration_mode_kind=mode):
                self._turn_begin(window, mode)
            case v1.TaskComplete():
                self._turn_end()
            case v1.TurnAborted(reason=reason):
                self._turn_aborted(reason)
            case v1.SessionConfigured(cwd=cwd):
                self.cwd = cwd
            case _:
                self._take_rarer(msg)

    def _take_rarer(self, msg: Msg) -> None:
        match msg:
            case v1.StreamError():
                self.doing.reconnect(msg, self.now_s())
                self._abandon_answers()
            case v1.Error(message=message, codex_error_info=info):
                self._stop_answers()
                self.show(notes.error(message, info))
            case v1.Warning(message=message):
                self.warn(message)
            case v1.ContextCompacted():
                self.show(notes.compacted(msg))
            case v1.ContextEdited():
                self.show(notes.edited(msg))
            case v1.CacheMissed():
                self.show(notes.cache_missed(msg))
            case v1.HookStarted(run=run):
                self.doing.hook = one_line(str(run.get("status_message") or ""))
            case v1.HookCompleted(run=run):
                self.doing.hook = ""
                self.show(notes.hook(run))
            case v1.ViewImageToolCall(path=path):
                self.show(Note(f"Viewed image {self.look(80).place(path)}", word="Image"))
            case v1.WebSearchBegin() | v1.WebSearchEnd():
                self._web_search(msg)
            case v1.ExecApprovalRequest(call_id=call_id) | v1.ApplyPatchApprovalRequest(call_id=call_id):
                self.doing.waiting.add(call_id)
            case v1.GrantRevoked(grant=grant, reason="settings_changed"):
                text = f"No longer allowed, because the settings changed: {short(str(grant.get('text') or ''))}"
                self.show(Note(text, word="Permissions", style="dim"))
            case v1.ThreadRolledBack(num_turns=number):
                self.show(Note(f"Went back by {number} turn{'s' if number != 1 else ''}", word="Thread"))
            case _:
                self._take_of_others(msg)

    def _take_of_others(self, msg: Msg) -> None:
        """Events of parts that most threads do not use; their modules are loaded with the first of them."""
        tag = str(msg.__struct_config__.tag)
        if tag.startswith("collab_"):
            agents = self.agents
            if (note := agents.take(msg)) is not None:
                self.show(note)
            self.doing.agents = agents.waited_for
        elif tag.startswith(("mcp_", "elicitation_")):
            from spindle.frontends.tui.cells.servers import take_server_event  # with the first MCP server

            take_server_event(self, msg)
        elif tag == "thread_goal_updated":
            from spindle.frontends.tui.cells.goals import take_goal_event  # with the first goal

            take_goal_event(self, msg)
        elif tag == "tool_call_failed":
            self.show(notes.call_failed(msg))
        elif tag in ("entered_review_mode", "exited_review_mode"):
            self.show(notes.review(msg))
        elif tag in ("plan_delta", "request_user_input"):
            from spindle.protocol.questions import PlanDelta, RequestUserInput  # loaded: one of them has just come

            if isinstance(msg, PlanDelta):
                self._stream(msg.item_id, msg.delta, ProposedPlan)
            elif isinstance(msg, RequestUserInput):
                self.doing.waiting.add(msg.call_id)

    # ---- what is said --------------------------------------------------------------------------

    def _stream(self, item_id: str, delta: str, kind: type[Answer]) -> None:
        answer = self._answers.get(item_id)
        if answer is None:
            if not delta:
                return
            answer = self._answers[item_id] = kind(item_id)
            self.doing.speak()
            self.show(answer)
        answer.feed(delta)

    def _answer_kind(self) -> type[Answer]:
        if not self.is_raw:
            return Answer
        from spindle.frontends.tui.cells.as_written import AnswerAsWritten  # only who wants it

        return AnswerAsWritten

    def _item(self, item: dict[str, Any]) -> None:
        match item:
            case {"type": "AgentMessage", "content": [*parts]}:
                text = "".join(str(part.get("text") or "") for part in parts)
                self.last_answer = text or self.last_answer
                self._said(str(item.get("id") or ""), text, self._answer_kind())
            case {"type": "FunctionCallOutput", "name": str()}:
                from spindle.frontends.tui.cells.external import External  # few threads have one

                self.show(External(item))
            case {"type": "Plan", "text": str(text)}:
                self.last_plan = text
                self._said(str(item.get("id") or ""), text, ProposedPlan)
            case {"type": "Reasoning"}:
                summary = [str(text) for text in item.get("summary_text") or ()]
                raw = [str(text) for text in item.get("raw_content") or ()]
                self._thought(summary, raw if self.options.shows_raw_reasoning else [])
            case _:
                pass

    def _said(self, item_id: str, text: str, kind: type[Answer]) -> None:
        """A message is whole."""
        streamed = self._answers.pop(item_id, None)
        if streamed is not None:
            streamed.finish(text)
        elif text.strip():
            self.doing.speak()
            self.show(kind(item_id, text))

    def _thought(self, summary: list[str], raw: list[str]) -> None:
        if self.options.hides_reasoning or not (summary or raw):
            return
        self.doing.thought(summary or raw)
        self.stage.push(Reasoning(summary, raw))

    def _abandon_answers(self) -> None:
        """The request failed and is made again: what streamed of it does not count."""
        for answer in self._answers.values():
            answer.abandon()
        self._answers.clear()

    def _stop_answers(self) -> None:
        """No more will come: what was seen stays to be seen."""
        for answer in self._answers.values():
            answer.finish()
        self._answers.clear()

    # ---- other calls ---------------------------------------------------------------------------

    @property
    def agents_running(self) -> int:
        return 0 if self._agents is None else self._agents.running

    @property
    def plan_progress(self) -> tuple[int, int]:
        """How many steps of the checklist are done, and how many there are; (0, 0) without one."""
        steps = self._plan.steps if self._plan is not None else []
        return sum(status == "completed" for status, _ in steps), len(steps)

    def _plan_update(self, plan: list[dict[str, str]], explanation: str | None) -> None:
        from spindle.frontends.tui.cells.plans import Checklist  # with the first plan

        if self._plan is not None:
            self.stage.withdraw(self._plan)
        self._plan = Checklist(plan, explanation)
        self.stage.begin(self._plan)

    def _web_search(self, msg: v1.WebSearchBegin | v1.WebSearchEnd) -> None:
        from spindle.frontends.tui.cells.tools import WebSearch  # with the first search

        if isinstance(msg, v1.WebSearchBegin):
            self.begin_call(WebSearch(msg.call_id))
            return
        known = self._calls.pop(msg.call_id, None)
        if known is not None:
            self.stage.withdraw(known)
        self.show(WebSearch(msg.call_id, msg.query, msg.action))

    def begin_call(self, call: ToolCall | WebSearch) -> None:
        self.commands.close_group()
        self._calls[call.call_id] = call
        self.stage.begin(call)

    def end_call(self, call_id: str) -> ToolCall | WebSearch | None:
        """The call is over: gives it back, out of the live area, to be shown as it ended."""
        call = self._calls.pop(call_id, None)
        if call is not None:
            self.stage.withdraw(call)
        return call

    # ---- turns ---------------------------------------------------------------------------------

    def _turn_begin(self, window: int | None, mode: str) -> None:
        self.doing.begin(self.now_s())
        self.spending.begin_turn(window)
        self._is_persons_turn = False
        self.last_plan = ""
        if mode != self.mode:
            self.mode = mode
            self.show(Note(f"Mode changed to {one_line(mode)}", word="Mode"))

    def _turn_end(self) -> None:
        begun_s, spent = self.doing.begun_s, self.spending.of_turn
        self.settle()
        if not self._is_persons_turn or spent.total_tokens:
            took = None if begun_s is None else self.now_s() - begun_s
            self.show(TurnEnd(took, spent, self.spending.cost_of(spent)))

    def _turn_aborted(self, reason: str) -> None:
        self.settle()
        self.show(notes.interrupted(reason))

    def settle(self) -> None:
        """The turn is over: nothing of it streams or runs any longer, but what runs in the background."""
        self._stop_answers()
        self.commands.settle()
        for call_id in list(self._calls):
            self._stop_call(call_id)
        self._show_plan()
        self.doing.end()

    def _stop_call(self, call_id: str) -> None:
        call = self.end_call(call_id)
        if call is not None and (stop := getattr(call, "stop", None)) is not None:
            stop(self.now_s())
            self.show(call)

    def _show_plan(self) -> None:
        plan, self._plan = self._plan, None
        if plan is not None:
            self.stage.finish(plan)

    def show(self, cell: Cell) -> None:
        """Hand a cell on its way into the scrollback."""
        if cell.is_shown:
            self.commands.close_group()
            if isinstance(cell, Answer | UserMessage):
                self._show_plan()
        self.stage.push(cell)

    def warn(self, sentence: str) -> None:
        self.warnings.append(one_line(sentence))
        self.show(notes.warning(sentence))

    def look(self, width: int, *, is_whole: bool = False) -> Look:
        """How cells are shown at this width."""
        return Look(width, self.options.words, is_whole, self.cwd)

    @property
    def agents(self) -> Agents:
        """The sub-agents of this thread."""
        if self._agents is None:
            from spindle.frontends.tui.cells.agents import Agents  # with the first sub-agent

            self._agents = Agents(self.now_s, self.options.cost)
        return self._agents
