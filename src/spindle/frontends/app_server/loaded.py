"""A thread that is loaded in this server: which clients follow it, and what they receive.

Its events are heard twice: at once, to know which turn runs and to answer requests that wait for an op
(`api/hearing.py`); and by a task that translates them. Each client reads its messages at its own speed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from spindle.api.door import OpenThread
from spindle.api.hearing import Hearing
from spindle.config.schema import Config
from spindle.frontends.app_server.asking import Put
from spindle.frontends.app_server.connection import Connection
from spindle.frontends.app_server.notifications import Note, TurnCompleted
from spindle.frontends.app_server.objects import Thread, Turn, TurnError, Wire
from spindle.frontends.app_server.questions import Questions
from spindle.frontends.app_server.threads import ThreadFacts, thread_from_meta, turns_of
from spindle.frontends.app_server.translate import Said, Translator
from spindle.protocol.clock import Clock
from spindle.protocol.events import TERMINAL, Msg
from spindle.protocol.ops import Op
from spindle.thread.view import preview


class LoadedThread:
    """One live thread and its followers."""

    def __init__(self, thread: OpenThread, config: Config, questions: Questions, clock: Clock) -> None:
        self.live = thread
        """The thread itself, as the door gives it."""
        self.config = config
        """The configuration it was opened with; says what an administrator allows."""
        self.followers: set[Connection] = set()
        self.hearing = Hearing(thread, rounds=2)  # the teller, then the writer of each connection
        self.unload_timer: asyncio.TimerHandle | None = None
        self.is_closing = False
        self._questions = questions
        self._clock = clock
        self._translator = Translator(thread.id, clock.uuid7)
        self._updated_at = clock.now()
        self._preview = ""
        self._failures: dict[str, TurnError] = {}
        """Which turns failed here, and how; a record does not say."""
        self.on_idle: Callable[[], None] = lambda: None
        """Called when a turn has ended."""
        self.on_end: Callable[[Turn], None] = lambda turn: None
        """Called when everybody has been told how a turn ended."""
        thread.begin()
        self._teller = asyncio.ensure_future(self._tell_everything())

    @property
    def id(self) -> str:
        return self.live.id

    @property
    def now_ms(self) -> int:
        return int(self._clock.now() * 1000)

    # ---- ops -----------------------------------------------------------------------------------

    def submit(self, op: Op) -> str:
        """Hand in an op; gives the id of its events."""
        self._updated_at = self._clock.now()
        return self.live.submit(op)

    def start_turn(self, op: Op, *, takes_no_input: bool = False) -> str:
        """Hand in an op that starts a turn; gives the turn's id."""
        self._updated_at = self._clock.now()
        self._translator.expected = self.hearing.start_turn(op, takes_no_input=takes_no_input)
        return self._translator.expected

    async def ask(self, op: Op) -> Msg:
        """Hand in an op and wait for what comes of it; an error is raised."""
        self._updated_at = self._clock.now()
        return await self.hearing.ask(op)

    async def close(self) -> None:
        """Stop what runs, flush the record, tell what there is to tell, and end."""
        self.is_closing = True
        if self.unload_timer is not None:
            self.unload_timer.cancel()
        try:
            await self.live.close()
        except Exception as error:  # it broke down; what it said before is told, and the server lives on
            for connection in self.followers:
                connection.complain(f"thread {self.id} broke down: {type(error).__name__}: {error}")
        await asyncio.wait([self._teller])
        self._questions.withdraw(self.id)

    # ---- telling -------------------------------------------------------------------------------

    async def _tell_everything(self) -> None:
        async for event in self.hearing:
            if isinstance(event.msg, TERMINAL):
                self._questions.withdraw(self.id)
                self.on_idle()
            try:
                self._tell(self._translator.translate(event, self.now_ms))
            except Exception as error:  # our bug: this event is not told, those after it are
                reason = f"internal error: {type(error).__name__}: {error}"
                for connection in self.followers:
                    connection.complain(f"thread {self.id}: a {event.msg.__struct_config__.tag} event: {reason}")

    def _tell(self, said: Sequence[Said]) -> None:
        for one in said:
            if isinstance(one, Note):
                if isinstance(one, TurnCompleted) and one.turn.error is not None:
                    self._failures[one.turn.id] = one.turn.error
                for connection in self.followers:
                    connection.notify(one, self.now_ms)
                if isinstance(one, TurnCompleted):
                    self.on_end(one.turn)
            else:
                self._questions.put(self.id, one.ask, self.followers, lambda reply, put=one: self._answered(put, reply))

    def _answered(self, put: Put, reply: Wire | None) -> None:
        op, is_declined = put.read(reply)
        self.submit(op)
        self._tell(self._translator.answered(put.ask, is_declined, self.now_ms))

    # ---- what it is ----------------------------------------------------------------------------

    @property
    def status(self) -> Any:
        return self._translator.status

    @property
    def running_turn(self) -> Turn | None:
        """The turn that runs, as a client is shown it."""
        turn_id = self.hearing.active_turn
        if turn_id is None:
            return None
        told = self._translator.turn
        return told if told is not None and told.id == turn_id else Turn(id=turn_id, root_turn_id=turn_id)

    def turns(self) -> list[Turn]:
        turns = turns_of(self.live.records, self.live.settings.cwd, active=self.hearing.active_turn)
        return [
            msgspec.structs.replace(turn, status="failed", error=self._failures[turn.id])
            if turn.id in self._failures
            else turn
            for turn in turns
        ]

    def describe(self, name: str | None, *, with_turns: bool = False) -> Thread:
        settings = self.live.settings
        self._preview = self._preview or preview(self.live.records) or ""
        return thread_from_meta(
            self.live.meta,
            ThreadFacts(
                id=self.id,
                path=self.live.path,
                preview=self._preview,
                updated_at=self._updated_at,
                cwd=settings.cwd,
                model=settings.model,
                effort=settings.effort,
                provider=settings.model_provider,
            ),
            status=self.status,
            name=name,
            turns=self.turns() if with_turns else (),
        )
