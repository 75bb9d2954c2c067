"""The op `start_over`: the thread goes on with a fresh context; what stood before stays in the record.

An earlier response id leads back to it, as it does across a rollback.
"""

from __future__ import annotations

from collections.abc import Callable

from spindle.context import swap
from spindle.core.briefing import Briefing
from spindle.core.live_thread import CompactionOptions, LiveThread
from spindle.prompt.snapshot import initial_context
from spindle.protocol.events import ContextCompacted, ItemCompleted, ItemStarted, Msg
from spindle.protocol.items import item_text
from spindle.protocol.settings import ThreadSettings


def start_over(
    thread: LiveThread,
    briefing: Briefing,
    settings: ThreadSettings,
    turn_id: str,
    emit: Callable[[Msg], None],
    options: CompactionOptions,
) -> None:
    """Replace the thread by its context told anew, the person's messages, and the ledger."""
    before = thread.tokens_in_context
    shown = {"type": "ContextCompaction", "id": thread.clock.uuid7()}
    emit(ItemStarted(thread_id=thread.thread_id, turn_id=turn_id, item=shown))
    snapshot = briefing.anew(thread, settings, emit)
    new, _ = swap.start_over(
        [entry.item for entry in thread.history.entries],
        thread.notes.ledger().with_pins(options.keep, "config"),
        initial_context=initial_context(snapshot),
        ledger_tokens=options.ledger_tokens,
        is_summary=thread.history.is_summary,
    )
    thread.history.append_compacted(item_text(new[-1]), new)
    thread.cache.declare("compaction")
    briefing.was_told(snapshot)
    thread.history.append_turn_context(briefing.turn_context(snapshot, thread, settings, turn_id, None))
    thread.note_compacted(emit)
    emit(ItemCompleted(thread_id=thread.thread_id, turn_id=turn_id, item=shown))
    emit(ContextCompacted(tokens_before=before, tokens_after=thread.tokens_in_context))
