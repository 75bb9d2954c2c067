"""A thread that is loaded in this server: its session, who follows it, and what they are told.

The session's events are heard twice: at once, to know which turn runs and to answer those who wait for an op; and by
a task that translates them; each client reads what it is told at its own speed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from spindle.config.schema import Config
from spindle.core.session import Session
from spindle.core.stream import Subscription
from spindle.errors import SpindleError
from spindle.frontends.app_server.asking import Put
from spindle.frontends.app_server.connection import Connection
from spindle.frontends.app_server.notifications import Note, TurnCompleted
from spindle.frontends.app_server.objects import Thread, Turn, TurnError, Wire
from spindle.frontends.app_server.questions import Questions
from spindle.frontends.app_server.threads import ThreadFacts, thread_from_meta, turns_of
from spindle.frontends.app_server.translate import Said, Translator
from spindle.protocol import events
from spindle.protocol.clock import Clock
from spindle.protocol.events import TERMINAL, Event, Msg
from spindle.protocol.ops import Op, Shutdown, Submission
from spindle.thread.view import preview


class Hearing(Subscription):
    """The events of one session; keeps what must be known at once, before anybody has read them."""

    def __init__(self) -> None:
        super().__init__(skip=())
        self.active_turn: str | None = None
        """The turn that runs, or was asked for."""
        self.takes_no_input = False
        """A compaction runs, or a command of the person's: input has to wait for its end."""
        self._answers: dict[str, asyncio.Future[Msg]] = {}
        self._ends: list[asyncio.Future[None]] = []
        self._has_begun = False

    def push(self, event: Event) -> None:
        answer = self._answers.pop(event.id, None) if event.id else None
        if answer is not None and not answer.done():
            answer.set_result(event.msg)
        if isinstance(event.msg, events.TaskStarted):
            self.active_turn = event.msg.turn_id
            self._has_begun = True
        elif isinstance(event.msg, TERMINAL) or self._could_not_begin(event):
            self._ended()
        super().push(event)

    def _could_not_begin(self, event: Event) -> bool:
        return isinstance(event.msg, events.Error) and event.id == self.active_turn and not self._has_begun

    def _ended(self) -> None:
        self.active_turn = None
        self.takes_no_input = self._has_begun = False
        ends, self._ends = self._ends, []
        for end in ends:
            if not end.done():
                end.set_result(None)

    def answer_to(self, sub_id: str) -> asyncio.Future[Msg]:
        """The first event under this id."""
        self._answers[sub_id] = asyncio.get_running_loop().create_future()
        return self._answers[sub_id]

    async def turn_end(self) -> None:
        """Wait until the running turn has ended."""
        if self.active_turn is None:
            return
        end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ends.append(end)
        await end


class LoadedThread:
    """One live thread and its followers."""

    def __init__(self, session: Session, config: Config, questions: Questions, clock: Clock) -> None:
        self.session = session
        self.config = config
        """The configuration it was opened with; says what an administrator allows."""
        self.followers: set[Connection] = set()
        self.hearing = Hearing()
        self.unload_timer: asyncio.TimerHandle | None = None
        self.is_closing = False
        self._questions = questions
        self._clock = clock
        self._translator = Translator(session.thread_id, clock.uuid7)
        self._updated_at = clock.now()
        self._preview = ""
        self._failures: dict[str, TurnError] = {}
        """Which turns failed here, and how; a record does not say."""
        session.listen(self.hearing)
        self._actor = asyncio.ensure_future(session.run())
        self.on_idle: Callable[[], None] = lambda: None
        """Called when a turn has ended."""
        self._teller = asyncio.ensure_future(self._tell_everything())

    @property
    def id(self) -> str:
        return self.session.thread_id

    @property
    def now_ms(self) -> int:
        return int(self._clock.now() * 1000)

    # ---- ops -----------------------------------------------------------------------------------

    def submit(self, op: Op, sub_id: str | None = None) -> str:
        """Hand in an op; gives the id of its events."""
        sub_id = sub_id or self._clock.uuid7()
        self._updated_at = self._clock.now()
        self.session.submit(Submission(sub_id, op))
        return sub_id

    def start_turn(self, op: Op) -> str:
        """Hand in an op that starts a turn; gives the turn's id."""
        sub_id = self._clock.uuid7()
        self.hearing.active_turn = self._translator.expected = sub_id
        return self.submit(op, sub_id)

    async def ask(self, op: Op) -> Msg:
        """Hand in an op and wait for what comes of it; an error is raised."""
        sub_id = self._clock.uuid7()
        answer = self.hearing.answer_to(sub_id)
        self.submit(op, sub_id)
        msg = await answer
        if isinstance(msg, events.Error):
            raise SpindleError(msg.message)
        return msg

    async def rest(self) -> None:
        """Let go of the record's file and of the connection to the model, until the thread is used again."""
        if self.session.is_running:
            return
        if (writer := self.session.thread.history.writer) is not None:
            writer.rest()
        await self.session.thread.client.aclose()

    def wake(self) -> None:
        """Take the record's file again. Raises ThreadError when another process has gone on with the thread."""
        if (writer := self.session.thread.history.writer) is not None:
            writer.wake()

    async def close(self) -> None:
        """Stop what runs, flush the record, tell what there is to tell, and end."""
        self.is_closing = True
        if self.unload_timer is not None:
            self.unload_timer.cancel()
        self.session.submit(Submission("", Shutdown()))
        await asyncio.wait([self._actor])
        self.hearing.close()
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
        turns = turns_of(self.session.thread.history.records, active=self.hearing.active_turn)
        return [
            msgspec.structs.replace(turn, status="failed", error=self._failures[turn.id])
            if turn.id in self._failures
            else turn
            for turn in turns
        ]

    def describe(self, name: str | None, *, with_turns: bool = False) -> Thread:
        history, settings = self.session.thread.history, self.session.settings
        self._preview = self._preview or preview(history.records) or ""
        return thread_from_meta(
            history.meta,
            ThreadFacts(
                id=self.id,
                path=history.writer.path if history.writer is not None else None,
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
