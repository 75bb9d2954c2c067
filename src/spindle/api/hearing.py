"""Follow one open thread: which turn runs, what came of an op, when the turn has ended.

    hearing = Hearing(thread)                # before `thread.begin()`, to miss nothing
    thread.begin()
    turn_id = hearing.start_turn(UserTurn(items=[...]))
    await hearing.turn_end()
    msg = await hearing.ask(ThreadRollback(num_turns=1))     # raises what the session answers with an error

What it knows is up to date at any moment, also while nobody reads: it is noted when an event is emitted, not when it is
read. Read it or not: it is a subscription like any other, and `async for event in hearing` gives every event.
"""

from __future__ import annotations

import asyncio

from spindle.api.door import OpenThread
from spindle.core.stream import Subscription
from spindle.errors import SpindleError, ThreadError
from spindle.protocol.events import TERMINAL, Error, Event, Msg, TaskStarted
from spindle.protocol.ops import Op


class Hearing(Subscription):
    """The events of one thread, and what must be known of them at once."""

    def __init__(self, thread: OpenThread, skip: tuple[type[Msg], ...] = (), rounds: int = 0) -> None:
        super().__init__(skip)
        self.active_turn: str | None = None
        """The turn that runs, or was asked for."""
        self.takes_no_input = False
        """What runs is a compaction or a command of the person's: input has to wait for its end."""
        self._thread = thread
        self._answers: dict[str, asyncio.Future[Msg]] = {}
        self._ends: list[asyncio.Future[None]] = []
        self._has_begun = False
        self.rounds = rounds
        thread.listen(self)

    # ---- driving it ----------------------------------------------------------------------------

    def start_turn(self, op: Op, *, takes_no_input: bool = False) -> str:
        """Hand in an op that starts a turn; gives the turn's id. From now on it is the active one."""
        self.active_turn = self._thread.submit(op)
        self.takes_no_input = takes_no_input
        return self.active_turn

    async def ask(self, op: Op) -> Msg:
        """Hand in an op and wait for the first event that it leads to. Raises SpindleError when that is an error.

        Only for ops that are answered; one that is dealt with in silence would be waited for until the thread ends.
        """
        sub_id = self._thread.submit(op)
        answer: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()
        if self._closed:
            raise _closed()
        self._answers[sub_id] = answer
        try:
            msg = await answer
        finally:
            self._answers.pop(sub_id, None)
        if isinstance(msg, Error):
            raise SpindleError(msg.message)
        return msg

    async def turn_end(self) -> None:
        """Wait until the active turn has ended; at once when there is none."""
        if self.active_turn is not None and not self._closed:
            end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._ends.append(end)
            await end

    # ---- hearing it ----------------------------------------------------------------------------

    def push(self, event: Event) -> None:
        answer = self._answers.get(event.id) if event.id else None
        if answer is not None and not answer.done() and not getattr(event.msg, "announces", False):
            answer.set_result(event.msg)
        if isinstance(event.msg, TaskStarted):
            self.active_turn = event.msg.turn_id
            self._has_begun = True
        elif isinstance(event.msg, TERMINAL) or self._could_not_begin(event):
            self._ended()
        super().push(event)

    def close(self) -> None:
        """The thread was closed: nobody waits for it any longer."""
        super().close()
        self._ended()
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(_closed())

    def _could_not_begin(self, event: Event) -> bool:
        return isinstance(event.msg, Error) and event.id == self.active_turn and not self._has_begun

    def _ended(self) -> None:
        self.active_turn = None
        self.takes_no_input = self._has_begun = False
        ends, self._ends = self._ends, []
        for end in ends:
            if not end.done():
                end.set_result(None)


def _closed() -> ThreadError:
    return ThreadError("the thread is closed")
