"""An engine: one queue pair, with or without a session behind it.

`configure_session` opens a thread, or another one in its place; every other op goes to the open session. Several
engines live in one process without knowing of each other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from spindle.core.session import Session
from spindle.core.stream import EventStream, Subscription
from spindle.errors import SpindleError, reason_of
from spindle.protocol.events import Error, Event, Msg, ShutdownComplete
from spindle.protocol.ops import ConfigureSession, Op, Shutdown, Submission

MAX_WAITING_OPS = 256
"""A front end that has handed in so many ops should wait until they have been dealt with."""

OpenSession = Callable[[ConfigureSession, EventStream], Awaitable[Session]]


class Refused(Op, frozen=True, kw_only=True, tag="refused"):
    """Stands in the queue for something that is no submission, so that it is answered in its turn."""

    message: str


class Engine:
    """Ops in, events out. `run` ends with a shutdown op."""

    def __init__(self, open_session: OpenSession, *, wait_configure: bool = False) -> None:
        self._open_session = open_session
        self._wait_configure = wait_configure
        self._stream = EventStream()
        self._ops: asyncio.Queue[Submission] = asyncio.Queue()
        self._handed_in = 0
        """How many ops came since the last time somebody waited for them."""
        self._session: Session | None = None
        self._actor: asyncio.Task[None] | None = None

    def subscribe(self, skip: tuple[type[Msg], ...] = ()) -> Subscription:
        return self._stream.subscribe(skip)

    def submit(self, submission: Submission) -> None:
        """Hand in an op. Never waits."""
        self._handed_in += 1
        self._ops.put_nowait(submission)

    def reject(self, sub_id: str, message: str) -> None:
        """Answer something that is no submission, after what was handed in before it."""
        self.submit(Submission(sub_id, Refused(message=message)))

    @property
    def is_behind(self) -> bool:
        return self._handed_in >= MAX_WAITING_OPS

    async def settle(self) -> None:
        """Wait until every op that was handed in so far has been dealt with; a turn may go on after that."""
        self._handed_in = 0
        await self._ops.join()
        if self._session is not None and self._actor is not None:
            settled = asyncio.ensure_future(self._session.settle())
            # A session that has ended deals with nothing any more.
            await asyncio.wait([self._actor, settled], return_when=asyncio.FIRST_COMPLETED)
            settled.cancel()

    async def run(self) -> None:
        """Handle ops until shutdown. Without `wait_configure` the session opens by itself from the configuration."""
        try:
            if not self._wait_configure:
                await self._configure("", ConfigureSession())
            while True:
                submission = await self._ops.get()
                if isinstance(submission.op, Shutdown):
                    await self._close()
                    self._stream.emit(Event(submission.id, ShutdownComplete()))
                    return
                await self._handle(submission)
                self._ops.task_done()
        finally:
            await self._close()
            self._stream.close()

    async def _handle(self, submission: Submission) -> None:
        if isinstance(submission.op, ConfigureSession):
            await self._configure(submission.id, submission.op)
        elif isinstance(submission.op, Refused):
            self._fail(submission.id, submission.op.message)
        elif self._session is None:
            self._fail(submission.id, "no session: send configure_session first")
        else:
            self._session.submit(submission)

    async def _configure(self, sub_id: str, op: ConfigureSession) -> None:
        """Open a session; what ran before is aborted first. When it cannot be opened there is none."""
        await self._close()
        try:
            self._session = await self._open_session(op, self._stream)
        except (SpindleError, OSError) as error:
            self._fail(sub_id, reason_of(error))
            return
        except Exception as error:  # our bug: no session then, but the engine lives on
            self._fail(sub_id, f"internal error: {type(error).__name__}: {error}")
            return
        self._actor = asyncio.ensure_future(self._session.run(configured_by=sub_id))
        # Its first event must be out before any answer of ours.
        await asyncio.sleep(0)

    async def _close(self) -> None:
        """End the session once it has dealt with everything that was handed in before."""
        actor, session, self._session = self._actor, self._session, None
        if actor is None:
            return
        if session is not None:
            settled = asyncio.ensure_future(session.settle())
            await asyncio.wait([actor, settled], return_when=asyncio.FIRST_COMPLETED)
            settled.cancel()
        actor.cancel()
        await asyncio.wait([actor])
        self._actor = None

    def _fail(self, sub_id: str, message: str) -> None:
        self._stream.emit(Event(sub_id, Error(message=message)))
