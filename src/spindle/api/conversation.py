"""One open thread behind the Python API: starts turns, keeps one at a time, and does what is asked between them.

`AsyncThread` and `Thread` are two faces of it. All of it runs on the event loop that opened the thread.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

import msgspec

from spindle.api.budgets import budget_limits
from spindle.api.door import OpenThread
from spindle.api.inputs import Input, input_items
from spindle.api.options import ThreadOptions, TurnOptions, thread_name
from spindle.api.people import People
from spindle.api.running import ApprovalResolvedNote, Ears, OutputFormat, TurnRun
from spindle.api.shown import TurnResult, UndoReport
from spindle.config.schema import Config
from spindle.errors import SpindleError, ThreadBusy, ThreadClosed, ThreadError, UndoConflict
from spindle.protocol.clock import Clock
from spindle.protocol.ops import (
    Compact,
    Interrupt,
    Op,
    OverrideTurnContext,
    Pin,
    SetThreadName,
    ThreadRollback,
    Undo,
    UserTurn,
)
from spindle.protocol.settings import EFFORTS
from spindle.protocol.undo import UndoCompleted


class Conversation:
    """A live thread, and the turn that runs in it."""

    def __init__(self, door: OpenThread, config: Config, options: ThreadOptions, clock: Clock) -> None:
        self.door = door
        self.config = config
        self.options = options
        self.name = door.name
        self.is_closed = False
        self._clock = clock
        self._ears = Ears()
        self._next_number = 0
        self._loop = asyncio.get_running_loop()
        self._closing: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._people: People | None = None

    def begin(self) -> None:
        """Let it work. What the options say beyond the configuration is handed in first."""
        self._people = self._ears.answering = People(
            self.door,
            self.options.on_approval,
            self.options.on_question,
            stop=self.stop_with,
            resolved=self._resolved,
        )
        self.door.listen(self._ears)
        self.door.begin()
        if self.options.mode is not None:
            self.door.submit(OverrideTurnContext(collaboration_mode={"mode": self.options.mode}))
        if self.options.name is not None:
            self.name = self.options.name
            if not self.options.ephemeral:
                self.door.submit(SetThreadName(name=self.options.name))

    def stop_with(self, error: BaseException) -> None:
        """Stop the turn that runs; whoever waits for its result gets this error."""
        if self.turn is not None:
            self.turn.abort(error)
        else:
            self.door.submit(Interrupt())  # a sub-agent may work on after its turn

    def _resolved(self, call_id: str, decision: str) -> None:
        if self.turn is not None:
            self.turn.note(ApprovalResolvedNote(call_id=call_id, decision=decision))

    @property
    def turn(self) -> TurnRun | None:
        """The turn that runs."""
        return self._ears.turn

    @property
    def is_recorded(self) -> bool:
        """Is there a file of it? Not while nothing was said, and never of an ephemeral one."""
        return self.door.path is not None and os.path.exists(self.door.path)

    def check_open(self) -> None:
        """Raise ThreadClosed unless it is open."""
        if self.is_closed or self.door.has_ended:
            raise ThreadClosed(f"thread {self.door.id} was closed")

    def check_free(self) -> None:
        """Raise ThreadClosed or ThreadBusy unless something new can begin."""
        self.check_open()
        if self.turn is not None and not self.turn.is_abandoned:
            raise ThreadBusy(f"a turn of thread {self.door.id} runs; wait for it, interrupt it, or steer it")

    @property
    def _is_at_home(self) -> bool:
        """Does the caller run on the event loop that opened the thread? On another one it would wait for ever."""
        return asyncio.get_running_loop() is self._loop

    async def _become_free(self) -> None:
        if not self._is_at_home:
            raise ThreadClosed(
                f"thread {self.door.id} was opened on another event loop, and can be used only there; "
                "use one loop for a client, or Spindle, which works with any"
            )
        self.check_free()
        while (turn := self.turn) is not None:
            await turn.ended.wait()
            self.check_free()

    def options_now(self) -> ThreadOptions:
        """What a copy of the thread is opened with: its options, and the settings that turns have changed since."""
        settings, asks = self.door.settings, self.options.on_approval is not None
        is_new_sandbox = settings.sandbox.mode != self.config.sandbox.mode
        return msgspec.structs.replace(
            self.options,
            name=None,
            cwd=settings.cwd,
            mode=self.options.mode or "default",
            model=settings.model,
            effort=settings.effort if settings.effort in EFFORTS else self.options.effort,
            summary=settings.summary,
            personality=settings.personality,
            sandbox=settings.sandbox.mode if is_new_sandbox else self.options.sandbox,
            # A granular one is the configuration's own, and holds there too.
            approval_policy=(
                settings.approval_policy if asks and settings.granular is None else self.options.approval_policy
            ),
        )

    # ---- turns ---------------------------------------------------------------------------------

    def check(self, given: Input, options: TurnOptions) -> None:
        """Raise what `start` would raise now."""
        input_items(given, options.checked().images)
        _output_format(options)
        self.check_free()

    async def start(self, given: Input, options: TurnOptions, *, keeps_events: bool) -> TurnRun:
        """Begin a turn."""
        options = options.checked()
        items = input_items(given, options.images)
        output = _output_format(options)
        await self._become_free()
        schema = options.output_schema if output is None else output.schema
        limits = budget_limits(options.budget)
        op = UserTurn(items=items, final_output_json_schema=schema, budget=limits, **self._changes(options))
        try:
            self.door.check(op)
        except SpindleError as error:
            raise ValueError(str(error)) from error
        turn = self._new_turn(keeps_events=keeps_events)
        turn.begin(op, timeout_s=options.timeout, output=output, retries=options.output_retries)
        return turn

    def _new_turn(self, *, keeps_events: bool = False) -> TurnRun:
        turn = TurnRun(self.door, self._clock, self._next_number, self.door.new_id(), keeps_events=keeps_events)
        turn.on_end = self._turn_ended
        self._ears.begin(turn)
        return turn

    def _turn_ended(self, turn: TurnRun) -> None:
        self._next_number = turn.items.next_number
        self._ears.turn = None

    def _changes(self, options: TurnOptions) -> dict[str, Any]:
        """The settings that a turn changes, most of them for later turns too."""
        given: dict[str, Any] = {
            "cwd": options.cwd,
            "model": options.model,
            "summary": options.summary,
            "personality": options.personality,
            "sandbox_policy": self._sandbox(options.sandbox),
        }
        if options.effort is not None:
            given["effort"] = options.effort
        if options.approval_policy is not None and self.options.on_approval is not None:
            allowed = self.config.allowed_approval_policies
            if allowed is not None and options.approval_policy not in allowed:
                raise ValueError(f"approval_policy {options.approval_policy!r} is not allowed by the administrator")
            given["approval_policy"] = options.approval_policy
        # A mode is for one turn: the next one is in the thread's own again.
        mode = options.mode or self.options.mode or "default"
        if mode != self.door.settings.collaboration_mode.mode:
            given["collaboration_mode"] = {"mode": mode}
        return {name: value for name, value in given.items() if value is not None}

    def _sandbox(self, mode: str | None) -> dict[str, Any] | str | None:
        if mode is None:
            return None
        allowed = self.config.allowed_sandbox_modes
        if allowed is not None and mode not in allowed:
            raise ValueError(f"sandbox {mode!r} is not allowed by the administrator")
        # What the user configured for the mode comes with it.
        return self.config.workspace_write.to_wire() if mode == "workspace-write" else mode

    async def run(self, given: Input, options: TurnOptions) -> TurnResult:
        """A turn to its end."""
        return await self.wait(await self.start(given, options, keeps_events=False))

    async def wait(self, turn: TurnRun) -> TurnResult:
        """The result of a turn. A cancellation interrupts the turn, and goes on when that is recorded."""
        try:
            await turn.ended.wait()
        except asyncio.CancelledError:
            await self.stop(turn)
            raise
        return turn.outcome()

    async def stop(self, turn: TurnRun) -> None:
        """Interrupt a turn and wait for its end, whatever happens meanwhile."""
        turn.interrupt()
        cancelled = False
        while not turn.ended.is_set():
            try:
                await turn.ended.wait()
            except asyncio.CancelledError:
                cancelled = True  # it is being stopped: only the wait is left
        if cancelled:
            raise asyncio.CancelledError

    def steer(self, turn: TurnRun, given: Input) -> None:
        items = input_items(given)
        self.check_open()
        if turn.ended.is_set():
            raise ThreadError(f"turn {turn.id} is over; start another one")
        turn.steer(items)

    # ---- between turns -------------------------------------------------------------------------

    async def ask(self, op: Op) -> None:
        """Hand in an op that is no turn, and wait until it is done."""
        await self._become_free()
        await self._ears.answer_to(self.door, op)

    async def rollback(self, num_turns: int) -> None:
        if type(num_turns) is not int or num_turns < 1:
            raise ValueError(f"rollback takes a number of turns of 1 or more, not {num_turns!r}")
        from spindle.api.records import inputs_of_last  # only to look back

        await self._become_free()
        # What was steered into a turn belongs to it; the op counts inputs.
        if inputs := inputs_of_last(self.door.records, num_turns):
            await self.ask(ThreadRollback(num_turns=inputs))

    async def undo(self, op: Undo) -> UndoReport:
        await self._become_free()
        answer = await self._ears.answer_to(self.door, op)
        assert isinstance(answer, UndoCompleted)
        report = msgspec.convert(answer.report, UndoReport)
        if report.status == "conflict":
            raise UndoConflict(report.message, report=report)
        return report

    async def set_name(self, text: str) -> None:
        name = thread_name(text)
        self.check_open()
        if not self.options.ephemeral:
            await self._ears.answer_to(self.door, SetThreadName(name=name))
        self.name = name

    async def pin(self, text: str) -> None:
        if not isinstance(text, str) or not text.strip():
            raise ValueError("there is nothing to pin: the text is empty")
        await self.ask(Pin(text=text))

    async def compact(self, instructions: str | None) -> None:
        if not isinstance(instructions, str | None):
            raise ValueError(f"the instructions for a compaction are text, not {instructions!r}")
        await self._become_free()
        turn = self._new_turn()
        turn.begin(Compact(instructions=instructions or None))
        await self.wait(turn)

    # ---- the end -------------------------------------------------------------------------------

    async def close(self) -> None:
        """Stop what runs and let go of everything. Safe to call twice, and from two places at once."""
        if not self._is_at_home:
            self.kill()
            return
        self.is_closed = True
        if self._people is not None:
            self._people.close()
        if self._closing is None:
            self._closing = asyncio.ensure_future(self.door.close())
        await asyncio.shield(self._closing)

    def close_soon(self) -> None:
        """The same for one that nobody can wait for, if its loop still runs."""
        if self._loop.is_running():
            self._loop.call_soon_threadsafe(lambda: self._loop.create_task(self.close()))

    def kill(self) -> None:
        """The same without waiting for anything, where no event loop runs any more."""
        self.is_closed = True
        self.door.kill()


def undo_op(turns: Any, to: Any, **flags: bool) -> Undo:
    """The op for the arguments of `undo`. Raises ValueError."""
    if type(turns) is not int or turns < 1:
        raise ValueError(f"undo takes a number of turns of 1 or more, not {turns!r}")
    if to is not None and (not isinstance(to, str) or turns != 1):
        raise ValueError("`to` is the id of a turn, and is given instead of a number of turns")
    if not flags["files"] and not flags["conversation"]:
        raise ValueError("with neither files nor conversation there is nothing to undo")
    given = {name: bool(value) for name, value in flags.items()}
    return Undo(turns=None if to is not None or given["redo"] else turns, to=to, **given)


def _output_format(options: TurnOptions) -> OutputFormat | None:
    if options.output_type is None:
        return None
    from spindle.api.outputs import output_format  # only where a type is asked for

    return output_format(options.output_type)
