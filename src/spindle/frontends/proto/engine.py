"""An engine: one queue pair, with or without a thread behind it.

`configure_session` opens a thread, or another one in its place; every other op goes to the open one. All of them tell
their events in one stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from spindle.api.door import OpenThread
from spindle.core.stream import EventStream, Subscription
from spindle.errors import SpindleError, reason_of
from spindle.protocol.events import Error, Event, Msg, ShutdownComplete
from spindle.protocol.ops import ConfigureSession, Op, Shutdown, Submission

MAX_WAITING_OPS = 256
"""A front end that has handed in so many ops should wait until they have been dealt with."""

Open = Callable[[ConfigureSession, EventStream], Awaitable[OpenThread]]
"""Opens the thread that the op asks for; its events go into the stream."""


class Refused(Op, frozen=True, kw_only=True, tag="refused"):
    """Stands in the queue for something that is no submission, so that it is answered in its turn."""

    message: str


class Engine:
    """Ops in, events out. `run` ends with a shutdown op."""

    def __init__(self, open_for: Open, *, wait_configure: bool = False) -> None:
        self._open_for = open_for
        self._wait_configure = wait_configure
        self._stream = EventStream()
        self._ops: asyncio.Queue[Submission] = asyncio.Queue()
        self._handed_in = 0
        """How many ops came since the last time somebody waited for them."""
        self._thread: OpenThread | None = None

    def subscribe(self, skip: tuple[type[Msg], ...] = ()) -> Subscription:
        return self._stream.subscribe(skip)

    def listen(self, reader: Subscription) -> None:
        """Let a reader of a kind of its own hear the events from now on."""
        self._stream.attach(reader)

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
        if self._thread is not None:
            await self._thread.settle()

    async def run(self) -> None:
        """Handle ops until shutdown. Without `wait_configure` a thread opens by itself from the configuration."""
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
        elif self._thread is None:
            self._fail(submission.id, "no session: send configure_session first")
        else:
            self._thread.submit(submission.op, submission.id)

    async def _configure(self, sub_id: str, op: ConfigureSession) -> None:
        """Open a thread; what ran before is aborted first. When it cannot be opened there is none."""
        await self._close()
        try:
            self._thread = await self._open_for(op, self._stream)
        except (SpindleError, OSError) as error:
            self._fail(sub_id, reason_of(error))
            return
        except Exception as error:  # our bug: no thread then, but the engine lives on
            self._fail(sub_id, f"internal error: {type(error).__name__}: {error}")
            return
        self._thread.begin(configured_by=sub_id)
        # Its first event must be out before any answer of ours.
        await asyncio.sleep(0)

    async def _close(self) -> None:
        """End the thread once it has dealt with everything that was handed in before."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        await thread.settle()
        try:
            await thread.close()
        except Exception as error:  # it broke down; the engine lives on, and another thread can be opened
            self._fail(
                "", reason_of(error) if isinstance(error, SpindleError | OSError) else f"internal error: {error!r}"
            )

    def _fail(self, sub_id: str, message: str) -> None:
        self._stream.emit(Event(sub_id, Error(message=message)))
