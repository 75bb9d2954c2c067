"""Hooks at the moments of a session: what they are told, and what their answers do to the turn.

A hook can forbid, add to what the model knows, or make a turn go on; it can give a permission that a person would have
been asked for, and nothing beyond. Loaded only in sessions that have hooks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from spindle.core.feature import Admission, Feature, RunCall
from spindle.errors import ModelError, Rejected, SpindleError, ToolError
from spindle.features.hooks.hook_runner import HookRunner, Moment, run_id
from spindle.features.hooks.hooked_call import HookedCall, changed_call, read_call, session_of
from spindle.policy.hook_answers import Answer
from spindle.policy.reach import Reach
from spindle.protocol.events import Warning
from spindle.protocol.hook_records import Hook
from spindle.protocol.items import Item, developer_message, user_message
from spindle.protocol.origin import block
from spindle.tools.tool import ToolCall, ToolResult
from spindle.workspace.git import find_root

if TYPE_CHECKING:
    from spindle.core.running_turn import RunningTurn
    from spindle.core.session import Session

MAX_CONTINUATIONS = 20
"""How often Stop hooks may make one turn go on."""


class AgentFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What hooks are told of a sub-agent, beside what they are told of any session."""

    kind: str
    session_id: str
    """The session that started it."""
    transcript_path: str | None
    """The record of that session."""


class Hooks(Feature):
    """The hooks of one session."""

    def __init__(self, hooks: tuple[Hook, ...], *, origin: str, agent: AgentFacts | None = None) -> None:
        self._hooks = hooks
        self._agent = agent
        self._origin: str | None = origin
        """Why the thread starts, until it has: startup, resume, fork or compact."""
        self._unfinished: dict[int, tuple[str, HookedCall]] = {}
        """Commands that outlived their call, by session id."""
        self._has_warned = False
        self._session: Session
        self._runner: HookRunner | None = None
        self._turn: RunningTurn | None = None
        """The last turn that began."""
        self._continuations = 0
        """How often hooks made it go on."""
        self._calls: dict[str, HookedCall] = {}
        """Its calls that run, by their id."""

    def open(self, session: Session) -> None:
        thread = session.thread
        self._session = session
        self._runner = HookRunner(
            self._hooks, processes=session.workbench.processes, clock=thread.clock, mask=thread.secrets.mask
        )

    async def aclose(self) -> None:
        """The session ends; whoever closes it waits for the last hooks."""
        last, self._turn = self._turn, None
        if last is not None and self._agent is None:
            await self._run(last, "SessionEnd", {"reason": "other"})
        if self._runner is not None:
            await self._runner.aclose()

    # ---- the turn ------------------------------------------------------------------------------

    async def begin_turn(self, turn: RunningTurn) -> None:
        self._turn, self._continuations, self._calls = turn, 0, {}

    async def before_input(self, turn: RunningTurn) -> bool:
        """Hooks on the start of a thread; false when one of them wants the turn to end."""
        origin, self._origin = self._origin, None
        if origin is None:
            return True
        if self._agent is not None:
            answers = await self._run(turn, "SubagentStart", {}, names=(self._agent.kind,))
        else:
            answers = await self._run(turn, "SessionStart", {"source": origin}, names=(origin,))
        turn.thread.append_items(_contexts(answers))
        return _refusal(answers) is None

    async def admit_input(self, turn: RunningTurn, text: str) -> Admission | None:
        """What a sub-agent is told comes from a model, and was a call that had its hooks."""
        if self._agent is not None:
            return None
        prompt = turn.thread.secrets.mask_known(text, own_only=True)
        answers = await self._run(turn, "UserPromptSubmit", {"prompt": prompt})
        reason = _refusal(answers)
        if reason is not None:
            return Admission(refusal=f"a hook refused this input, so the model does not see it: {reason}")
        return Admission(added=_contexts(answers))

    async def before_end(self, turn: RunningTurn) -> bool:
        agent, thread = self._agent, turn.thread
        event, names = ("Stop", ()) if agent is None else ("SubagentStop", (agent.kind,))
        if not self._has(event):
            return False
        said = turn.last_message and thread.secrets.mask_known(turn.last_message)
        details: dict[str, Any] = {"stop_hook_active": self._continuations > 0, "last_assistant_message": said}
        if agent is not None:
            details |= {"agent_transcript_path": _transcript(turn), "transcript_path": agent.transcript_path}
        answers = await self._run(turn, event, details, names=names)
        wanted = [(hook, answer.blocked) for hook, answer in answers if answer.blocked is not None]
        if not wanted or any(answer.stopped is not None for _, answer in answers):
            return False
        if self._continuations >= MAX_CONTINUATIONS:
            turn.emit(Warning(message=f"{event} hooks made this turn go on {MAX_CONTINUATIONS} times; it ends here"))
            return False
        self._continuations += 1
        texts = [
            f'<hook_prompt hook_run_id="{_escaped(run_id(hook))}">{_escaped(text)}</hook_prompt>'
            for hook, text in wanted
        ]
        thread.append_items([user_message(*texts)])
        return True

    # ---- calls ---------------------------------------------------------------------------------

    async def around_call(self, turn: RunningTurn, call: ToolCall, run: RunCall) -> ToolResult:
        hooked = read_call(call)
        context: list[Item] = []
        if hooked is not None:
            call, hooked, context = await self._before(turn, call, hooked)
            self._calls[call.call_id] = hooked
        try:
            result = await run(call)
        except SpindleError as error:
            if not context:
                raise
            return _with(ToolResult(output=str(error)), context)
        finally:
            self._calls.pop(call.call_id, None)
        return await self._after(turn, call, hooked, _with(result, context))

    async def _before(
        self, turn: RunningTurn, call: ToolCall, hooked: HookedCall
    ) -> tuple[ToolCall, HookedCall, list[Item]]:
        details = {"tool_name": hooked.name, "tool_input": hooked.input, "tool_use_id": call.call_id}
        answers = await self._run(turn, "PreToolUse", details, names=hooked.names, about=call.call_id)
        reason = _refusal(answers)
        if reason is not None:
            raise ToolError(f"This call was not run: a PreToolUse hook blocks it: {reason}")
        changed = next((answer.updated_input for _, answer in answers if answer.updated_input is not None), None)
        if changed is not None:
            call = changed_call(call, changed)
            hooked = read_call(call) or hooked
        return call, hooked, _contexts(answers)

    async def _after(
        self, turn: RunningTurn, call: ToolCall, hooked: HookedCall | None, result: ToolResult
    ) -> ToolResult:
        call_id, session = call.call_id, session_of(call)
        if result.session_id is not None:
            # It is not over: its end is heard of in the call that goes back to it.
            if hooked is not None and session is None:
                self._unfinished[result.session_id] = (call_id, hooked)
            return result
        if session is not None:
            call_id, hooked = self._unfinished.pop(session, (call_id, hooked))
        if hooked is None:
            return result
        response: Any = result.output if result.plain is None else result.plain
        details = {
            "tool_name": hooked.name,
            "tool_input": hooked.input,
            "tool_response": turn.thread.secrets.mask(response) if isinstance(response, str) else response,
            "tool_use_id": call_id,
        }
        answers = await self._run(turn, "PostToolUse", details, names=hooked.names, about=call_id)
        reason = _refusal(answers)
        if reason is not None:
            result = msgspec.structs.replace(result, output=reason)
        return _with(result, _contexts(answers))

    async def permit(self, turn: RunningTurn, call_id: str, reason: str | None) -> bool:
        hooked = self._calls.get(call_id)
        if hooked is None or not self._has("PermissionRequest"):
            return False
        given = {**hooked.input, "description": reason} if reason and isinstance(hooked.input, dict) else hooked.input
        details = {"tool_name": hooked.name, "tool_input": given}
        assert self._runner is not None
        moment = self._moment(turn, "PermissionRequest")
        # Looked at before it runs and after: a program that the agent put there could take itself away again.
        sure = self._runner.out_of_reach("PermissionRequest", moment)
        answers = await self._run(turn, "PermissionRequest", details, names=hooked.names, about=call_id)
        sure &= self._runner.out_of_reach("PermissionRequest", moment)
        refusal = _refusal(answers)
        if refusal is not None:
            raise Rejected(f"a PermissionRequest hook refuses this: {refusal}")
        allowing = [hook for hook, answer in answers if answer.allows]
        counted = [hook for hook in allowing if hook.source != "project" and hook.key in sure]
        if allowing and not counted and not self._has_warned:
            self._has_warned = True
            turn.emit(
                Warning(
                    message=f"a permission given by the hook in {allowing[0].path} does not count: only hooks of your "
                    "own files can give one, and only by a program that the agent cannot write"
                )
            )
        return bool(counted)

    # ---- compaction ----------------------------------------------------------------------------

    async def before_compaction(self, turn: RunningTurn, trigger: str) -> None:
        answers = await self._run(turn, "PreCompact", {"trigger": trigger}, names=(trigger,))
        _stop_if_told("PreCompact", answers)

    async def after_compaction(self, turn: RunningTurn, trigger: str) -> None:
        self._origin = "compact"
        answers = await self._run(turn, "PostCompact", {"trigger": trigger}, names=(trigger,))
        _stop_if_told("PostCompact", answers)

    # ---- running them --------------------------------------------------------------------------

    def _has(self, event: str) -> bool:
        return self._runner is not None and self._runner.has(event)

    async def _run(
        self,
        turn: RunningTurn,
        event: str,
        details: dict[str, Any],
        *,
        names: tuple[str, ...] = (),
        about: str = "",
    ) -> list[tuple[Hook, Answer]]:
        if self._runner is None or not self._runner.has(event):
            return []
        moment = self._moment(turn, event)
        return await self._runner.run(event, {**self._facts(turn, event), **details}, moment, names=names, about=about)

    def _moment(self, turn: RunningTurn, event: str) -> Moment:
        is_end = event == "SessionEnd"
        workbench, cwd = self._session.workbench, turn.settings.cwd
        boundary = workbench.boundary(turn.settings)
        return Moment(
            turn_id=None if is_end else turn.turn_id,
            cwd=cwd,
            boundary=boundary,
            emit=self._session.tell if is_end else turn.emit,
            reach=Reach(boundary, env=workbench.environment, also=(find_root(cwd) or cwd,)),
            environment=workbench.environment,
        )

    def _facts(self, turn: RunningTurn, event: str) -> dict[str, Any]:
        """What every hook is told, in the fields that events of its kind have."""
        agent, thread_id, settings = self._agent, turn.thread.thread_id, turn.settings
        facts: dict[str, Any] = {
            "session_id": thread_id if agent is None else agent.session_id,
            "turn_id": turn.turn_id,
            "transcript_path": _transcript(turn),
            "cwd": settings.cwd,
            "hook_event_name": event,
            "model": settings.model,
            "permission_mode": "bypassPermissions" if settings.approval_policy == "never" else "default",
        }
        if agent is not None:
            facts |= {"agent_id": thread_id, "agent_type": agent.kind}
        left_out = {
            "SessionStart": ("turn_id",),
            "SessionEnd": ("turn_id", "model", "permission_mode"),
            "PreCompact": ("permission_mode",),
            "PostCompact": ("permission_mode",),
        }.get(event, ())
        return {key: value for key, value in facts.items() if key not in left_out}


def _transcript(turn: RunningTurn) -> str | None:
    writer = turn.thread.history.writer
    return None if writer is None or writer.failed else writer.path


def _stop_if_told(event: str, answers: list[tuple[Hook, Answer]]) -> None:
    for _, answer in answers:
        if answer.stopped is not None:
            raise ModelError(f"a {event} hook stopped the turn: {answer.stopped}", "other")


def _refusal(answers: list[tuple[Hook, Answer]]) -> str | None:
    """The first reason not to go on."""
    reasons = (answer.blocked if answer.blocked is not None else answer.stopped for _, answer in answers)
    return next((reason for reason in reasons if reason is not None), None)


def _contexts(answers: list[tuple[Hook, Answer]]) -> list[Item]:
    """What hooks have to say, each in a block that says so: a hook may pass on text of anybody."""
    return [developer_message(block("hook_context", answer.context)) for _, answer in answers if answer.context]


def _with(result: ToolResult, context: list[Item]) -> ToolResult:
    return msgspec.structs.replace(result, follow_up=[*result.follow_up, *context]) if context else result


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
