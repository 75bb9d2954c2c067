"""Keeping a thread within its model's window: when it is compacted, by whom, and what is recorded of it.

What a compacted thread consists of is `context.compaction`. Loaded when a thread first comes near its limit, or when a
person asks for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from spindle.context import swap
from spindle.context.compaction import (
    KEPT_MESSAGE_TOKENS,
    OVERFLOW,
    compress_by_model,
    remote_replacement,
    retention_rules,
)
from spindle.context.wording import compaction_warning, is_summary
from spindle.core.feature import Feature, Handler
from spindle.core.live_thread import Cause, LiveThread
from spindle.core.running_turn import RunningTurn, TurnOutcome
from spindle.core.turn import next_request
from spindle.errors import BudgetReached, ModelError, StreamDropped
from spindle.features.compaction.options import CompactionOptions
from spindle.features.compaction.summary import Replacement, Summariser
from spindle.model.client import cost_of_compaction
from spindle.prompt.snapshot import ContextSnapshot, initial_context
from spindle.protocol.events import Warning
from spindle.protocol.items import Item, item_text
from spindle.protocol.ops import Compact, Op, StartOver, Submission
from spindle.protocol.provenance import Provenance
from spindle.protocol.settings import ThreadSettings

if TYPE_CHECKING:
    from spindle.core.session import Session
    from spindle.features.compaction.editor import Editor

_MOST_IN_A_ROW = 10
"""So many compactions with one request between them are no progress, whatever each of them saved."""
_STILL_TOO_LONG = (
    "the thread is still too long for the model's context window after it was compacted, so the turn was stopped; "
    "start a new thread, or take a model with a larger window"
)


class Compactor(Feature):
    """Compacts one thread. A failure or an interrupt leaves the thread as it was."""

    def __init__(self, options: CompactionOptions) -> None:
        self._options = options
        self._editor: Editor | None = None
        self._thread: LiveThread
        self._in_a_row = 0
        """Compactions since a request was last below the limit without one."""
        self._is_fresh = False
        """Nothing was answered since the last of them."""
        self._grows_from = 0
        """After too many in a row: how long the thread was when it was last left as it is."""
        self._has_warned = False

    def open(self, session: Session) -> None:
        self._thread = session.thread

    # ---- its moments ---------------------------------------------------------------------------

    def ops(self) -> Mapping[type[Op], Handler]:
        return {Compact: self._begin, StartOver: self._begin}

    async def _begin(self, session: Session, submission: Submission) -> None:
        await session.start_turn(submission, self._work)

    async def _work(self, turn: RunningTurn) -> TurnOutcome:
        """A turn that asks for nothing but a shorter thread."""
        await turn.announce()
        if isinstance(op := turn.submission.op, Compact):
            await self._compact(turn, turn.settings, op.instructions, trigger="manual")
        else:
            self._start_over(turn)
        return TurnOutcome()

    async def before_input(self, turn: RunningTurn) -> bool:
        """Make room before the input, so that it is no part of what is summarised."""
        settings, former = turn.settings, turn.former_model
        if former == settings.model or turn.has_new_provider:
            # What another provider calls its models is no use here, and it may be gone.
            await self._make_room(turn, is_new_turn=True)
        elif self._is_due(turn, is_new_turn=True):
            # The model that knows the thread sums it up; another one goes on with it.
            self._thread.use_model(former)
            try:
                await self._compact(turn, msgspec.structs.replace(settings, model=former))
            finally:
                self._thread.use_model(settings.model)
        return True

    async def before_request(self, turn: RunningTurn) -> None:
        if turn.requests:  # before the first of them, room was made when the turn began
            await self._make_room(turn)

    async def recover(self, turn: RunningTurn, error: ModelError) -> bool:
        return error.info == OVERFLOW and await self._make_room(turn, is_full=True)

    # ---- when ----------------------------------------------------------------------------------

    async def _make_room(self, turn: RunningTurn, *, is_full: bool = False, is_new_turn: bool = False) -> bool:
        """Compact if it is due, or (`is_full`) the server said that nothing more fits; true when that was done.

        Raises ModelError when the window is full and the last compaction did not help: going round in circles helps
        nobody. What a person says next is tried anew.
        """
        if is_new_turn:
            self._in_a_row, self._is_fresh = 0, False
        is_cheaper = self._is_cheaper(turn)
        if not is_full and not self._is_due(turn, is_cheaper=is_cheaper, is_new_turn=is_new_turn):
            self._is_fresh = False
            return False
        if not self._can_help():
            return False
        if is_full and self._is_fresh:
            raise ModelError(_STILL_TOO_LONG, OVERFLOW)
        await self._compact(turn, turn.settings)
        self._in_a_row += 1
        self._is_fresh = True
        self._grows_from = 0
        return True

    def _is_cheaper(self, turn: RunningTurn) -> bool:
        """Clear what the user's rule clears; true when compacting costs less. Raises ConfigError for a bad rule."""
        if self._options.mode == "append_only":
            return False
        if self._editor is None:
            from spindle.features.compaction.editor import Editor  # few clear outputs by rule

            self._editor = Editor(self._thread, self._options)
        return self._editor.before_request(turn.settings, turn.emit)

    def _is_due(self, turn: RunningTurn, *, is_cheaper: bool = False, is_new_turn: bool) -> bool:
        """Is the thread over its limit, and would it be shorter after a compaction than it is now?"""
        thread, tokens = self._thread, self._thread.tokens_in_context
        limit, nearly_full = thread.compact_limit, thread.window_limit
        if limit is None or tokens < limit:
            if not is_cheaper:
                self._in_a_row = 0
            return is_cheaper
        after_the_last = thread.history.compacted_tokens
        if nearly_full is not None and tokens >= nearly_full:
            is_in_vain = after_the_last >= nearly_full or self._in_a_row >= _MOST_IN_A_ROW
            if not is_in_vain or is_new_turn:
                return True
            if tokens >= (thread.window_tokens or nearly_full) or self._in_a_row >= _MOST_IN_A_ROW:
                raise ModelError(_STILL_TOO_LONG, OVERFLOW)
            return False
        if after_the_last >= limit:
            floor = after_the_last
        elif self._in_a_row >= _MOST_IN_A_ROW:
            floor = self._grows_from = self._grows_from or tokens
        else:
            return True
        self._warn(limit, turn)
        return tokens >= floor + floor // 2

    def _warn(self, limit: int, turn: RunningTurn) -> None:
        """The limit is only a wish, and the window is larger: the work goes on. Said once."""
        if not self._has_warned:
            self._has_warned = True
            turn.emit(
                Warning(
                    message=f"compacting does not keep this thread below {limit} tokens "
                    "(model_auto_compact_token_limit); the turn goes on, and the thread is compacted again when it has "
                    "grown by half"
                )
            )

    def _can_help(self) -> bool:
        """Is there anything that a summary could stand for? What people said, and the context, stays in any case."""
        return any(_is_work(entry.item) for entry in self._thread.history.entries)

    # ---- how -----------------------------------------------------------------------------------

    async def _compact(
        self, turn: RunningTurn, settings: ThreadSettings, instructions: str | None = None, trigger: str = "auto"
    ) -> None:
        """Replace the thread by a short one. `settings` say which model writes the summary.

        `instructions` are a person's words about what must be kept.
        """
        if not self._can_help():
            turn.emit(Warning(message="there is nothing in this thread yet that could be compacted"))
            return
        for feature in turn.session.features:
            await feature.before_compaction(turn, trigger)
        replacement = Replacement(turn)
        try:
            message, items, made = await self._shortened(turn, settings, replacement.snapshot, instructions)
        except BudgetReached:
            raise  # nothing is wrong with the thread
        except ModelError as error:
            raise ModelError(f"the thread could not be compacted: {error}", error.info) from error
        self._replace(replacement, items, "compaction", message, made)
        turn.emit(Warning(message=compaction_warning(self._thread.history.compaction_count)))
        for feature in turn.session.features:
            await feature.after_compaction(turn, trigger)

    def _start_over(self, turn: RunningTurn) -> None:
        """Replace the thread by its context told anew, the person's messages, and the ledger. No model is asked."""
        thread = self._thread
        replacement = Replacement(turn)
        new, _ = swap.start_over(
            [entry.item for entry in thread.history.entries],
            thread.notes.ledger().with_pins(self._options.keep, "config"),
            initial_context=initial_context(replacement.snapshot),
            ledger_tokens=self._ledger_room,
            is_summary=thread.history.is_summary,
        )
        self._replace(replacement, new, "start_over", item_text(new[-1]))

    def _replace(
        self,
        replacement: Replacement,
        items: list[Item],
        cause: Cause,
        message: str,
        made: Mapping[int, Provenance | None] = {},
    ) -> None:
        replacement.put(items, cause, message, made)
        if self._editor is not None:
            self._editor.note_compacted()

    @property
    def _ledger_room(self) -> int:
        """In a small window, what is kept must leave room for the work."""
        return min(self._options.ledger_tokens, (self._thread.window_tokens or 10**9) // 8)

    async def _shortened(
        self, turn: RunningTurn, settings: ThreadSettings, snapshot: ContextSnapshot, instructions: str | None
    ) -> tuple[str, list[Item], dict[int, Provenance]]:
        """The summary message ("" when the server keeps it to itself), and what stands for the thread from now on.

        With it, by the identity of the items, which of them the server made.
        """
        thread = self._thread
        context = initial_context(snapshot)
        window = thread.window_tokens or 10**9
        ledger, room = thread.notes.ledger(), self._ledger_room
        if self._asks_server and not instructions:
            try:
                returned = await thread.client.compact(next_request(thread, settings, None))
                if (usage := cost_of_compaction(returned)) is not None:
                    thread.total_usage = thread.total_usage + usage
                # Nobody can see what the server kept.
                ledger = ledger.with_pins(self._options.keep, "config")
                items = [entry.item for entry in thread.history.entries]
                made: dict[int, Provenance] = {}
                if (origin := thread.origin) is not None:
                    made = {id(item): Provenance(origin) for item in returned if item.get("role") != "user"}
                return "", remote_replacement(context, returned, items, ledger=ledger, ledger_tokens=room), made
            except BudgetReached:
                raise
            except (ModelError, StreamDropped) as error:
                turn.emit(
                    Warning(message=f"the server could not compact the thread ({error}); a summary is made instead")
                )
        summariser = Summariser(turn, settings, self._keeps_tools)
        is_too_long = thread.window_tokens is not None and thread.tokens_in_context >= thread.window_tokens
        # The base text, and the tools where they are kept, take room too; in a window that small any guess will do.
        room_for_items = max(window - summariser.fixed_tokens, window // 4)
        summariser.max_input_tokens = room_for_items if is_too_long else None
        new, report = await compress_by_model(
            summariser.items,
            summariser,
            prompt=self._options.prompt,
            keep_rules=retention_rules(self._options.keep, snapshot.user_instructions, instructions),
            initial_context=context,
            ledger=ledger,
            ledger_tokens=room,
            kept_tokens=min(KEPT_MESSAGE_TOKENS, window // 4),
            tail_tokens=self._options.tail_tokens,
            max_input_tokens=summariser.max_input_tokens,
            is_summary=lambda item: thread.history.is_summary(item) or is_summary(item),
        )
        return report.message, new, {}

    @property
    def _asks_server(self) -> bool:
        """Can the provider shorten the thread itself?"""
        is_openai = self._thread.provider.is_openai and self._thread.wire == "responses"
        return is_openai and self._options.asks_server

    @property
    def _keeps_tools(self) -> bool:
        """Other wires refuse a history with calls without the list of tools."""
        if self._thread.wire != "responses":
            return True
        kept = self._options.keeps_tools
        return self._thread.provider.is_built_in if kept is None else kept


def _is_work(item: Item) -> bool:
    """Neither context nor what a person said."""
    return item.get("type") != "message" or item.get("role") == "assistant"
