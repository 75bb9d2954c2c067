"""Going on from an earlier response instead of from the end of the thread."""

from __future__ import annotations

from collections.abc import Callable

from spindle.core.briefing import Briefing
from spindle.core.live_thread import LiveThread
from spindle.errors import SpindleError
from spindle.thread.history import History
from spindle.thread.store import ThreadStore


def way_back(thread: LiveThread, briefing: Briefing, store: ThreadStore, response_id: str) -> Callable[[], None]:
    """How to get to the state after a response of this thread, or of another one that is recorded."""
    history = thread.history
    if history.has_bookmark(response_id):

        def go_back() -> None:
            history.cut_to_bookmark(response_id)
            thread.cache.declare("rollback")
            briefing.forget_since(history.last_turn_context)

        return go_back
    ref = store.find_response_id(response_id)
    if ref is None:
        raise SpindleError(f"unknown response id {response_id!r}; the turn was not started")
    other = History.replay(store.read(ref))
    other.cut_to_bookmark(response_id)

    def take_over() -> None:
        thread.replace_visible([entry.item for entry in other.entries], "fork")
        briefing.forget_since(other.last_turn_context)

    return take_over


def roll_back(thread: LiveThread, briefing: Briefing, num_turns: int) -> None:
    """Forget the last turns; the files they changed stay."""
    if num_turns < 1:
        raise SpindleError("num_turns must be at least 1")
    thread.history.append_rolled_back(num_turns)
    thread.cache.declare("rollback")
    briefing.forget_since(thread.history.last_turn_context)
