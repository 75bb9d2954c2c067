"""What goes between a thread and its shorter self: the request for a summary, and the list on its way in."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing

import msgspec

from spindle.context.tokens import tokens_of_bytes
from spindle.core.access import forget_opaque
from spindle.core.live_thread import Cause
from spindle.core.request_log import SummaryOrder
from spindle.core.retries import wait_before_retry
from spindle.core.running_turn import RunningTurn
from spindle.core.turn import next_request
from spindle.errors import StreamDropped
from spindle.model.client import Completed, ItemDone, Notice, OpaqueRefused, TurnState
from spindle.prompt.summary_request import for_summary, showing
from spindle.protocol.events import ContextCompacted, ItemCompleted, ItemStarted, Warning
from spindle.protocol.items import Item, item_text
from spindle.protocol.provenance import Provenance
from spindle.protocol.request import Request
from spindle.protocol.settings import ThreadSettings


class Replacement:
    """A shorter list on its way into the thread: told as an item that begins here and ends when the list is there."""

    def __init__(self, turn: RunningTurn) -> None:
        thread = turn.thread
        self._turn = turn
        self._tokens_before = thread.tokens_in_context
        self._shown = {"type": "ContextCompaction", "id": thread.clock.uuid7()}
        turn.emit(ItemStarted(thread_id=thread.thread_id, turn_id=turn.turn_id, item=self._shown))
        self.snapshot = turn.session.briefing.anew(thread, turn.settings, turn.emit)
        """The surroundings, which the new list tells anew."""

    def put(self, items: list[Item], cause: Cause, message: str, made: Mapping[int, Provenance | None] = {}) -> None:
        turn, thread, briefing = self._turn, self._turn.thread, self._turn.session.briefing
        thread.replace_visible(items, cause, message=message, made=made)
        briefing.was_told(self.snapshot)
        thread.history.append_turn_context(
            briefing.turn_context(self.snapshot, thread, turn.settings, turn.turn_id, None)
        )
        thread.history.append_event({"type": "context_compacted"})
        thread.note_compacted(turn.emit)
        turn.emit(ItemCompleted(thread_id=thread.thread_id, turn_id=turn.turn_id, item=self._shown))
        turn.emit(ContextCompacted(tokens_before=self._tokens_before, tokens_after=thread.tokens_in_context))


class Summariser:
    """Asks the thread's own model for a summary of it: the next request, with one more message."""

    def __init__(self, turn: RunningTurn, settings: ThreadSettings, keeps_tools: bool) -> None:
        self._turn = turn
        self._thread = turn.thread
        self._keeps_tools = keeps_tools
        self._request = for_summary(next_request(self._thread, settings, None), keeps_tools=keeps_tools)
        self._made = self._thread.requests.made
        self.fixed_tokens = tokens_of_bytes(len(self._request.instructions) + len(self._request.tools))
        self.items: list[Item] = [visible.item for visible in self._request.items]
        self.max_input_tokens: int | None = None
        """How much of the thread fits into what is asked, as far as it was cut for that."""
        self._asked = 0

    async def answer(self, items: list[Item]) -> str:
        request = showing(self._request, items)
        self._asked += 1
        if self._made is not None:
            order = SummaryOrder(
                message=items[-1],
                keeps_tools=self._keeps_tools,
                max_input_tokens=self.max_input_tokens,
                attempt=self._asked,
            )
            self._thread.requests.made = msgspec.structs.replace(self._made, summary=order)
        attempt = 0
        while True:
            try:
                return await self._read(request)
            except StreamDropped as dropped:
                attempt += 1
                await wait_before_retry(self._turn, dropped, attempt)

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
                    case OpaqueRefused(origin=origin):
                        forget_opaque(self._turn, origin)
                    case Notice(message=message):
                        self._turn.emit(Warning(message=message))
                    case _:
                        pass
        return "\n".join(said)
