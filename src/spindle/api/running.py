"""A turn from the op that starts it to its result, and the ears that hear it. All of it on the thread's event loop.

`Ears` hears every event of a thread at the moment it is emitted, so a result does not depend on who reads the events,
or how fast. Those who want to read them get a backlog of their own, in which waiting deltas are merged.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from spindle.api.door import OpenThread
from spindle.api.shown import AgentMessage, Item, Plan, TurnError, TurnResult, Usage, shown_item
from spindle.api.thread_items import ThreadItems
from spindle.core.stream import Subscription
from spindle.errors import BudgetExceeded, OutputInvalid, SpindleError, TurnFailed, TurnTimeout, kind_of
from spindle.protocol.clock import Clock
from spindle.protocol.events import (
    AgentMessageContentDelta,
    Error,
    Event,
    ExecCommandOutputDelta,
    Msg,
    PatchApplyEnd,
    SessionConfigured,
    TaskComplete,
    TaskStarted,
    TurnAborted,
    TurnDiff,
    Warning,
)
from spindle.protocol.ops import Interrupt, Op, UserInput, UserTurn
from spindle.protocol.outside import Outside
from spindle.protocol.request import TokenUsage
from spindle.protocol.settings import BudgetLimits

_KEPT_BETWEEN_TURNS = (SessionConfigured, Warning)
_MAX_KEPT = 100
_WITHOUT_ITEMS = (AgentMessageContentDelta, ExecCommandOutputDelta)


class OutputFormat(Protocol):
    """What the answer of a turn must be."""

    @property
    def schema(self) -> dict[str, Any]: ...

    def read(self, text: str | None) -> Any:
        """The answer as what was asked for. Raises OutputInvalid."""
        ...


class Answering(Protocol):
    """Answers what a turn asks: approvals, questions of the model, calls of tools that the program brought along."""

    def asked(self, event: Event) -> None:
        """Called for every event at the moment it is emitted; answers come as ops."""
        ...


class ApprovalResolvedNote(Msg, frozen=True, kw_only=True, tag="approval_resolved"):
    """`on_approval` has answered. No event of the session: for those who read the turn's events here."""

    outside = Outside(words=("call_id",))
    call_id: str
    decision: str


class TurnRun:
    """One turn. It may have several turns of the session behind it: what was steered in at the last moment, or an
    answer that did not fit its type and is asked for again, goes on in another one."""

    def __init__(self, door: OpenThread, clock: Clock, first_number: int, turn_id: str, *, keeps_events: bool) -> None:
        self.id = turn_id
        self.first_number = first_number
        self.items = ThreadItems(first_number)
        self.reader: Subscription | None = Subscription(()) if keeps_events else None
        self.ended = asyncio.Event()
        self.result: TurnResult | None = None
        self.error: BaseException | None = None
        """What whoever waits for the result gets instead of it."""
        self.is_abandoned = False
        """Whoever read its events went away: it ends by itself, and the next turn waits for that."""
        self._door = door
        self._clock = clock
        self._submissions = {turn_id}
        self._has_begun = False
        self._steers = 0
        self._held: Event | None = None
        """The end of the turn, while it is not certain that it is the end."""
        self._checking: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._completed: list[Item] = []
        self._failure: TurnError | None = None
        self._failure_info: Any = None
        self._usage_before = door.usage
        self._started_at = clock.now()
        self._started = clock.monotonic()
        self._diff: TurnDiff | None = None
        self._touched: dict[str, str | None] = {}
        """Paths that patches named, and where those files were moved to."""
        self._format: OutputFormat | None = None
        self._retries = 0
        self._budget: BudgetLimits | None = None
        self._timeout_s = 0.0
        self.on_end: Callable[[TurnRun], None] = lambda run: None

    @property
    def is_failed(self) -> bool:
        """Did it fail in a way that its last event says?"""
        return isinstance(self.error, TurnFailed) and not isinstance(self.error, TurnTimeout)

    # ---- driving it ----------------------------------------------------------------------------

    def begin(
        self, op: Op, *, timeout_s: float | None = None, output: OutputFormat | None = None, retries: int = 0
    ) -> None:
        """Hand in the op that starts it."""
        self._format, self._retries = output, retries
        self._budget = op.budget if isinstance(op, UserTurn) else None
        if timeout_s is not None:
            self._timeout_s = timeout_s
            self._timer = asyncio.get_running_loop().call_later(timeout_s, self._time_out)
        self._door.submit(op, self.id)

    def steer(self, items: list[dict[str, Any]]) -> None:
        self._steers += 1
        self._submissions.add(self._door.submit(UserInput(items=items, mode="steer")))

    def interrupt(self) -> None:
        if not self.ended.is_set():
            self._door.submit(Interrupt())

    def abort(self, error: BaseException) -> None:
        """Stop it; whoever waits for its result gets this error."""
        if self.error is None:
            self.error = error
        self.interrupt()

    def lose(self) -> None:
        """The session has ended in the middle of it."""
        if not self.ended.is_set():
            self._end("interrupted")

    def _time_out(self) -> None:
        self.abort(TurnTimeout(f"the turn took longer than {self._timeout_s:g} seconds and was interrupted"))

    def note(self, msg: Msg) -> None:
        """Show readers something that is no event of the session."""
        if self.reader is not None:
            self.reader.push(Event(self.id, msg))

    # ---- hearing it ----------------------------------------------------------------------------

    def hear(self, event: Event) -> None:
        """Take one event of the session. A bug of ours must not leave anybody waiting for the end of the turn."""
        try:
            self._hear(event)
        except Exception as error:
            if self.error is None:
                self.error = SpindleError(f"internal error: {type(error).__name__}: {error}")
            if isinstance(event.msg, TaskComplete | TurnAborted) and not self.ended.is_set():
                self._completed, self._diff, self._touched = [], None, {}
                self._end("failed")

    def _hear(self, event: Event) -> None:
        msg = event.msg
        if isinstance(msg, _WITHOUT_ITEMS):
            self._pass_on(event)
            return
        match msg:
            case TaskStarted():
                self._has_begun = True
                self._held = None
            case TaskComplete() | TurnAborted():
                self._turn_ended(event)
                return
            case Error() if event.id in self._submissions:
                if not self._has_begun and not self._door.is_running:
                    self.error = ValueError(msg.message)
                    self._end("failed")
                    return
                budget = msg.budget if isinstance(msg.budget, dict) else None
                self._failure = TurnError(message=msg.message, info=kind_of(msg.codex_error_info), budget=budget)
                self._failure_info = msg.codex_error_info
            case TurnDiff():
                self._diff = msg
            case PatchApplyEnd(changes=changes):
                self._touched |= {path: change.get("move_path") for path, change in changes.items()}
            case _:
                pass
        self._take_items(msg)
        self._pass_on(event)

    def _take_items(self, msg: Msg) -> None:
        for step, item in self.items.steps(msg):
            if step == "item.completed":
                self._completed.append(shown_item(item))

    def _pass_on(self, event: Event) -> None:
        if self.reader is not None:
            self.reader.push(event)

    def _turn_ended(self, event: Event) -> None:
        is_aborted = isinstance(event.msg, TurnAborted)
        if not is_aborted and (self._asks_again() or self._steers):
            self._held = event
            self._checking = asyncio.ensure_future(self._check_end())
            return
        self._finish(event)

    def _asks_again(self) -> bool:
        """Does the answer have to be asked for again because it does not fit? Then that has been done."""
        if self._format is None or self._failure is not None or not self._retries:
            return False
        try:
            self._format.read(self._final_response())
        except OutputInvalid as error:
            self._retries -= 1
            text = f"Your answer cannot be used: {error}. Answer again, with nothing but JSON that fits the schema."
            items, schema = [{"type": "text", "text": text}], self._format.schema
            # The very same budget: what was used counts on.
            op = UserTurn(items=items, final_output_json_schema=schema, budget=self._budget)
            self._submissions.add(self._door.submit(op))
            return True
        return False

    async def _check_end(self) -> None:
        """See whether another turn follows that belongs to this one."""
        await self._door.settle()
        self._steers = 0
        if self._held is None or self._door.is_running:
            self._held, self._failure = None, None
        else:
            self._finish(self._held)

    def _finish(self, event: Event) -> None:
        self._held = None
        self._take_items(event.msg)
        self._pass_on(event)
        if isinstance(event.msg, TurnAborted):
            self._end("interrupted")
        elif self._failure is not None:
            self._end("failed")
        else:
            response_id = event.msg.response_id if isinstance(event.msg, TaskComplete) else None
            self._end("completed", response_id)

    # ---- the end -------------------------------------------------------------------------------

    def _end(self, status: Any, response_id: str | None = None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        output = None
        if status == "completed" and self._format is not None:
            try:
                output = self._format.read(self._final_response())
            except OutputInvalid as error:
                self.error = self.error or error
        self.result = result = TurnResult(
            thread_id=self._door.id,
            turn_id=self.id,
            status=status,
            error=self._failure if status == "failed" else None,
            final_response=self._final_response(),
            output=output,
            plan=next((item.text for item in reversed(self._completed) if isinstance(item, Plan)), None),
            items=self._completed,
            changes=self._changes(),
            usage=self.usage,
            thread_usage=_usage(self._door.usage),
            response_id=response_id,
            started_at=self._started_at,
            completed_at=self._clock.now(),
            duration_ms=round((self._clock.monotonic() - self._started) * 1000),
        )
        if self.error is None and self._failure is not None and status == "failed":
            self.error = _turn_failed(self._failure, self._failure_info, result)
        elif self.error is not None and getattr(self.error, "result", result) is None:
            self.error.result = result  # pyright: ignore[reportAttributeAccessIssue]
        self.on_end(self)
        self.ended.set()
        if self.reader is not None:
            self.reader.close()

    def _final_response(self) -> str | None:
        for item in reversed(self._completed):
            if isinstance(item, AgentMessage) and item.phase != "commentary":
                return item.text
        return None

    @property
    def usage(self) -> Usage:
        """What it has cost so far."""
        now, before = _usage(self._door.usage), _usage(self._usage_before)
        return Usage(**{name: getattr(now, name) - getattr(before, name) for name in Usage.__struct_fields__})

    def _changes(self) -> list[Any]:
        if self._diff is None:
            return []
        from spindle.api.changes import net_changes  # only turns that change files

        settings = self._door.settings
        return net_changes(self._diff.unified_diff, self._touched, settings.cwd, settings.sandbox.writable_roots)

    def outcome(self) -> TurnResult:
        """The result of a turn that has ended; what went wrong is raised, the same each time."""
        assert self.result is not None
        if self.error is not None:
            raise self.error
        return self.result


def _turn_failed(failure: TurnError, info: Any, result: TurnResult) -> TurnFailed:
    if failure.budget is not None:
        return BudgetExceeded(failure.message, result=result, info=info, budget=failure.budget)
    return TurnFailed(failure.message, result=result, info=info)


def _usage(counts: TokenUsage) -> Usage:
    return Usage(**{name: getattr(counts, name) for name in Usage.__struct_fields__})


class Ears(Subscription):
    """Hears every event of one thread at once and tells whom it concerns; keeps no events itself but what the next
    turn's reader should know."""

    def __init__(self) -> None:
        super().__init__(())
        self.turn: TurnRun | None = None
        self.answering: Answering | None = None
        self._answers: dict[str, asyncio.Future[Msg]] = {}
        self._between: deque[Event] = deque(maxlen=_MAX_KEPT)

    def push(self, event: Event) -> None:
        if self.answering is not None:
            self.answering.asked(event)
        is_answer = event.id in self._answers and not getattr(event.msg, "announces", False)
        if is_answer and not (answer := self._answers.pop(event.id)).done():
            answer.set_result(event.msg)
        if self.turn is not None:
            self.turn.hear(event)
        elif isinstance(event.msg, _KEPT_BETWEEN_TURNS):
            self._between.append(event)

    def close(self) -> None:
        """No more events come. A turn that has not ended by now never will."""
        super().close()
        if self.turn is not None:
            self.turn.lose()

    def begin(self, turn: TurnRun) -> None:
        """From now on events belong to this turn; it is told what was kept for it."""
        self.turn = turn
        kept, self._between = self._between, deque(maxlen=_MAX_KEPT)
        for event in kept:
            turn.hear(event)

    async def answer_to(self, door: OpenThread, op: Op) -> Msg:
        """Hand in an op and wait for the first event under its id; an error is raised."""
        future: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()
        sub_id = door.new_id()
        self._answers[sub_id] = future
        door.submit(op, sub_id)
        # An op that a closing session no longer deals with is never answered.
        settled = asyncio.ensure_future(door.settle())
        await asyncio.wait([future, settled], return_when=asyncio.FIRST_COMPLETED)
        settled.cancel()
        self._answers.pop(sub_id, None)
        if not future.done():
            raise SpindleError("the thread was closed before this was done")
        msg = future.result()
        if isinstance(msg, Error):
            raise SpindleError(msg.message)
        return msg
