"""The hooks of a session, and the look at what changed since the last one. Only for those who have hooks or notify."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spindle.assembly.request import SessionRequest
from spindle.config.seen import changes_since_last_run
from spindle.core.live_thread import LiveThread
from spindle.core.workbench import Workbench

if TYPE_CHECKING:
    from spindle.core.hooks import Hooks


def make_hooks(request: SessionRequest, thread: LiveThread, workbench: Workbench, warnings: list[str]) -> Hooks | None:
    config, order = request.config, request.order
    if order is None:
        warnings += changes_since_last_run(config)
    hooks = tuple(hook for hook in config.hooks if hook.may_run)
    if not hooks:
        return None
    from spindle.core.hooks import AgentFacts, Hooks  # a notify program needs none of it

    agent = None
    if order is not None:
        agent = AgentFacts(
            kind=order.role.name if order.role is not None else "default",
            session_id=order.parent_thread_id,
            transcript_path=order.parent_transcript,
        )
    is_old = request.thread is not None or request.rollout_path is not None or bool(thread.history.user_turn_count)
    origin = "fork" if request.fork else "resume" if is_old else "startup"
    return Hooks(hooks, thread=thread, workbench=workbench, origin=origin, agent=agent)
