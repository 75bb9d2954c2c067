"""The hooks of a session, and the look at what changed since the last one. Only for those who have hooks or notify."""

from __future__ import annotations

from spindle.assembly.record import Draft
from spindle.config.seen import changes_since_last_run
from spindle.core.feature import Feature


def hook_features(draft: Draft) -> list[Feature]:
    """The hooks, if any of them may run."""
    request, config, order = draft.request, draft.request.config, draft.request.order
    if order is None:
        draft.warnings.extend(changes_since_last_run(config))
    hooks = (*request.hooks, *(hook for hook in config.hooks if hook.may_run))
    if not hooks:
        return []
    from spindle.features.hooks.session_hooks import AgentFacts, Hooks  # a notify program needs none of it

    agent = None
    if order is not None:
        agent = AgentFacts(
            kind=order.name,
            session_id=order.parent_thread_id,
            transcript_path=order.parent_transcript,
        )
    is_old = request.thread is not None or request.rollout_path is not None or bool(draft.history.user_turn_count)
    origin = "fork" if request.fork else "resume" if is_old else "startup"
    return [Hooks(hooks, origin=origin, agent=agent)]
