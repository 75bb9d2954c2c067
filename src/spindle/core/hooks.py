"""Hooks at the moments of a session: what they are told, and what their answers do to the turn.

A hook can forbid, add to what the model knows, or make a turn go on; it can give a permission that a person would have
been asked for, and nothing beyond. Loaded only in sessions that have hooks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from spindle.core.hook_calls import HookedCall, changed_call, read_call, session_of
from spindle.core.hook_runs import HookRunner, Moment, run_id
from spindle.core.live_thread import LiveThread
from spindle.core.workbench import Workbench
from spindle.errors import ModelError, Rejected, SpindleError, ToolError
from spindle.policy.hook_answers import Answer, is_in_reach
from spindle.protocol.events import Msg, Warning
from spindle.protocol.hook_records import Hook
from spindle.protocol.items import Item, developer_message, user_message
from spindle.protocol.settings import ThreadSettings
from spindle.tools.tool import Tool, ToolCall, ToolContext, ToolResult

Emit = Callable[[Msg], None]

MAX_CONTINUATIONS = 20
"""How often Stop hooks may make one turn go on."""


class AgentFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What hooks are told of a sub-agent, beside what they are told of any session."""

    kind: str
    session_id: str
    """The session that started it."""
    transcript_path: str | None
    """The record of that session."""


class Hooks:
    """The hooks of one session."""

    def __init__(
        self,
        hooks: tuple[Hook, ...],
        *,
        thread: LiveThread,
        workbench: Workbench,
        origin: str,
        agent: AgentFacts | None = None,
    ) -> None:
        self.thread = thread
        self.workbench = workbench
        self.agent = agent
        self.runner = HookRunner(hooks, processes=workbench.processes, clock=thread.clock, mask=thread.secrets.mask)
        self.origin: str | None = origin
        """Why the thread starts, until it has: startup, resume, fork or compact."""
        self.unfinished: dict[int, tuple[str, HookedCall]] = {}
        """Commands that outlived their call, by session id."""
        self.has_warned = False
        self._last: TurnHooks | None = None

    def at(self, turn_id: str, settings: ThreadSettings, emit: Emit) -> TurnHooks:
        """The hooks for one turn."""
        self._last = TurnHooks(self, turn_id, settings, emit)
        return self._last

    async def aclose(self, emit: Emit) -> None:
        """The session ends; whoever closes it waits for the last hooks."""
        last, self._last = self._last, None
        if last is not None and self.agent is None:
            await last.session_end(emit)
        await self.runner.aclose()


class TurnHooks:
    """The hooks of a session during one turn."""

    def __init__(self, hooks: Hooks, turn_id: str, settings: ThreadSettings, emit: Emit) -> None:
        self._all = hooks
        self._turn_id = turn_id
        self._settings = settings
        self._emit = emit
        self._continuations = 0
        self._calls: dict[str, HookedCall] = {}
        """The calls that run, by their id."""

    # ---- the turn ----------------------------------------------------------------------------------

    async def begin(self) -> str | None:
        """Before a turn's input, where the thread has just started; the reason if the turn must not go on."""
        origin, self._all.origin = self._all.origin, None
        if origin is None:
            return None
        if (agent := self._all.agent) is not None:
            return self._tell(await self._run("SubagentStart", {}, names=(agent.kind,)))
        return self._tell(await self._run("SessionStart", {"source": origin}, names=(origin,)))

    async def prompt(self, text: str) -> tuple[str | None, list[Item]]:
        """Before an input is recorded: the reason if it must not be, and what the model is to know with it.

        What a sub-agent is told comes from a model, and was a call that had its hooks.
        """
        if self._all.agent is not None:
            return None, []
        prompt = self._all.thread.secrets.mask_known(text, own_only=True)
        answers = await self._run("UserPromptSubmit", {"prompt": prompt})
        return _refusal(answers), _contexts(answers)

    async def goes_on(self, last_message: str | None) -> bool:
        """The model is done: true when a hook gave it more to do."""
        agent = self._all.agent
        event, names = ("Stop", ()) if agent is None else ("SubagentStop", (agent.kind,))
        if not self._all.runner.has(event):
            return False
        said = last_message and self._all.thread.secrets.mask_known(last_message)
        details: dict[str, Any] = {"stop_hook_active": self._continuations > 0, "last_assistant_message": said}
        if agent is not None:
            details |= {"agent_transcript_path": self._own_transcript(), "transcript_path": agent.transcript_path}
        answers = await self._run(event, details, names=names)
        wanted = [(hook, answer.blocked) for hook, answer in answers if answer.blocked is not None]
        if not wanted or any(answer.stopped is not None for _, answer in answers):
            return False
        if self._continuations >= MAX_CONTINUATIONS:
            self._emit(Warning(message=f"{event} hooks made this turn go on {MAX_CONTINUATIONS} times; it ends here"))
            return False
        self._continuations += 1
        texts = [
            f'<hook_prompt hook_run_id="{_escaped(run_id(hook))}">{_escaped(text)}</hook_prompt>'
            for hook, text in wanted
        ]
        self._all.thread.append_items([user_message(*texts)])
        return True

    async def session_end(self, emit: Emit) -> None:
        self._emit = emit
        await self._run("SessionEnd", {"reason": "other"})

    # ---- calls -------------------------------------------------------------------------------------

    async def around_call(self, tool: Tool, call: ToolCall, ctx: ToolContext) -> ToolResult:
        """Run a call between its hooks."""
        hooked = read_call(call) if tool.name else None
        context: list[Item] = []
        if hooked is not None:
            call, hooked, context = await self._before(call, hooked)
            self._calls[call.call_id] = hooked
        try:
            result = await tool.run(call, ctx)
        except SpindleError as error:
            if not context:
                raise
            return _with(ToolResult(output=str(error)), context)
        finally:
            self._calls.pop(call.call_id, None)
        return await self._after(call, hooked, result, context)

    async def _before(self, call: ToolCall, hooked: HookedCall) -> tuple[ToolCall, HookedCall, list[Item]]:
        details = {"tool_name": hooked.name, "tool_input": hooked.input, "tool_use_id": call.call_id}
        answers = await self._run("PreToolUse", details, names=hooked.names, about=call.call_id)
        reason = _refusal(answers)
        if reason is not None:
            raise ToolError(f"This call was not run: a PreToolUse hook blocks it: {reason}")
        changed = next((answer.updated_input for _, answer in answers if answer.updated_input is not None), None)
        if changed is not None:
            call = changed_call(call, changed)
            hooked = read_call(call) or hooked
        return call, hooked, _contexts(answers)

    async def _after(
        self, call: ToolCall, hooked: HookedCall | None, result: ToolResult, context: list[Item]
    ) -> ToolResult:
        call_id, session = call.call_id, session_of(call)
        if result.session_id is not None:
            # It is not over: its end is heard of in the call that goes back to it.
            if hooked is not None and session is None:
                self._all.unfinished[result.session_id] = (call_id, hooked)
            return _with(result, context)
        if session is not None:
            call_id, hooked = self._all.unfinished.pop(session, (call_id, hooked))
        if hooked is None:
            return _with(result, context)
        mask = self._all.thread.secrets.mask
        response: Any = result.output if result.plain is None else result.plain
        details = {
            "tool_name": hooked.name,
            "tool_input": hooked.input,
            "tool_response": mask(response) if isinstance(response, str) else response,
            "tool_use_id": call_id,
        }
        answers = await self._run("PostToolUse", details, names=hooked.names, about=call_id)
        reason = _refusal(answers)
        if reason is not None:
            result = msgspec.structs.replace(result, output=reason)
        return _with(result, [*context, *_contexts(answers)])

    async def permission(self, call_id: str, reason: str | None) -> bool:
        """Before a person is asked: true when a hook gives the permission. Raises Rejected when one refuses it."""
        hooked = self._calls.get(call_id)
        if hooked is None or not self._all.runner.has("PermissionRequest"):
            return False
        given = {**hooked.input, "description": reason} if reason and isinstance(hooked.input, dict) else hooked.input
        details = {"tool_name": hooked.name, "tool_input": given}
        answers = await self._run("PermissionRequest", details, names=hooked.names, about=call_id)
        refusal = _refusal(answers)
        if refusal is not None:
            raise Rejected(f"a PermissionRequest hook refuses this: {refusal}")
        allowing = [hook for hook, answer in answers if answer.allows]
        boundary = self._boundary()
        counted = [hook for hook in allowing if hook.source != "project" and not is_in_reach(hook, boundary)]
        if allowing and not counted and not self._all.has_warned:
            self._all.has_warned = True
            self._emit(
                Warning(
                    message=f"a permission given by the hook in {allowing[0].path} does not count: only hooks of your "
                    "own files can give one, and only by a program that the agent cannot write"
                )
            )
        return bool(counted)

    # ---- compaction --------------------------------------------------------------------------------

    async def before_compact(self, trigger: str) -> None:
        self._stop_if_told("PreCompact", await self._run("PreCompact", {"trigger": trigger}, names=(trigger,)))

    async def after_compact(self, trigger: str) -> None:
        self._all.origin = "compact"
        self._stop_if_told("PostCompact", await self._run("PostCompact", {"trigger": trigger}, names=(trigger,)))

    def _stop_if_told(self, event: str, answers: list[tuple[Hook, Answer]]) -> None:
        for _, answer in answers:
            if answer.stopped is not None:
                raise ModelError(f"a {event} hook stopped the turn: {answer.stopped}", "other")

    # ---- running them ------------------------------------------------------------------------------

    async def _run(
        self, event: str, details: dict[str, Any], *, names: tuple[str, ...] = (), about: str = ""
    ) -> list[tuple[Hook, Answer]]:
        if not self._all.runner.has(event):
            return []
        moment = Moment(
            turn_id=None if event == "SessionEnd" else self._turn_id,
            cwd=self._settings.cwd,
            boundary=self._boundary(),
            emit=self._emit,
        )
        payload = {**self._facts(event), **details}
        return await self._all.runner.run(event, payload, moment, names=names, about=about)

    def _facts(self, event: str) -> dict[str, Any]:
        """What every hook is told, in the fields that events of its kind have."""
        agent, settings = self._all.agent, self._settings
        facts: dict[str, Any] = {
            "session_id": self._all.thread.thread_id if agent is None else agent.session_id,
            "turn_id": self._turn_id,
            "transcript_path": self._own_transcript(),
            "cwd": settings.cwd,
            "hook_event_name": event,
            "model": settings.model,
            "permission_mode": "bypassPermissions" if settings.approval_policy == "never" else "default",
        }
        if agent is not None:
            facts |= {"agent_id": self._all.thread.thread_id, "agent_type": agent.kind}
        left_out = {
            "SessionStart": ("turn_id",),
            "SessionEnd": ("turn_id", "model", "permission_mode"),
            "PreCompact": ("permission_mode",),
            "PostCompact": ("permission_mode",),
        }.get(event, ())
        return {key: value for key, value in facts.items() if key not in left_out}

    def _own_transcript(self) -> str | None:
        writer = self._all.thread.history.writer
        return None if writer is None or writer.failed else writer.path

    def _boundary(self) -> Any:
        return self._all.workbench.boundary(self._settings)

    def _tell(self, answers: list[tuple[Hook, Answer]]) -> str | None:
        self._all.thread.append_items(_contexts(answers))
        return _refusal(answers)


def _refusal(answers: list[tuple[Hook, Answer]]) -> str | None:
    """The first reason not to go on."""
    reasons = (answer.blocked if answer.blocked is not None else answer.stopped for _, answer in answers)
    return next((reason for reason in reasons if reason is not None), None)


def _contexts(answers: list[tuple[Hook, Answer]]) -> list[Item]:
    return [developer_message(answer.context) for _, answer in answers if answer.context]


def _with(result: ToolResult, context: list[Item]) -> ToolResult:
    return msgspec.structs.replace(result, follow_up=[*result.follow_up, *context]) if context else result


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
