"""The one actor that owns a live thread: ops go in, events come out, at most one turn runs.

`run` handles ops one by one and never waits for a turn, except for the end of a turn that it has stopped. Everything
that changes the thread happens on this actor or inside the one running turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from spindle.core.briefing import Briefing
from spindle.core.feature import Feature
from spindle.core.live_thread import LiveThread
from spindle.core.running_turn import RunningTurn, Work
from spindle.core.settings import Limits, apply_op
from spindle.core.stream import EventStream, Subscription
from spindle.core.turn import run_turn
from spindle.core.turns import Turns
from spindle.core.workbench import Workbench
from spindle.errors import SpindleError, reason_of
from spindle.protocol.events import Error, Event, Msg, ShutdownComplete, Warning
from spindle.protocol.ops import Interrupt, Shutdown, Submission, UserTurn
from spindle.protocol.settings import ThreadSettings
from spindle.thread.store import ThreadStore


class Equipment(msgspec.Struct, frozen=True, kw_only=True):
    """What a session works with beside its thread. It is the session's, and is closed with it."""

    briefing: Briefing
    workbench: Workbench
    store: ThreadStore
    warming: asyncio.Task[None] | None = None
    """Opens the connection to the model; owned here so that it ends with the session."""


class Session:
    """A live thread. Submit ops, subscribe to events, run it in a task of yours, and close it."""

    def __init__(
        self,
        thread: LiveThread,
        settings: ThreadSettings,
        stream: EventStream,
        features: Sequence[Feature],
        *,
        equipment: Equipment,
        limits: Limits,
        greeting: Sequence[Msg],
    ) -> None:
        self.thread = thread
        self.settings = settings
        self.stream = stream
        self.features = list(features)
        """In the order in which they are asked at each moment."""
        self.briefing = equipment.briefing
        self.workbench = equipment.workbench
        self.store = equipment.store
        self.limits = limits
        self._warming = equipment.warming
        self._greeting = greeting
        """Its first events; the very first is the answer to the op that opened it."""
        self._ops: asyncio.Queue[Submission] = asyncio.Queue()
        self._handlers = {kind: handler for feature in features for kind, handler in feature.ops().items()}
        self.is_closing = False
        """What is stopped now is stopped because the session ends, not because a person wants it."""
        self.turns = Turns(self)
        self.turns.approvals.is_attended = limits.is_attended
        self.turns.approvals.allowed = limits.allowed

    # ---- the outside ---------------------------------------------------------------------------

    @property
    def thread_id(self) -> str:
        return self.thread.thread_id

    @property
    def is_running(self) -> bool:
        return self.turns.is_running

    @property
    def present_settings(self) -> ThreadSettings:
        """What a turn would be allowed now."""
        return self.limits.cap(self.settings)

    def submit(self, submission: Submission) -> None:
        """Hand in an op. Never waits."""
        self._ops.put_nowait(submission)

    async def settle(self) -> None:
        """Wait until every op that was handed in so far has been dealt with; a turn may go on after that."""
        await self._ops.join()

    def subscribe(self, skip: tuple[type[Msg], ...] = ()) -> Subscription:
        return self.stream.subscribe(skip)

    def listen(self, reader: Subscription) -> None:
        self.stream.attach(reader)

    def end_stream(self) -> None:
        """Nothing more will be emitted: readers of the events reach the end."""
        self.stream.close()

    async def run(self, configured_by: str = "") -> None:
        """Handle ops until shutdown. Owns the running turn: when this task ends, so has the turn."""
        for number, msg in enumerate(self._greeting):
            self.emit("" if number else configured_by, msg)
        try:
            for feature in self.features:
                feature.open(self)
            while not isinstance((submission := await self._ops.get()).op, Shutdown):
                try:
                    match submission.op:
                        case UserTurn(last_response_id=None) as op:
                            settings = apply_op(self.settings, op, self.limits.allowed, self.thread.provider_ids)
                            await self.stop("replaced")
                            self.settings = settings
                            self.begin_turn(submission, settings)
                        case Interrupt():
                            await self.stop("interrupted")
                        case op if (handler := self._handlers.get(type(op))) is not None:
                            await handler(self, submission)
                        case _:
                            from spindle.core.ops import handle  # for whoever does more than begin turns

                            await handle(self, submission)
                except (SpindleError, OSError) as error:
                    self.emit(submission.id, Error(message=reason_of(error)))
                except Exception as error:  # our bug: the op fails, the session lives on
                    self.emit(submission.id, Error(message=f"internal error: {type(error).__name__}: {error}"))
                self._ops.task_done()
            await self.aclose()
            self.emit(submission.id, ShutdownComplete())
        finally:
            await self.aclose()

    def kill_processes(self) -> None:
        """Kill what runs without waiting for anything. For a process that must end this instant."""
        self.workbench.processes.kill_all()
        for feature in self.features:
            feature.kill()

    async def aclose(self) -> None:
        """Stop the turn, kill what it left running, and let go of the record. Safe to call twice."""
        self.is_closing = True
        await self.turns.stop("interrupted")
        for feature in self.features:
            try:
                await feature.aclose()
            except Exception as error:  # our bug: the others, and the record, are closed all the same
                self.tell(Warning(message=f"internal error: {type(error).__name__}: {error}"))
        if self._warming is not None and not self._warming.done():
            self._warming.cancel()
            await asyncio.wait([self._warming])
        await self.workbench.processes.aclose()
        await self.thread.client.aclose()
        self.thread.history.close()

    # ---- for turns and features ----------------------------------------------------------------

    def emit(self, sub_id: str, msg: Msg) -> None:
        """Tell everybody something that belongs to a submission."""
        self.stream.emit(Event(sub_id, msg))

    def tell(self, msg: Msg) -> None:
        """Tell everybody something that belongs to none."""
        self.stream.emit(Event("", msg))

    def begin_turn(self, submission: Submission, settings: ThreadSettings, work: Work = run_turn) -> RunningTurn:
        """Begin a turn; the one before must have ended."""
        assert self.turns.running is None
        op = submission.op
        if isinstance(op, UserTurn) and op.service_tier_for_turn is not None:
            tier = None if op.service_tier_for_turn == "default" else op.service_tier_for_turn
            settings = msgspec.structs.replace(settings, service_tier=tier)
        turn = self.turns.running = RunningTurn(self, submission, self.limits.cap(settings), work)
        turn.task = asyncio.ensure_future(self.turns.run(turn))
        return turn

    async def start_turn(self, submission: Submission, work: Work = run_turn) -> None:
        """Begin a turn; one that runs is replaced by it."""
        await self.stop("replaced")
        self.begin_turn(submission, self.settings, work)

    async def stop(self, reason: str) -> None:
        """End the running turn, and what features do for it; without a turn only an interrupt reaches those."""
        is_theirs = self.is_running or reason == "interrupted"
        await self.turns.stop(reason)
        for feature in self.features if is_theirs else ():
            await feature.interrupt()

    def replace_feature(self, old: Feature, new: Feature) -> None:
        """Put a feature in another's place; its moments come from now on."""
        new.open(self)
        self.features[self.features.index(old)] = new
        self._handlers.update(new.ops())
