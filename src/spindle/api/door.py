"""Open a thread and drive it. Every front end and the Python API do it through this module and through nothing else.

    thread = await open_thread(request)
    events = thread.subscribe()              # before `begin`, to miss nothing
    thread.begin()
    thread.submit(UserTurn(items=[...]))
    async for event in events: ...           # ends when the thread is closed
    await thread.close()

Ops go in and events of protocol v1 come out; nobody outside touches the session, and nobody but the session appends to
the history. All of it runs on one event loop, the one `open_thread` was awaited on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from spindle.assembly import SessionRequest, open_session
from spindle.core.session import Session
from spindle.core.settings import apply_op
from spindle.core.stream import Subscription
from spindle.protocol.events import Msg
from spindle.protocol.items import Item
from spindle.protocol.ops import InjectItems, Op, OverrideTurnContext, Shutdown, Submission, UserTurn
from spindle.protocol.request import TokenUsage
from spindle.protocol.settings import ThreadSettings

if TYPE_CHECKING:
    from spindle.process.table import LiveProcess
    from spindle.thread.entry import Record

__all__ = ["OpenThread", "SessionRequest", "open_thread"]


async def open_thread(request: SessionRequest) -> OpenThread:
    """Open, resume or fork a thread. Raises a SpindleError when it cannot be done; then nothing was changed."""
    return OpenThread(await open_session(request), request)


class OpenThread:
    """One thread that is live in this process. Whoever opened it closes it."""

    def __init__(self, session: Session, request: SessionRequest) -> None:
        self._session = session
        self._clock = request.clock
        self._owns_stream = request.stream is None
        """Nobody else emits into the stream, so it ends with the thread, and `shutdown_complete` is its last event."""
        self._actor: asyncio.Task[None] | None = None

    # ---- what it is ----------------------------------------------------------------------------

    @property
    def id(self) -> str:
        return self._session.thread_id

    @property
    def path(self) -> str | None:
        """The file it is recorded in; None when it is not recorded."""
        writer = self._session.thread.history.writer
        return None if writer is None else writer.path

    @property
    def name(self) -> str | None:
        return self._session.thread.history.name

    @property
    def settings(self) -> ThreadSettings:
        """Those of the next turn, unless its op changes them."""
        return self._session.settings

    @property
    def recorded_settings(self) -> dict[str, Any] | None:
        """Those that its last turn ran with, as recorded; None when there was no turn yet."""
        return self._session.thread.history.last_turn_context

    @property
    def effort(self) -> str | None:
        """The reasoning effort of the next turn: what the settings say, else the model's own default."""
        return self._session.settings.effort or self._session.thread.traits.default_effort

    @property
    def meta(self) -> dict[str, Any]:
        """The first line of the record."""
        return self._session.thread.history.meta

    @property
    def records(self) -> Sequence[Record]:
        """Everything that was recorded, for the views of `spindle.thread.view`."""
        return self._session.thread.history.records

    @property
    def usage(self) -> TokenUsage:
        """What the thread has cost since it was first opened."""
        return self._session.thread.total_usage

    @property
    def rate_limits(self) -> dict[str, Any] | None:
        """What the server last said about the account's limits."""
        return self._session.thread.rate_limits

    @property
    def commands(self) -> list[LiveProcess]:
        """Its commands that run: a call waits for them, or they go on after it. The one used last is at the end."""
        return self._session.workbench.processes.all_live

    @property
    def is_running(self) -> bool:
        """A turn runs. One that was only handed in does not count yet."""
        return self._session.is_running

    @property
    def has_ended(self) -> bool:
        """It deals with no ops any more: it was closed, or the loop that it ran on has stopped."""
        return self._actor is not None and self._actor.done()

    # ---- driving it ----------------------------------------------------------------------------

    def subscribe(self, skip: tuple[type[Msg], ...] = ()) -> Subscription:
        """The events from now on, without those of the kinds in `skip`."""
        return self._session.subscribe(skip)

    def listen(self, reader: Subscription, rounds: int = 0) -> None:
        """Let a reader of a kind of its own hear the events from now on; see `EventStream.attach` for the rounds."""
        self._session.listen(reader, rounds)

    def begin(self, configured_by: str = "") -> None:
        """Let it handle ops. Its first event, `session_configured`, carries the id of the op that asked for it."""
        assert self._actor is None
        self._actor = asyncio.ensure_future(self._run(configured_by))

    async def _run(self, configured_by: str) -> None:
        try:
            await self._session.run(configured_by)
        finally:
            if self._owns_stream:
                self._session.end_stream()

    def new_id(self) -> str:
        """An id for an op that nobody else has."""
        return self._clock.uuid7()

    def check(self, op: UserTurn | OverrideTurnContext) -> ThreadSettings:
        """The settings after the op. Raises the SpindleError that the op would be answered with when one cannot be."""
        session = self._session
        return apply_op(session.settings, op, session.limits.allowed, session.thread.provider_ids)

    def submit(self, op: Op, sub_id: str | None = None) -> str:
        """Hand in an op; gives the id that its events carry, for a turn also the turn's. Never waits."""
        sub_id = self.new_id() if sub_id is None else sub_id
        self._session.submit(Submission(sub_id, op))
        return sub_id

    async def settle(self) -> None:
        """Wait until every op that was handed in so far has been dealt with; a turn may go on after that."""
        if self._actor is not None:
            settled = asyncio.ensure_future(self._session.settle())
            # A session that has ended deals with nothing any more.
            await asyncio.wait([self._actor, settled], return_when=asyncio.FIRST_COMPLETED)
            settled.cancel()

    async def inject(self, items: list[Item]) -> None:
        """Append items that the model is shown with the next request, as if they had happened."""
        self.submit(InjectItems(items=items))
        await self.settle()

    async def rest(self) -> None:
        """Let go of the record's file and of the connection to the model, until the thread is used again."""
        if self._session.is_running:
            return
        if (writer := self._session.thread.history.writer) is not None:
            writer.rest()
        await self._session.thread.client.aclose()

    def wake(self) -> None:
        """Take the record's file again. Raises ThreadError when another process has gone on with the thread."""
        if (writer := self._session.thread.history.writer) is not None:
            writer.wake()

    def pack(self, woken: Callable[[], None]) -> int | None:
        """Pack its past until somebody looks at it, which `woken` tells; gives how many bytes were packed.

        None while something goes on in it; then nothing is packed.
        """
        from spindle.core.resting import rest  # for programs with many threads

        return rest(self._session, woken)

    def kill(self) -> None:
        """Kill the programs it runs without waiting for anything. For a process that must end this instant."""
        self._session.kill_processes()

    async def close(self) -> None:
        """Stop what runs, flush the record, and end the stream of events. Safe to call twice.

        Raises what ended the thread, if that was not this.
        """
        if self._actor is None:
            await self._session.aclose()
            if self._owns_stream:
                self._session.end_stream()
            return
        if not self._actor.done():
            if self._owns_stream:
                self._session.submit(Submission("", Shutdown()))
            else:
                self._actor.cancel()  # no `shutdown_complete`: whoever brought the stream says when it is over
        await asyncio.wait([self._actor])
        if not self._actor.cancelled():
            self._actor.result()
