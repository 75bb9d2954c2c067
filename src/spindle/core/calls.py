"""Runs the tool calls of one response: parallel ones together, exclusive ones alone, patient ones last.

A call is always answered: with the tool's result, with what went wrong, or with "aborted". The answer is recorded the
moment it is known, and only then are front ends told that the call is over: what people saw survives a crash. The
record puts the answers into the order of the calls.
"""

from __future__ import annotations

import asyncio
from functools import partial

from spindle.context.truncate import recorded_limit, truncate_output
from spindle.core.feature import RunCall
from spindle.core.running_turn import RunningTurn
from spindle.core.secrecy import mask_output
from spindle.core.showing import CallEvents
from spindle.errors import SpindleError
from spindle.protocol.events import Warning
from spindle.protocol.items import Item, output_for
from spindle.tools.tool import Tool, ToolCall, ToolResult

ABORT_GRACE_S = 2.0
"""How long a cancelled tool may take to clean up before we stop waiting for it."""

ONE_SHOT_SHELLS = frozenset(("shell", "shell_command", "container.exec", "local_shell"))


class RunningCall:
    """One call and the task that answers it."""

    __slots__ = ("call", "events", "exclusive", "is_recorded", "runs_last", "started", "task")

    def __init__(self, call: ToolCall, events: CallEvents, exclusive: bool, runs_last: bool) -> None:
        self.call = call
        self.events = events
        self.exclusive = exclusive
        self.runs_last = runs_last
        self.started: float | None = None
        self.is_recorded = False
        self.task: asyncio.Task[None]


class CallRunner:
    """The calls of one response, from the first `start` to `finish` or `abort`."""

    def __init__(self, turn: RunningTurn) -> None:
        self._turn = turn
        self._thread = turn.thread
        self._calls: list[RunningCall] = []
        self._all_known = asyncio.Event()
        """The response is over: no more calls will come."""

    def start(self, item: Item) -> None:
        """Begin to answer `item` as soon as the calls before it allow."""
        call, tool = self._thread.tools.resolve(item)
        is_parallel = tool.parallel and self._thread.traits.supports_parallel_tool_calls
        # Two calls with one id can be told apart by their order alone: one is not answered before the other.
        namesakes = [earlier for earlier in self._calls if earlier.call.call_id == call.call_id]
        runs_last = getattr(tool, "runs_last", False) or any(other.runs_last for other in namesakes)
        running = RunningCall(call, CallEvents(self._turn.emit), not is_parallel, runs_last)
        awaited = self._awaited(running, namesakes)
        running.task = asyncio.ensure_future(self._answer(running, tool, awaited))
        self._calls.append(running)

    def _awaited(self, new: RunningCall, namesakes: list[RunningCall]) -> list[asyncio.Task[None]]:
        """What must be over before a call begins; for one that runs last, more may come."""
        if new.runs_last:
            return [earlier.task for earlier in self._calls]
        before = [earlier for earlier in self._calls if not earlier.runs_last]
        if new.exclusive:
            return [earlier.task for earlier in before]
        last_alone = [earlier.task for earlier in before if earlier.exclusive][-1:]
        return last_alone + [other.task for other in namesakes]

    async def _answer(self, running: RunningCall, tool: Tool, awaited: list[asyncio.Task[None]]) -> None:
        """Wait for the calls before it, run it with the features around it, and record what came of it."""
        if running.runs_last:
            await self._all_known.wait()
            awaited = [*awaited, *(other.task for other in self._calls if not other.runs_last)]
        if awaited:
            await asyncio.wait(awaited)
        running.started = self._thread.clock.monotonic()
        turn, call = self._turn, running.call
        try:
            run: RunCall = partial(tool.run, ctx=turn.make_context(call.call_id, running.events.emit))
            # From the inside out: the last in the list is next to the tool. Nothing surrounds what is no tool.
            for feature in reversed(turn.session.features) if tool.name else ():
                if feature.surrounds_calls:
                    run = partial(feature.around_call, turn, run=run)
            result = await run(call)
        except SpindleError as error:
            result = ToolResult(output=str(error))
            running.events.failed(call.call_id, call.name, str(error))
        except Exception as error:
            # A bug of ours must not end the user's turn: the model hears of it and can try another way.
            turn.emit(Warning(message=f"tool {call.name} failed: {type(error).__name__}: {error}"))
            result = ToolResult(output=f"tool {call.name} failed internally: {type(error).__name__}: {error}")
        self._record(running, result)

    async def finish(self) -> None:
        """The response is over: wait until all calls are answered."""
        self._all_known.set()
        if self._calls:
            await asyncio.wait([running.task for running in self._calls])
        self._settle()

    async def abort(self) -> None:
        """Stop what still runs; every call is answered all the same."""
        pending = [running.task for running in self._calls if not running.task.done()]
        for task in pending:
            task.cancel()
        try:
            if pending:
                await asyncio.wait(pending, timeout=ABORT_GRACE_S)
        except asyncio.CancelledError:
            pass  # stopped twice; the first time is already on its way out, and the answers must not get lost
        self._settle()

    def _settle(self) -> None:
        for running in self._calls:
            self._record(running, self._aborted(running))
        self._thread.history.settle_calls()
        self._calls = []

    def _record(self, running: RunningCall, result: ToolResult) -> None:
        """Record the answer, then let people know; nothing when the call has one."""
        if running.is_recorded:
            return
        running.is_recorded = True
        # Secrets go whole, before the output is cut, or a part of one would come through.
        output = mask_output(result.output, secrets=self._thread.secrets)
        answer = output_for(running.call.item, truncate_output(output, *self._most_recorded()))
        self._thread.history.append_result(answer, result.follow_up)
        running.events.recorded()

    def _most_recorded(self) -> tuple[str, int]:
        """Whatever a tool returned, the record takes little more than what the model's policy allows."""
        truncation = self._thread.truncation
        return truncation.mode, recorded_limit(truncation.limit)

    def _aborted(self, running: RunningCall) -> ToolResult:
        elapsed = 0.0 if running.started is None else self._thread.clock.monotonic() - running.started
        seconds = f"{max(0.1, elapsed):.1f}"
        if running.call.name in ONE_SHOT_SHELLS:
            return ToolResult(output=f"Wall time: {seconds} seconds\naborted by user")
        return ToolResult(output=f"aborted by user after {seconds}s")
