"""Whether a recorded thread would go on by itself. Asked only when a person resumes one and says nothing."""

from __future__ import annotations

from spindle.errors import ThreadError
from spindle.frontends.exec.arguments import ExecArgs
from spindle.frontends.launch import config_from
from spindle.frontends.options import Parsed
from spindle.protocol.clock import SystemClock
from spindle.thread.codex_goals import present_goal
from spindle.thread.store import ThreadStore


def has_active_goal(args: ExecArgs, parsed: Parsed) -> bool:
    config = config_from(parsed, headless=True)
    if not config.features.get("goals", True):
        return False
    store = ThreadStore(config.home, SystemClock())
    try:
        if args.thread is not None:
            ref = store.choose(args.thread)
        else:
            ref = store.latest(config.cwd, config.provider.id, include_other_cwds=parsed.flag("all"))
        if ref is None:
            return False
        data = store.read(ref)
    except ThreadError:
        return False  # what is wrong with it is told when it is opened
    goal = present_goal(data.records, data.thread_id, config.home)
    return goal is not None and goal.status == "active"
