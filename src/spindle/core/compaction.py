"""Keeping a thread within its model's window: when it is compacted, by whom, and what is recorded of it.

What a compacted thread consists of is `context.compaction`. Loaded when a thread first comes near its limit, or when a
person asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
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
from spindle.context.tokens import tokens_of_bytes
from spindle.context.wording import compaction_warning, is_summary
from spindle.core.briefing import Briefing
from spindle.core.editing import Editor
from spindle.core.live_thread import Cause, CompactionOptions, LiveThread
from spindle.core.turn import wait_before_retry
from spindle.errors import ModelError, StreamDropped
from spindle.model.client import Completed, ItemDone, TurnState
from spindle.prompt.snapshot import ContextSnapshot, initial_context
from spindle.protocol.events import ContextCompacted, ItemCompleted, ItemStarted, Msg, Warning
from spindle.protocol.items import Item, decode_own, encode_json, item_text
from spindle.protocol.request import Request
from spindle.protocol.settings import ThreadSettings

if TYPE_CHECKING:
    from spindle.core.hooks import Hooks

Emit = Callable[[Msg], None]

_NO_TOOLS = b"[]"
_MOST_IN_A_ROW = 10
"""So many compactions with one request between them are no progress, whatever each of them saved."""
_STILL_TOO_LONG = (
    "the thread is still too long for the model's context window after it was compacted, so the turn was stopped; "
    "start a new thread, or take a model with a larger window"
)


class Compactor:
    """Compacts one thread. A failure or an interrupt leaves the thread as it was."""

    def __init__(
        self,
        thread: LiveThread,
        briefing: Briefing,
        options: CompactionOptions,
        editor: Editor | None = None,
        hooks: Hooks | None = None,
    ) -> None:
        self._editor = editor
        self._hooks = hooks
        self._thread = thread
        self._briefing = briefing
        self._options = options
        self._in_a_row = 0
        """Compactions since a request was last below the limit without one."""
        self._is_fresh = False
        """Nothing was answered since the last of them."""
        self._grows_from = 0
        """After too many in a row: how long the thread was when it was last left as it is."""
        self._has_warned = False

    async def make_room(
        self, settings: ThreadSettings, turn_id: str, emit: Emit, *, is_full: bool = False, is_new_turn: bool = False
    ) -> bool:
        """Compact if it is due, or (`is_full`) the server said that nothing more fits; true when that was done.

        Raises ModelError when the window is full and the last compaction did not help: going round in circles helps
        nobody. What a person says next is tried anew.
        """
        if is_new_turn:
            self._in_a_row, self._is_fresh = 0, False
        is_cheaper = self._editor is not None and self._editor.before_request(settings, emit)
        if not is_full and not self.is_due(emit, is_cheaper=is_cheaper, is_new_turn=is_new_turn):
            self._is_fresh = False
            return False
        if not self._can_help():
            return False
        if is_full and self._is_fresh:
            raise ModelError(_STILL_TOO_LONG, OVERFLOW)
        await self.compact(settings, turn_id, emit)
        self._in_a_row += 1
        self._is_fresh = True
        self._grows_from = 0
        return True

    def is_due(self, emit: Emit, *, is_cheaper: bool = False, is_new_turn: bool) -> bool:
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
        self._warn(limit, emit)
        return tokens >= floor + floor // 2

    def _warn(self, limit: int, emit: Emit) -> None:
        """The limit is only a wish, and the window is larger: the work goes on. Said once."""
        if not self._has_warned:
            self._has_warned = True
            emit(
                Warning(
                    message=f"compacting does not keep this thread below {limit} tokens "
                    "(model_auto_compact_token_limit); the turn goes on, and the thread is compacted again when it has "
                    "grown by half"
                )
            )

    def _can_help(self) -> bool:
        """Is there anything that a summary could stand for? What people said, and the context, stays in any case."""
        return any(_is_work(entry.item) for entry in self._thread.history.entries)

    async def compact(
        self,
        settings: ThreadSettings,
        turn_id: str,
        emit: Emit,
        instructions: str | None = None,
        *,
        shown_to: ThreadSettings | None = None,
        trigger: str = "auto",
    ) -> None:
        """Replace the thread by a short one. `instructions` are a person's words about what must be kept.

        `settings` say which model writes the summary; `shown_to` are those of the turn, when another model goes on.
        """
        thread = self._thread
        if not self._can_help():
            emit(Warning(message="there is nothing in this thread yet that could be compacted"))
            return
        shown_to = shown_to or settings
        hooks = None if self._hooks is None else self._hooks.at(turn_id, shown_to, emit)
        if hooks is not None:
            await hooks.before_compact(trigger)
        replacement = _Replacement(thread, self._briefing, shown_to, turn_id, emit)
        try:
            message, items = await self._shortened(settings, replacement.snapshot, instructions, emit)
        except ModelError as error:
            raise ModelError(f"the thread could not be compacted: {error}", error.info) from error
        self._replace(replacement, items, "compaction", message)
        emit(Warning(message=compaction_warning(thread.history.compaction_count)))
        if hooks is not None:
            await hooks.after_compact(trigger)

    def start_over(self, settings: ThreadSettings, turn_id: str, emit: Emit) -> None:
        """Replace the thread by its context told anew, the person's messages, and the ledger. No model is asked."""
        thread = self._thread
        replacement = _Replacement(thread, self._briefing, settings, turn_id, emit)
        new, _ = swap.start_over(
            [entry.item for entry in thread.history.entries],
            thread.notes.ledger().with_pins(self._options.keep, "config"),
            initial_context=initial_context(replacement.snapshot),
            ledger_tokens=self._ledger_room,
            is_summary=thread.history.is_summary,
        )
        self._replace(replacement, new, "start_over", item_text(new[-1]))

    def _replace(self, replacement: _Replacement, items: list[Item], cause: Cause, message: str) -> None:
        replacement.put(items, cause, message)
        if self._editor is not None:
            self._editor.note_compacted()

    @property
    def _ledger_room(self) -> int:
        """In a small window, what is kept must leave room for the work."""
        return min(self._options.ledger_tokens, (self._thread.window_tokens or 10**9) // 8)

    async def _shortened(
        self, settings: ThreadSettings, snapshot: ContextSnapshot, instructions: str | None, emit: Emit
    ) -> tuple[str, list[Item]]:
        """The summary message ("" when the server keeps it to itself), and what stands for the thread from now on."""
        thread = self._thread
        context = initial_context(snapshot)
        window = thread.window_tokens or 10**9
        ledger, room = thread.notes.ledger(), self._ledger_room
        if self._options.asks_server and not instructions:
            try:
                returned = await thread.client.compact(thread.build_request(settings, None))
                # Nobody can see what the server kept.
                ledger = ledger.with_pins(self._options.keep, "config")
                return "", remote_replacement(context, returned, ledger=ledger, ledger_tokens=room)
            except (ModelError, StreamDropped) as error:
                emit(Warning(message=f"the server could not compact the thread ({error}); a summary is made instead"))
        summariser = _Summariser(thread, settings, self._options.keeps_tools, emit)
        is_too_long = thread.window_tokens is not None and thread.tokens_in_context >= thread.window_tokens
        # The base text, and the tools where they are kept, take room too; in a window that small any guess will do.
        room_for_items = max(window - summariser.fixed_tokens, window // 4)
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
            max_input_tokens=room_for_items if is_too_long else None,
            is_summary=lambda item: thread.history.is_summary(item) or is_summary(item),
        )
        return report.message, new


class _Replacement:
    """A shorter list on its way into the thread: told as an item that begins here and ends when the list is there."""

    def __init__(
        self, thread: LiveThread, briefing: Briefing, settings: ThreadSettings, turn_id: str, emit: Emit
    ) -> None:
        self._thread = thread
        self._briefing = briefing
        self._settings = settings
        self._turn_id = turn_id
        self._emit = emit
        self._tokens_before = thread.tokens_in_context
        self._shown = {"type": "ContextCompaction", "id": thread.clock.uuid7()}
        emit(ItemStarted(thread_id=thread.thread_id, turn_id=turn_id, item=self._shown))
        self.snapshot = briefing.anew(thread, settings, emit)
        """The surroundings, which the new list tells anew."""

    def put(self, items: list[Item], cause: Cause, message: str) -> None:
        thread, emit = self._thread, self._emit
        thread.replace_visible(items, cause, message=message)
        self._briefing.was_told(self.snapshot)
        thread.history.append_turn_context(
            self._briefing.turn_context(self.snapshot, thread, self._settings, self._turn_id, None)
        )
        thread.history.append_event({"type": "context_compacted"})
        thread.note_compacted(emit)
        emit(ItemCompleted(thread_id=thread.thread_id, turn_id=self._turn_id, item=self._shown))
        emit(ContextCompacted(tokens_before=self._tokens_before, tokens_after=thread.tokens_in_context))


class _Summariser:
    """Asks the thread's own model for a summary of it: the next request, with one more message."""

    def __init__(self, thread: LiveThread, settings: ThreadSettings, keeps_tools: bool, emit: Emit) -> None:
        self._thread = thread
        self._emit = emit
        request = thread.build_request(settings, None)
        self._request = msgspec.structs.replace(
            request,
            parallel_tool_calls=False,
            tool_choice="none" if keeps_tools else request.tool_choice,
            tools=request.tools if keeps_tools else _NO_TOOLS,
        )
        self.fixed_tokens = tokens_of_bytes(len(request.instructions) + len(self._request.tools))
        self.items: list[Item] = [decode_own(raw) for raw in request.input]
        # What was sent before is sent with the same bytes, for the sake of the provider's cache.
        self._raw = {id(item): raw for item, raw in zip(self.items, request.input, strict=True)}

    async def answer(self, items: list[Item]) -> str:
        sent = [self._raw.get(id(item)) or encode_json(item) for item in items]
        request = msgspec.structs.replace(self._request, input=sent)
        attempt = 0
        while True:
            try:
                return await self._read(request)
            except StreamDropped as dropped:
                attempt += 1
                await wait_before_retry(self._thread, dropped, attempt, self._emit)

    async def _read(self, request: Request) -> str:
        said: list[str] = []
        async with aclosing(self._thread.client.stream(request, TurnState())) as events:
            async for event in events:
                match event:
                    case ItemDone(item={"type": "message"} as item):
                        said.append(item_text(item))
                    case Completed(usage=usage, counts_cached=counts_cached) if usage is not None:
                        self._thread.total_usage = self._thread.total_usage + usage
                        self._thread.cache.note(request, usage, is_side=True, counts_cached=counts_cached)
                    case _:
                        pass
        return "\n".join(said)


def _is_work(item: Item) -> bool:
    """Neither context nor what a person said."""
    return item.get("type") != "message" or item.get("role") == "assistant"
