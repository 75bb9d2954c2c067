"""Threads and turns for programs without an event loop, and for any thread: `Thread`, `TurnHandle`, `TurnStream`.

The work is done on the event loop of the client; here is who waits for it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any

from spindle.api.async_thread import AsyncTurnHandle, AsyncTurnStream
from spindle.api.budgets import Budget
from spindle.api.client_core import BoundToProcess, ClientCore
from spindle.api.conversation import Conversation, undo_op
from spindle.api.events import Event
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
from spindle.api.shown import ThreadRecord, TurnResult, UndoReport
from spindle.errors import ThreadClosed


class Thread(BoundToProcess):
    """A thread: one conversation with the model, recorded unless it is ephemeral. Made by `Spindle`."""

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

    def run(
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
        """Run one turn to its end and return its result. Ctrl-C interrupts the turn.

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
        self._conversation.check_free()
        return self._core.call(self._conversation.run(input, options))

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
    ) -> TurnStream:
        """Run one turn, event by event: `for event in thread.stream("…")`.

        Leaving the loop early, or `close()`, interrupts the turn and waits for its end. Afterwards `.result` of what is
        returned here is the turn's result.

        Args:
            input: a text, an input item, or a list of them
            others: as for `run`

        Raises:
            ThreadBusy: another turn of this thread runs
            ValueError: an option cannot be used
        """
        options = options_of(TurnOptions, locals())
        self._conversation.check_free()
        turn = self._core.call(self._conversation.start(input, options, keeps_events=True))
        return TurnStream(self._core, AsyncTurnStream(self._conversation, turn, is_own=True))

    def turn(
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
    ) -> TurnHandle:
        """Start a turn and return a handle on it, to read, steer or interrupt it while it runs.

        Args:
            input: a text, an input item, or a list of them
            others: as for `run`

        Raises:
            ThreadBusy: another turn of this thread runs
            ValueError: an option cannot be used
        """
        options = options_of(TurnOptions, locals())
        self._conversation.check_free()
        turn = self._core.call(self._conversation.start(input, options, keeps_events=True))
        return TurnHandle(self._core, AsyncTurnHandle(self._conversation, turn))

    def read(self, *, include_turns: bool = False) -> ThreadRecord:
        """The record of the thread, with its turns if they are asked for."""
        return self._core.call(self._core.read_open(self._conversation, include_turns=include_turns))

    def fork(self, *, at: str | int | None = None) -> Thread:
        """A new thread that begins with a copy of this one, with the same options.

        Args:
            at: the id of the last turn to keep, a response id, or the number of turns to keep; None keeps all
        """
        return Thread(self._core, self._core.call(self._core.fork_open(self._conversation, at)))

    def rollback(self, n: int) -> None:
        """Forget the last `n` turns. Files stay as they are."""
        self._core.call(self._conversation.rollback(n))

    def undo(
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
        """Take back what the last turns did to files, by patch or by command, and to the conversation.

        Args:
            turns: how many; the last one when nothing is said
            to: the id of a turn: everything from it on, instead of a number
            files: put files back
            conversation: forget the turns; without this the model is told which files went back
            keep_mine: leave files that somebody else has changed, and restore the rest
            dry_run: change nothing, and say what would be changed
            redo: put back what the last undo took, until the next turn begins

        Nothing to undo is a report with the status `nothing`.

        Raises:
            UndoConflict: somebody else has changed the files; nothing was changed, and `.report` names them
            ThreadBusy: a turn of this thread runs
        """
        op = undo_op(turns, to, files=files, conversation=conversation, keep_mine=keep_mine, dry_run=dry_run, redo=redo)
        return self._core.call(self._conversation.undo(op))

    def compact(self, instructions: str | None = None) -> None:
        """Replace what was said so far with a summary; `instructions` say what it must keep."""
        self._core.call(self._conversation.compact(instructions))

    def set_name(self, text: str) -> None:
        """Give the thread a name to find it by."""
        self._core.call(self._conversation.set_name(text))

    def pin(self, text: str) -> None:
        """Keep a fact, word for word, through every compaction."""
        self._core.call(self._conversation.pin(text))

    def archive(self) -> None:
        """Close the thread and move its record out of the list. `thread_unarchive` brings it back."""
        self._core.call(self._core.archive(self.id))

    def close(self) -> None:
        """Interrupt what runs and let go of the record. The client does it too when it is closed."""
        if not self._conversation.is_closed and not self._core.is_inherited:
            self._core.call(self._core.close_thread(self._conversation))

    def __enter__(self) -> Thread:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class TurnHandle(BoundToProcess):
    """A turn that was started. Made by `Thread.turn`."""

    def __init__(self, core: ClientCore, inner: AsyncTurnHandle) -> None:
        self._core = core
        self._inner = inner
        self._stream = TurnStream(core, inner.stream())

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}{' done' if self.done else ''}>"

    @property
    def id(self) -> str:
        """The id of the turn."""
        return self._inner.id

    @property
    def thread_id(self) -> str:
        """The id of its thread."""
        return self._inner.thread_id

    @property
    def done(self) -> bool:
        """Whether the turn is over."""
        return self._inner.done

    def stream(self) -> TurnStream:
        """The events of the turn, from its beginning. There is one stream: what was read is not read again.

        Leaving a loop over it does not stop the turn; `interrupt` does.
        """
        return self._stream

    def run(self) -> TurnResult:
        """Wait for the result; asked again, it is the same one. Raises what `Thread.run` raises."""
        if self.done:
            return self._inner.outcome()
        return self._core.call(self._inner.run())

    def steer(self, input: Input) -> None:
        """Add to the running turn; the model reads it with its next request."""
        self._core.call(self._inner.steer(input))

    def interrupt(self) -> None:
        """Stop the turn and wait until that is recorded. Its status is then `interrupted`."""
        self._core.call(self._inner.interrupt())


class TurnStream(BoundToProcess, Iterator[Event]):
    """The events of one turn. Made by `Thread.stream` and `TurnHandle.stream`."""

    def __init__(self, core: ClientCore, inner: AsyncTurnStream) -> None:
        self._core = core
        self._inner = inner
        self._ready: list[Event] = []
        self._reading = threading.Lock()
        """Several threads may read at once; each event goes to one of them."""

    @property
    def result(self) -> TurnResult:
        """The result of the turn, once it is over."""
        return self._inner.result

    def __iter__(self) -> Iterator[Event]:
        return _Loop(self) if self._inner.is_own else self

    def __next__(self) -> Event:
        with self._reading:
            if not self._ready:
                self._ready = self._read()[::-1]
            if not self._ready:
                raise StopIteration
            return self._ready.pop()

    def _read(self) -> list[Event]:
        try:
            return self._core.call(self._inner.next_events())
        except ThreadClosed:
            if not self._inner.is_over or self._core.is_inherited:
                raise
            return self._inner.last_events()
        except KeyboardInterrupt:
            if self._inner.is_own:
                self.abandon()  # it may have come when there was nothing left to wait for
            raise

    def __del__(self) -> None:
        if self._inner.is_own and not self._inner.is_over:
            self.abandon()

    def close(self) -> None:
        """Interrupt the turn, unless it is over, and wait for its end."""
        self._ready = []
        if not self._inner.is_over:
            self._core.call(self._inner.close())

    def __enter__(self) -> TurnStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def abandon(self) -> None:
        """Interrupt the turn; wait for its end unless that cannot be done here."""
        try:
            self.close()
        except ThreadClosed:  # closing the thread has ended the turn; in a forked child it was never ours
            pass
        except RuntimeError:  # on the loop's own thread, or when the program ends
            self._inner.abandon()


class _Loop(Iterator[Event]):
    """One `for` over a stream. When the loop is left early it goes away, and the turn with it."""

    def __init__(self, stream: TurnStream) -> None:
        self._stream = stream
        self._is_over = False

    def __next__(self) -> Event:
        try:
            return next(self._stream)
        except StopIteration:
            self._is_over = True
            raise

    def __del__(self) -> None:
        if not self._is_over:
            self._stream.abandon()
