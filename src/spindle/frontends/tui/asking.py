"""Questions of a turn: events become views, answers become ops.

Each question is asked once and answered once, in the order in which they came; one whose turn has ended is taken away.
Those of sub-agents are asked like the thread's own, and say who asks.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from spindle.frontends.tui.view import View
from spindle.protocol.agent_events import CollabAgentEvent
from spindle.protocol.events import (
    TERMINAL,
    ApplyPatchApprovalRequest,
    Event,
    ExecApprovalRequest,
    ItemCompleted,
    TaskComplete,
    TaskStarted,
)
from spindle.protocol.ops import DynamicToolResponse, ResolveElicitation
from spindle.protocol.questions import DynamicToolCallRequest, RequestUserInput
from spindle.protocol.tool_servers import ElicitationRequest

if TYPE_CHECKING:
    from spindle.frontends.tui.interface import Interface

_ENDS = ("task_complete", "turn_aborted")


class Asking:
    """The questions that are open, of the thread and of its sub-agents."""

    def __init__(self, interface: Interface) -> None:
        self._app = interface
        self._open: list[tuple[str, View[Any]]] = []
        """Whose question it is (a turn's or a sub-agent's id), and its view."""
        self._plan: str | None = None
        """The plan that the running turn has proposed."""

    @property
    def is_any(self) -> bool:
        return bool(self._open)

    def hear(self, event: Event) -> None:
        match event.msg:
            case ExecApprovalRequest() | ApplyPatchApprovalRequest() | ElicitationRequest(kind="tool_approval") as msg:
                self._app.spawn(self._permission(msg))
            case ElicitationRequest() as msg:
                self._app.spawn(self._form(msg))
            case RequestUserInput() as msg:
                self._app.spawn(self._questions(msg))
            case DynamicToolCallRequest(call_id=call_id):
                # A thread that another program began may still have that program's tools.
                text = "this tool belongs to the program that began the thread; it cannot be called from here"
                answer = {"content_items": [{"type": "inputText", "text": text}], "success": False}
                self._app.submit(DynamicToolResponse(id=call_id, response=answer))
            case TaskStarted():
                self._plan = None
            case ItemCompleted(item={"type": "Plan", "text": str(text)}):
                self._plan = text
            case CollabAgentEvent(thread_id=thread_id, msg={"type": kind}) if kind in _ENDS:
                self.withdraw(thread_id)
            case msg if isinstance(msg, TERMINAL):
                self.withdraw(msg.turn_id)
                plan, self._plan = self._plan, None
                if plan and isinstance(msg, TaskComplete) and not self._app.is_working:
                    self._app.spawn(self._implement(plan))
            case _:
                pass

    def withdraw(self, owner: str | None = None) -> None:
        """Take away the questions of a turn or a sub-agent that has ended; without one, all."""
        for whose, view in [*self._open]:
            if owner is None or whose == owner:
                view.cancel()

    # ---- one coroutine a question --------------------------------------------------------------

    async def _permission(self, msg: ExecApprovalRequest | ApplyPatchApprovalRequest | ElicitationRequest) -> None:
        from spindle.frontends.tui.views.approval import ApprovalView, about  # with the first question

        app = self._app
        matter = about(msg, cwd=app.cwd, agent=app.agent_name(msg.thread_id))
        view = ApprovalView(matter, show_all=lambda title, lines: app.spawn(app.page(title, lines)))
        verdict = await self._ask(msg.thread_id or msg.turn_id, view, "approval-requested", matter.title)
        if verdict is None:
            return
        app.submit(verdict.op)
        app.conversation.note_answer(msg, verdict.op.decision)
        if verdict.draft is not None:
            app.set_draft(verdict.draft)

    async def _form(self, msg: ElicitationRequest) -> None:
        from spindle.frontends.tui.views.form import FormView  # few servers ask

        view = FormView(msg)
        reply = await self._ask(msg.thread_id or msg.turn_id, view, "approval-requested", f"{msg.server_name} asks")
        if reply is None:
            return
        self._app.submit(
            ResolveElicitation(
                server_name=msg.server_name, request_id=msg.id, decision=reply.decision, content=reply.content
            )
        )

    async def _questions(self, msg: RequestUserInput) -> None:
        from spindle.frontends.tui.views.question import QuestionView  # with the first question

        reply = await self._ask(msg.turn_id, QuestionView(msg), "user-input-requested", "a question for you")
        if reply is not None:
            self._app.submit(reply.op)
            self._app.conversation.doing.waiting.discard(msg.call_id)
            self._app.say(*reply.record)

    async def _implement(self, plan: str) -> None:
        from spindle.frontends.tui.commands.threads import fresh  # with the first plan
        from spindle.frontends.tui.views.plan import IMPLEMENT, PlanView, fresh_message  # likewise

        app = self._app
        choice = await self._ask("", PlanView(), "plan-mode-prompt", "a plan is ready")
        if choice == "implement":
            app.set_mode("default")
            app.send(IMPLEMENT)
        elif choice == "fresh":
            app.set_mode("default")
            await app.switch(fresh(app))
            app.send(fresh_message(plan))

    async def _ask(self, owner: str, view: View[Any], kind: str, text: str) -> Any:
        """The answer; None when the question was taken away."""
        entry = (owner, view)
        self._open.append(entry)
        self._app.attention.call(kind, text)
        try:
            return await self._app.ask(view)
        except asyncio.CancelledError:
            if not view.answer.cancelled():
                raise
            return None
        finally:
            self._open.remove(entry)
