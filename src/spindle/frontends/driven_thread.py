"""An open thread whose client waits for the end of each turn: one turn at a time, every event told in its order.

    driven = DrivenThread(thread, listener)
    driven.begin()
    end = await driven.run(UserTurn(items=[...]))     # after everything about the turn has been told
    await driven.close()

The listener is told every event and may take its time: while it does, deltas that wait for it are merged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Literal, Protocol

import msgspec

from spindle.api.door import OpenThread
from spindle.api.hearing import Hearing
from spindle.errors import ThreadBusy
from spindle.frontends.question_forms import QUESTIONS, no_answer
from spindle.protocol.events import TERMINAL, Error, Event, Msg, TaskComplete, TaskStarted, TurnAborted
from spindle.protocol.ops import Interrupt, Op


class TurnEnd(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a turn."""

    status: Literal["completed", "failed", "interrupted"]
    message: str = ""
    """The last message of the model."""
    error: Error | None = None


class Listener(Protocol):
    """Who is told what happens in a thread."""

    async def told(self, event: Event) -> None: ...

    def complain(self, text: str) -> None:
        """Say what has gone wrong with us."""
        ...


class _Call:
    """An op that was handed in, and what its end will be."""

    def __init__(self, sub_id: str, *, is_turn: bool) -> None:
        self.sub_id = sub_id
        self.is_turn = is_turn
        self.has_begun = False
        self.error: Error | None = None
        self.ends: tuple[str, ...] = ()
        self.end: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def take(self, event: Event) -> None:
        """Look whether an event is its end."""
        msg = event.msg
        if self.end.done():
            return
        if not self.is_turn:
            if event.id == self.sub_id and (isinstance(msg, Error) or msg.__struct_config__.tag in self.ends):
                self.end.set_result(msg)
            return
        match msg:
            case TaskStarted():
                self.has_begun = True
            case Error() if event.id == self.sub_id:
                self.error = msg
                if not self.has_begun:
                    self.end.set_result(TurnEnd(status="failed", error=msg))
            case TurnAborted():
                self.end.set_result(TurnEnd(status="interrupted"))
            case TaskComplete(last_agent_message=said):
                status = "completed" if self.error is None else "failed"
                self.end.set_result(TurnEnd(status=status, message=said or "", error=self.error))
            case _:
                pass


class DrivenThread:
    """One live thread."""

    def __init__(self, thread: OpenThread, listener: Listener, hearing: Hearing | None = None) -> None:
        self.live = thread
        self._listener = listener
        self._hearing = hearing or Hearing(thread)
        self._call: _Call | None = None
        self._questions: dict[asyncio.Task[None], Msg] = {}
        self._pump: asyncio.Task[None] | None = None
        self.is_closing = False

    @property
    def id(self) -> str:
        return self.live.id

    @property
    def is_busy(self) -> bool:
        """A turn runs, or was asked for."""
        return self._call is not None

    def begin(self) -> None:
        """Let it handle ops, and tell what happens from its first event on."""
        self.live.begin()
        self._pump = asyncio.ensure_future(self._tell_everything())

    async def run(self, op: Op) -> TurnEnd:
        """Run a turn to its end. Raises ThreadBusy while another one runs."""
        return await self._do(op, is_turn=True)

    async def ask(self, op: Op, *ends: str) -> Msg:
        """Hand in an op that is no turn; gives its last event, an error or one with a tag of `ends`."""
        return await self._do(op, is_turn=False, ends=ends)

    async def _do(self, op: Op, *, is_turn: bool, ends: tuple[str, ...] = ()) -> Any:
        if self._call is not None:
            raise ThreadBusy("thread is busy: a turn of it runs; wait for its end, or cancel it")
        call = self._call = _Call(self.live.new_id(), is_turn=is_turn)
        call.ends = ends
        try:
            self.live.submit(op, call.sub_id)
            return await call.end
        finally:
            self._call = None

    def interrupt(self) -> None:
        """Stop the turn that runs; without one, nothing."""
        if self._call is not None:
            self.live.submit(Interrupt())

    def put(self, question: Msg, work: Coroutine[Any, Any, None]) -> None:
        """Have a question answered: `work` asks the client and hands in the answer. It ends with the turn."""
        task = asyncio.ensure_future(work)
        self._questions[task] = question
        task.add_done_callback(self._questions.pop)

    async def close(self) -> None:
        """Stop what runs, flush the record, tell what there is to tell, and end."""
        self.is_closing = True
        try:
            await self.live.close()
        finally:
            if self._pump is not None:
                await asyncio.wait([self._pump])

    async def _tell_everything(self) -> None:
        try:
            async for event in self._hearing:
                if isinstance(event.msg, TERMINAL):
                    self._withdraw(event.msg)
                await self._tell(event)
                if self._call is not None:
                    self._call.take(event)
        finally:
            self._withdraw(TurnAborted(turn_id="", reason="interrupted"))
            if self._call is not None and not self._call.end.done():
                self._call.end.set_result(TurnEnd(status="interrupted"))

    async def _tell(self, event: Event) -> None:
        try:
            await self._listener.told(event)
        except Exception as error:  # our bug: this event is not told, those after it are
            reason = f"internal error: {type(error).__name__}: {error}"
            self._listener.complain(f"thread {self.id}: a {event.msg.__struct_config__.tag} event: {reason}")
            if isinstance(event.msg, QUESTIONS) and event.msg not in self._questions.values():
                self.live.submit(no_answer(event.msg))

    def _withdraw(self, end: Msg) -> None:
        """The turn is over: nobody is asked any more. A sub-agent that works on is told that nobody answers."""
        for task, question in list(self._questions.items()):
            task.cancel()
            if isinstance(end, TaskComplete) and getattr(question, "thread_id", None) is not None:
                self.live.submit(no_answer(question))
