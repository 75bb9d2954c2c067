"""One session of an editor: a thread, what is shown of it, and what is asked in it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from spindle.api.door import OpenThread
from spindle.api.hearing import Hearing
from spindle.config.schema import Config
from spindle.errors import SpindleError, ThreadError
from spindle.frontends.acp import choices, modes
from spindle.frontends.acp.commands import Catalogue, init_prompt, op_for, review_op, split
from spindle.frontends.acp.diffs import diff_contents, read_text
from spindle.frontends.acp.files import ClientFiles
from spindle.frontends.acp.permissions import Asking
from spindle.frontends.acp.prompts import items_of
from spindle.frontends.acp.replay import replay
from spindle.frontends.acp.updates import Update, Updates, chunk
from spindle.frontends.driven_thread import DrivenThread, TurnEnd
from spindle.frontends.json_rpc import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, RpcError
from spindle.frontends.question_forms import QUESTIONS
from spindle.frontends.rpc_peer import RpcPeer
from spindle.protocol import events
from spindle.protocol.events import Event, Msg
from spindle.protocol.ops import Compact, OverrideTurnContext, UserTurn
from spindle.protocol.request import TokenUsage
from spindle.protocol.settings import SandboxPolicy
from spindle.thread.entry import Record

_TITLE = 80
_STEP_LIMIT = "spindle.limits.max_steps"


class PatchWatch(Hearing):
    """Hears a thread, and reads the files of each patch in the moment before it is written."""

    def __init__(self, thread: OpenThread, files: ClientFiles | None) -> None:
        super().__init__(thread)
        self.diffs: dict[str, list[dict[str, Any]]] = {}
        self._files = files
        self._text_of = read_text if files is None else files.text_of

    def push(self, event: Event) -> None:
        match event.msg:
            case events.ApplyPatchApprovalRequest(call_id=call_id, changes=changes):
                self.diffs[call_id] = diff_contents(changes, self._text_of)
            case events.PatchApplyBegin(call_id=call_id, changes=changes):
                self.diffs[call_id] = diff_contents(changes, self._text_of)
            case events.TaskStarted():
                self.diffs.clear()
                if self._files is not None:
                    self._files.forget()
            case _:
                pass
        super().push(event)


class AcpSession:
    """A live thread and the editor that looks at it."""

    def __init__(
        self, peer: RpcPeer, thread: OpenThread, config: Config, *, has_forms: bool, files: ClientFiles | None
    ) -> None:
        self._peer = peer
        self._config = config
        if files is not None:
            files.session_id, files.roots = thread.id, self._roots
        watch = PatchWatch(thread, files)
        self.driven = DrivenThread(thread, self, watch)
        self._updates = Updates(lambda call_id: watch.diffs.get(call_id, []))
        self._asking = Asking(peer, thread.id, lambda call_id: watch.diffs.get(call_id, []), has_forms=has_forms)
        self._catalogue = Catalogue(config)
        self._title = thread.name
        self._telling = asyncio.Lock()
        """Held while one thing is told: an editor may be slow, and what happens comes before or behind the past."""

    @property
    def id(self) -> str:
        return self.driven.id

    @property
    def live(self) -> OpenThread:
        return self.driven.live

    def _roots(self) -> list[str]:
        settings = self.live.settings
        return [settings.cwd, *settings.sandbox.writable_roots]

    # ---- what it is ----------------------------------------------------------------------------

    def describe(self) -> dict[str, Any]:
        """What the answer to every way of opening it says."""
        return {"modes": modes.state(self.live.settings, self._config), "configOptions": self.options()}

    def options(self) -> list[dict[str, Any]]:
        return choices.config_options(self._config, self.live.settings.model, self.live.effort)

    async def announce(self) -> None:
        """Say which commands there are."""
        listed = self._catalogue.listed(self.live.settings.cwd)
        await self._tell({"sessionUpdate": "available_commands_update", "availableCommands": listed})

    async def replay(self) -> None:
        """Show everything that was said and done so far."""
        async with self._telling:
            for update in replay(self.live.records, self.live.settings.cwd, self._updates.running):
                await self._tell(update)

    # ---- changing it ---------------------------------------------------------------------------

    async def take_folders(self, configured: SandboxPolicy) -> None:
        """It was opened once more, with other folders beside its own."""
        self._config = msgspec.structs.replace(self._config, workspace_write=configured)
        present = self.live.settings.sandbox
        if (wanted := modes.with_folders(present, configured)) != present:
            await self._override(OverrideTurnContext(sandbox_policy=wanted.to_wire()))

    async def set_mode(self, mode_id: str) -> None:
        await self._override(modes.change(mode_id, self._config))
        await self._tell({"sessionUpdate": "current_mode_update", "currentModeId": mode_id})

    async def set_option(self, name: str, value: str) -> list[dict[str, Any]]:
        await self._override(choices.change(name, value))
        return self.options()

    async def _override(self, op: OverrideTurnContext) -> None:
        try:
            self.live.check(op)
        except SpindleError as error:
            raise RpcError(str(error), INVALID_PARAMS) from error
        self.live.submit(op)
        await self.live.settle()

    # ---- prompts -------------------------------------------------------------------------------

    async def prompt(self, text: str, attached: list[dict[str, Any]]) -> dict[str, Any]:
        """Run a prompt to its end; gives the answer to the request."""
        if self.driven.is_busy:
            raise RpcError(
                "a prompt of this session is already running; cancel it, or wait for its end", INVALID_REQUEST
            )
        try:
            self.live.retake()
        except (ThreadError, OSError) as error:
            raise RpcError(f"{error}; load the session again to see what was done there", INTERNAL_ERROR) from error
        before, recorded = self.live.usage, len(self.live.records)
        try:
            end = await self._run(text, attached)
        finally:
            await self.live.release()
        has_refused = end.status == "completed" and _has_refused(self.live.records[recorded:])
        reason = "refusal" if has_refused else _stop_reason(end)
        return {"stopReason": reason, "usage": _used(before, self.live.usage)}

    async def _run(self, text: str, attached: list[dict[str, Any]]) -> TurnEnd:
        name, argument = split(text)
        try:
            match name:
                case "compact":
                    return await self._compact(argument)
                case "review":
                    return await self.driven.run(review_op(argument))
                case "undo":
                    return await self._undo()
                case "status":
                    return await self._say(self._status())
                case "plan":
                    await self.set_mode("plan")
                    if not argument and not attached:
                        return await self._say("Plan mode: the model looks and plans, and changes nothing.")
                    text = argument
                case "init":
                    text = init_prompt(self.live.settings.cwd, argument)
                case _ if name:
                    text = self._catalogue.expanded(text, self.live.settings.cwd)
                case _:
                    pass
        except RpcError:
            raise
        except SpindleError as error:
            return await self._say(str(error))
        return await self.driven.run(UserTurn(items=items_of(text, attached)))

    async def _compact(self, argument: str) -> TurnEnd:
        end = await self.driven.run(Compact(instructions=argument or None))
        return await self._say("The conversation was replaced by a summary.") if end.status == "completed" else end

    async def _undo(self) -> TurnEnd:
        msg = await self.driven.ask(op_for("undo"), "undo_completed")
        return await self._say(str(getattr(msg, "message", "")) or "Nothing was undone.")

    async def _say(self, text: str) -> TurnEnd:
        """Answer a command that needs no model."""
        await self._tell(chunk("agent_message_chunk", text))
        return TurnEnd(status="completed", message=text)

    def _status(self) -> str:
        settings, usage = self.live.settings, self.live.usage
        return "\n".join(
            (
                f"- model: {settings.model} ({settings.model_provider})",
                f"- reasoning effort: {self.live.effort or 'as the model has it'}",
                f"- folder: `{settings.cwd}`",
                f"- sandbox: {settings.sandbox.mode}, approval: {settings.approval_policy}",
                f"- mode: {modes.current(settings)}",
                f"- tokens: {usage.total_tokens} ({usage.input_tokens} in, {usage.output_tokens} out)",
                f"- session: {self.id}",
            )
        )

    def cancel(self) -> None:
        self.driven.interrupt()

    async def close(self) -> None:
        await self.driven.close()

    # ---- what happens --------------------------------------------------------------------------

    async def told(self, event: Event) -> None:
        msg = event.msg
        match msg:
            case events.Warning(message=text) | events.StreamError(message=text):
                self._peer.complain(text)
            case events.UserMessage(message=text) if self._title is None:
                self._title = " ".join(text.split())[:_TITLE]
                if self._title:
                    await self._tell({"sessionUpdate": "session_info_update", "title": self._title})
            case _:
                pass
        async with self._telling:
            await self._tell_all(self._updates.of(msg))
        if isinstance(msg, QUESTIONS):
            self.driven.put(msg, self._ask(msg))

    def complain(self, text: str) -> None:
        self._peer.complain(text)

    async def _ask(self, msg: Msg) -> None:
        answer = await self._asking.ask(msg)
        if answer.is_no and getattr(msg, "thread_id", None) is None:
            async with self._telling:
                await self._tell_all(self._updates.refused(getattr(msg, "call_id", "")))
        self.live.submit(answer.op)

    async def _tell_all(self, updates: list[Update]) -> None:
        for update in updates:
            await self._tell(update)

    async def _tell(self, update: Update) -> None:
        await self._peer.tell("session/update", {"sessionId": self.id, "update": update})


def _has_refused(records: Sequence[Record]) -> bool:
    """Is the last message of the model, among these records, a refusal?"""
    for record in reversed(records):
        if record.kind == "response_item" and b'"assistant"' in record.raw:
            content = record.payload.get("content")
            parts = content if isinstance(content, list) else ()
            return any(isinstance(part, dict) and part.get("type") == "refusal" for part in parts)
    return False


def _stop_reason(end: TurnEnd) -> str:
    """Why a prompt ended. Raises RpcError for a turn that failed."""
    match end:
        case TurnEnd(status="completed"):
            return "end_turn"
        case TurnEnd(status="interrupted"):
            return "cancelled"
        case TurnEnd(error=error):
            text = error.message if error is not None else "the turn failed"
            is_budget = error is not None and error.codex_error_info == "budget_exceeded"
            if is_budget or _STEP_LIMIT in text:
                return "max_turn_requests"
            raise RpcError(text, INTERNAL_ERROR)


def _used(before: TokenUsage, after: TokenUsage) -> dict[str, int]:
    def more(name: str) -> int:
        return max(0, getattr(after, name) - getattr(before, name))

    return {
        "totalTokens": more("total_tokens"),
        "inputTokens": more("input_tokens"),
        "outputTokens": more("output_tokens"),
        "thoughtTokens": more("reasoning_output_tokens"),
        "cachedReadTokens": more("cached_input_tokens"),
    }
