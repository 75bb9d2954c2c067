"""Threads and turns for programs that have an event loop: `AsyncThread`, `AsyncTurnHandle`, `AsyncTurnStream`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import Any

from spindle.api.budgets import Budget
from spindle.api.client_core import BoundToProcess, ClientCore
from spindle.api.conversation import Conversation, undo_op
from spindle.api.events import Event, EventTranslator
from spindle.api.inputs import ImageSource, Input
from spindle.api.options import (
    ApprovalPolicy,
    Effort,
    Mode,
    Path,
    Personality,
    SandboxMode,
    Summary,
    TurnOptions,
    options_of,
)
from spindle.api.running import TurnRun
from spindle.api.shown import ThreadRecord, TurnResult, UndoReport
from spindle.errors import ThreadError
from spindle.protocol import events as v1


class AsyncThread(BoundToProcess):
    """A thread: one conversation with the model, recorded unless it is ephemeral. Made by `AsyncSpindle`."""

    def __init__(self, core: ClientCore, conversation: Conversation) -> None:
        self._core = core
        self._conversation = conversation

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"

    @property
    def id(self) -> str:
        """The thread's id, the same for good."""
        return self._conversation.door.id

    @property
    def name(self) -> str | None:
        """The name it was given."""
        return self._conversation.name

    @property
    def cwd(self) -> str:
        """The folder it works in."""
        return self._conversation.door.settings.cwd

    @property
    def model(self) -> str:
        """The model of the next turn."""
        return self._conversation.door.settings.model

    @property
    def path(self) -> str | None:
        """The file it is recorded in; None when it is ephemeral."""
        return self._conversation.door.path

    async def run(
        self,
        input: Input,
        *,
        images: Sequence[ImageSource] | None = None,
        output_type: Any = None,
        output_schema: dict[str, Any] | None = None,
        output_retries: int = 0,
        timeout: float | None = None,
        budget: Budget | None = None,
        mode: Mode | None = None,
        cwd: Path | None = None,
        sandbox: SandboxMode | None = None,
        approval_policy: ApprovalPolicy | None = None,
        model: str | None = None,
        effort: Effort | None = None,
        summary: Summary | None = None,
        personality: Personality | None = None,
    ) -> TurnResult:
        """Run one turn to its end and return its result. A cancelled wait interrupts the turn.

        Args:
            input: a text, an input item, or a list of them
            images: pictures that stand before the text: paths, `data:` URLs or bytes
            output_type: what the answer must be: a type, or a JSON schema as a dict; see `TurnResult.output`
            output_schema: a JSON schema that is sent as it is
            output_retries: how often an answer that does not fit is asked for again
            timeout: seconds after which the turn is interrupted
            budget: a `Budget` for this turn
            mode: `plan` or `default`, for this turn
            cwd: from now on: the folder to work in
            sandbox: from now on: what commands and patches may reach
            approval_policy: from now on: when `on_approval` is asked
            model: from now on: the model
            effort: from now on: how long the model thinks
            summary: from now on: how much of its reasoning is summarised
            personality: from now on: the tone of the model

        Raises:
            TurnFailed: the model could not answer
            TurnTimeout: the turn took longer than `timeout`
            OutputInvalid: the answer does not fit `output_type`
            CallbackError: a callback raised
            ThreadBusy: another turn of this thread runs
            ValueError: an option cannot be used
        """
        options = options_of(TurnOptions, locals())
        self._core.check_open()
        return await self._conversation.run(input, options)

    def stream(
        self,
        input: Input,
        *,
        images: Sequence[ImageSource] | None = None,
        output_type: Any = None,
        output_schema: dict[str, Any] | None = None,
        output_retries: int = 0,
        timeout: float | None = None,
        budget: Budget | None = None,
        mode: Mode | None = None,
        cwd: Path | None = None,
        sandbox: SandboxMode | None = None,
        approval_policy: ApprovalPolicy | None = None,
        model: str | None = None,
        effort: Effort | None = None,
        summary: Summary | None = None,
        personality: Personality | None = None,
    ) -> AsyncTurnStream:
        """Run one turn, event by event: `async for event in thread.stream("…")`.

        The turn begins with the first event that is asked for. Leaving the loop early, or `close()`, interrupts it.
        Afterwards `.result` of what is returned here is the turn's result.

        Args:
            input: a text, an input item, or a list of them
            others: as for `run`

        Raises:
            ThreadBusy: another turn of this thread runs
            ValueError: an option cannot be used
        """
        options = options_of(TurnOptions, locals())
        self._core.check_open()
        self._conversation.check(input, options)
        return AsyncTurnStream(self._conversation, (input, options))

    async def turn(
        self,
        input: Input,
        *,
        images: Sequence[ImageSource] | None = None,
        output_type: Any = None,
        output_schema: dict[str, Any] | None = None,
        output_retries: int = 0,
        timeout: float | None = None,
        budget: Budget | None = None,
        mode: Mode | None = None,
        cwd: Path | None = None,
        sandbox: SandboxMode | None = None,
        approval_policy: ApprovalPolicy | None = None,
        model: str | None = None,
        effort: Effort | None = None,
        summary: Summary | None = None,
        personality: Personality | None = None,
    ) -> AsyncTurnHandle:
        """Start a turn and return a handle on it, to read, steer or interrupt it while it runs.

        Args:
            input: a text, an input item, or a list of them
            others: as for `run`

        Raises:
            ThreadBusy: another turn of this thread runs
            ValueError: an option cannot be used
        """
        options = options_of(TurnOptions, locals())
        self._core.check_open()
        turn = await self._conversation.start(input, options, keeps_events=True)
        return AsyncTurnHandle(self._conversation, turn)

    async def read(self, *, include_turns: bool = False) -> ThreadRecord:
        """The record of the thread, with its turns if they are asked for."""
        self._core.check_open()
        return await self._core.read_open(self._conversation, include_turns=include_turns)

    async def fork(self, *, at: str | int | None = None) -> AsyncThread:
        """A new thread that begins with a copy of this one, with the same options.

        Args:
            at: the id of the last turn to keep, a response id, or the number of turns to keep; None keeps all
        """
        self._core.check_open()
        return AsyncThread(self._core, await self._core.fork_open(self._conversation, at))

    async def rollback(self, n: int) -> None:
        """Forget the last `n` turns. Files stay as they are."""
        self._core.check_open()
        await self._conversation.rollback(n)

    async def undo(
        self,
        turns: int = 1,
        *,
        to: str | None = None,
        files: bool = True,
        conversation: bool = True,
        keep_mine: bool = False,
        dry_run: bool = False,
        redo: bool = False,
    ) -> UndoReport:
        """Take back what the last turns did to files and to the conversation; see `Thread.undo` for the arguments.

        Raises UndoConflict when somebody else has changed the files; nothing was changed then.
        """
        op = undo_op(turns, to, files=files, conversation=conversation, keep_mine=keep_mine, dry_run=dry_run, redo=redo)
        self._core.check_open()
        return await self._conversation.undo(op)

    async def compact(self, instructions: str | None = None) -> None:
        """Replace what was said so far with a summary; `instructions` say what it must keep."""
        self._core.check_open()
        await self._conversation.compact(instructions)

    async def set_name(self, text: str) -> None:
        """Give the thread a name to find it by."""
        self._core.check_open()
        await self._conversation.set_name(text)

    async def pin(self, text: str) -> None:
        """Keep a fact, word for word, through every compaction."""
        self._core.check_open()
        await self._conversation.pin(text)

    async def archive(self) -> None:
        """Close the thread and move its record out of the list. `thread_unarchive` brings it back."""
        self._core.check_open()
        await self._core.archive(self.id)

    async def close(self) -> None:
        """Interrupt what runs and let go of the record. The client does it too when it is closed."""
        await self._core.close_thread(self._conversation)

    async def __aenter__(self) -> AsyncThread:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class AsyncTurnHandle(BoundToProcess):
    """A turn that was started. Made by `AsyncThread.turn`."""

    def __init__(self, conversation: Conversation, turn: TurnRun) -> None:
        self._conversation = conversation
        self._turn = turn
        self._stream = AsyncTurnStream(conversation, turn)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}{' done' if self.done else ''}>"

    @property
    def id(self) -> str:
        """The id of the turn."""
        return self._turn.id

    @property
    def thread_id(self) -> str:
        """The id of its thread."""
        return self._conversation.door.id

    @property
    def done(self) -> bool:
        """Whether the turn is over."""
        return self._turn.ended.is_set()

    def stream(self) -> AsyncTurnStream:
        """The events of the turn, from its beginning. There is one stream: what was read is not read again.

        Leaving a loop over it does not stop the turn; `interrupt` does.
        """
        return self._stream

    async def run(self) -> TurnResult:
        """Wait for the result; asked again, it is the same one. Raises what `AsyncThread.run` raises."""
        return await self._conversation.wait(self._turn)

    def outcome(self) -> TurnResult:
        """The result of a turn that is over, without waiting; raises what `run` raises."""
        if not self.done:
            raise ThreadError("the turn is not over; wait for it with run()")
        return self._turn.outcome()

    async def steer(self, input: Input) -> None:
        """Add to the running turn; the model reads it with its next request."""
        self._conversation.steer(self._turn, input)

    async def interrupt(self) -> None:
        """Stop the turn and wait until that is recorded. Its status is then `interrupted`."""
        await self._conversation.stop(self._turn)


class AsyncTurnStream(BoundToProcess, AsyncIterator[Event]):
    """The events of one turn. Made by `AsyncThread.stream` and `AsyncTurnHandle.stream`."""

    def __init__(
        self, conversation: Conversation, what: TurnRun | tuple[Input, TurnOptions], *, is_own: bool = False
    ) -> None:
        self._conversation = conversation
        self._turn = what if isinstance(what, TurnRun) else None
        self._asked = None if isinstance(what, TurnRun) else what
        self.is_own = is_own or self._asked is not None
        """It started the turn, so the turn ends with whoever reads it."""
        self._reading = asyncio.Lock()
        """Several may read at once; each event goes to one of them."""
        self._translator: EventTranslator | None = None
        self._ready: list[Event] = []
        self._has_raised = False
        self._is_closed = False

    @property
    def result(self) -> TurnResult:
        """The result of the turn, once it is over."""
        if self._turn is None or self._turn.result is None:
            raise ThreadError("the turn is not over; read its events to the end, or close the stream")
        return self._turn.result

    def __aiter__(self) -> AsyncIterator[Event]:
        return _Loop(self) if self.is_own else self

    async def __anext__(self) -> Event:
        async with self._reading:
            if not self._ready:
                self._ready = (await self.next_events())[::-1]
            if not self._ready:
                raise StopAsyncIteration
            return self._ready.pop()

    def __del__(self) -> None:
        if self.is_own and not self.is_over:
            self.abandon()

    async def begin(self) -> TurnRun:
        """Start the turn unless it was started."""
        if self._turn is None:
            assert self._asked is not None
            self._turn = await self._conversation.start(*self._asked, keeps_events=True)
        return self._turn

    async def next_events(self) -> list[Event]:
        """The events that there are, waiting for the next one if there are none; none at the end.

        What is wrong beyond what the last event says (a timeout, say) is raised once, after it. A cancellation
        interrupts a turn that the stream started, and goes on when that is recorded.
        """
        try:
            return await self._next_events()
        except asyncio.CancelledError:
            if self.is_own:
                await self.close()
            raise

    async def _next_events(self) -> list[Event]:
        if self._is_closed:
            return []
        turn = await self.begin()
        assert turn.reader is not None
        found: list[Event] = []
        while not found:
            try:
                waiting = [await anext(turn.reader), *turn.reader.take_ready()]
            except StopAsyncIteration:
                if turn.error is not None and not turn.is_failed and not self._has_raised:
                    self._has_raised = True
                    # Not out of the end of the events, and with the cause that it has.
                    raise turn.error from turn.error.__cause__
                break
            found = self._shown(turn, waiting)
        return found

    def last_events(self) -> list[Event]:
        """What is left to read of a turn that is over. Needs no loop: the thread may have been closed meanwhile."""
        if self._is_closed or self._turn is None or self._turn.reader is None:
            return []
        return self._shown(self._turn, self._turn.reader.take_ready())

    def _shown(self, turn: TurnRun, waiting: list[v1.Event]) -> list[Event]:
        if self._translator is None:
            self._translator = EventTranslator(self._conversation.door.id, turn.id, turn.first_number)
        return [shown for event in waiting for shown in self._translator.events(event.msg, turn.usage)]

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left to stop."""
        return self._is_closed or (self._turn is not None and self._turn.ended.is_set())

    async def close(self) -> None:
        """Interrupt the turn, unless it is over, and wait for its end."""
        self._is_closed = True
        self._ready = []
        if self._turn is not None:
            await self._conversation.stop(self._turn)

    aclose = close

    async def __aenter__(self) -> AsyncTurnStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def abandon(self) -> None:
        """Interrupt the turn without waiting for its end."""
        self._is_closed = True
        if self._turn is not None and not self._turn.ended.is_set():
            self._turn.is_abandoned = True
            try:
                self._turn.interrupt()
            except RuntimeError:
                pass  # the loop has ended, and the turn with it


class _Loop(AsyncIterator[Event]):
    """One `async for` over a stream. When the loop is left early it goes away, and the turn with it."""

    def __init__(self, stream: AsyncTurnStream) -> None:
        self._stream = stream
        self._is_over = False

    async def __anext__(self) -> Event:
        try:
            return await self._stream.__anext__()
        except StopAsyncIteration:
            self._is_over = True
            raise
        except asyncio.CancelledError:
            await self._stream.close()
            raise

    def __del__(self) -> None:
        if not self._is_over:
            self._stream.abandon()
