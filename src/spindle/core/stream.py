"""One event stream, many readers. Emitting never waits: a terminal event must get out even while a turn is cancelled.

A reader gets two deltas as two, as the model sent them. Only for a reader that falls behind are neighbouring deltas of
one item merged, never dropped or reordered; so its backlog is bounded by the number of finished things and the length
of their text, not by the number of deltas.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

import msgspec

from spindle.protocol.events import AgentMessageContentDelta, Event, Msg, ReasoningContentDelta

BEHIND = 64
"""A reader is behind when this many events wait for it although it had a chance to take them."""

FAR_BEHIND = 4096
"""Or when this many wait, whether it had a chance or not."""

MAX_MERGED_CHARACTERS = 1 << 16
"""A delta longer than this is not extended: joining again for every piece takes quadratic time."""

DELTAS = (AgentMessageContentDelta, ReasoningContentDelta)


class Subscription:
    """One reader's view of the stream. Iterate it; it ends when the stream is closed."""

    rounds = 0
    """How many rounds of the event loop it needs to hand on what it heard. The model is asked after them."""

    def __init__(self, skip: tuple[type[Msg], ...]) -> None:
        self._skip = skip
        self._backlog: deque[Event] = deque()
        self._is_behind = False
        self._closed = False
        self._waiter: asyncio.Future[None] | None = None
        self._drained: asyncio.Event | None = None

    def __len__(self) -> int:
        """How many events wait."""
        return len(self._backlog)

    async def drained(self) -> None:
        """Wait until the reader has taken what waits now."""
        if self._backlog:
            self._drained = asyncio.Event()
            await self._drained.wait()

    def push(self, event: Event) -> None:
        if isinstance(event.msg, self._skip):
            return
        backlog = self._backlog
        if self._is_behind and isinstance(event.msg, DELTAS):
            merged = _merge(backlog[-1], event)
            if merged is not None:
                backlog[-1] = merged
                return
        backlog.append(event)
        self._wake()
        if len(backlog) == BEHIND:
            # What one read of the model brought is emitted in one go. The reader, woken before, runs before this.
            asyncio.get_running_loop().call_soon(self._look)
        elif len(backlog) == FAR_BEHIND:
            self._is_behind = True

    def _look(self) -> None:
        self._is_behind = len(self._backlog) >= BEHIND

    def close(self) -> None:
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Event:
        while not self._backlog:
            self._was_emptied()
            if self._closed:
                raise StopAsyncIteration
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        if len(self._backlog) <= BEHIND:
            self._is_behind = False
        return self._backlog.popleft()

    def take_ready(self) -> list[Event]:
        """Everything that waits already; for readers that write in batches."""
        ready = list(self._backlog)
        self._backlog.clear()
        self._is_behind = False
        return ready

    def _was_emptied(self) -> None:
        if self._drained is not None:
            self._drained.set()
            self._drained = None


class EventStream:
    """Fans every event out to all subscriptions, in order."""

    def __init__(self) -> None:
        self._subscriptions: list[Subscription] = []
        self._closed = False
        self.mask: Callable[[Msg], Msg] | None = None
        """Takes out of a message what nobody is to see."""

    def subscribe(self, skip: tuple[type[Msg], ...] = ()) -> Subscription:
        """A new reader; messages of the kinds in `skip` never enter its backlog."""
        return self.attach(Subscription(skip))

    def attach(self, subscription: Subscription) -> Subscription:
        """Let a reader of any kind hear everything from now on; one that comes too late hears the end at once."""
        self._subscriptions.append(subscription)
        if self._closed:
            subscription.close()
        return subscription

    def emit(self, event: Event) -> None:
        if self.mask is not None and (msg := self.mask(event.msg)) is not event.msg:
            event = Event(event.id, msg)
        for subscription in self._subscriptions:
            subscription.push(event)

    async def settle(self) -> None:
        """Let readers hand on what was emitted. Waits for none of them that takes longer than it said."""
        for _ in range(max((reader.rounds for reader in self._subscriptions), default=0)):
            await asyncio.sleep(0)

    def close(self) -> None:
        self._closed = True
        for subscription in self._subscriptions:
            subscription.close()


def _merge(earlier: Event, later: Event) -> Event | None:
    """Both deltas as one, when they are neighbours of the same item."""
    a, b = earlier.msg, later.msg
    if not isinstance(a, DELTAS) or not isinstance(b, DELTAS) or len(a.delta) > MAX_MERGED_CHARACTERS:
        return None
    if _place(a) != _place(b):
        return None
    return Event(later.id, msgspec.structs.replace(b, delta=a.delta + b.delta))


def _place(delta: AgentMessageContentDelta | ReasoningContentDelta) -> tuple[str, int | None]:
    """Where a piece of text belongs: the item, and of reasoning the section."""
    return delta.item_id, delta.summary_index if isinstance(delta, ReasoningContentDelta) else None
