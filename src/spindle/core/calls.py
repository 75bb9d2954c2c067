"""Runs the tool calls of one response: parallel ones together, exclusive ones alone, outputs in the order of the calls.

A call is always answered: with the tool's result, with what went wrong, or with "aborted".
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from spindle.context.truncate import guard_limit, truncate_output
from spindle.errors import SpindleError
from spindle.protocol.clock import Clock
from spindle.protocol.events import Msg, Warning
from spindle.protocol.items import Item, Part, output_for
from spindle.tools.router import ToolSet
from spindle.tools.tool import Tool, ToolCall, ToolContext, ToolResult, Truncation

AroundCall = Callable[[Tool, ToolCall, ToolContext], Awaitable[ToolResult]]
"""Runs a call, with what must happen before and after it."""

ABORT_GRACE_S = 2.0
"""How long a cancelled tool may take to clean up before we stop waiting for it."""

ONE_SHOT_SHELLS = frozenset(("shell", "shell_command", "container.exec", "local_shell"))


class RunningCall:
    """One call and the task that answers it."""

    __slots__ = ("call", "exclusive", "started", "task")

    def __init__(self, call: ToolCall, task: asyncio.Task[ToolResult], exclusive: bool) -> None:
        self.call = call
        self.task = task
        self.exclusive = exclusive
        self.started: float | None = None


class CallRunner:
    """The calls of one response, from the first `start` to `finish` or `abort`."""

    def __init__(
        self,
        tools: ToolSet,
        make_context: Callable[[str], ToolContext],
        *,
        emit: Callable[[Msg], None],
        clock: Clock,
        truncation: Truncation,
        allow_parallel: bool,
        mask: Callable[[str | list[Part]], str | list[Part]] | None = None,
        around: AroundCall | None = None,
    ) -> None:
        self._tools = tools
        self._make_context = make_context
        self._emit = emit
        self._clock = clock
        self._truncation = truncation
        self._allow_parallel = allow_parallel
        self._mask = mask
        """Takes secrets out of an output; whole, before it is cut, or a part of one would come through."""
        self._around = around or _run
        self._calls: list[RunningCall] = []

    @property
    def is_empty(self) -> bool:
        return not self._calls

    def start(self, item: Item) -> None:
        """Begin to answer `item` as soon as the calls before it allow."""
        call, tool = self._tools.resolve(item)
        exclusive = not (self._allow_parallel and tool.parallel)
        before = [c.task for c in self._calls] if exclusive else [c.task for c in self._calls if c.exclusive][-1:]

        async def answer() -> ToolResult:
            if before:
                await asyncio.wait(before)
            running.started = self._clock.monotonic()
            return await self._around(tool, call, self._make_context(call.call_id))

        running = RunningCall(call, asyncio.ensure_future(answer()), exclusive)
        self._calls.append(running)

    async def finish(self) -> list[Item]:
        """Wait for all calls; their outputs in call order, then the messages some of them want to add."""
        if self._calls:
            await asyncio.wait([c.task for c in self._calls])
        return self._collect(aborted=False)

    async def abort(self) -> list[Item]:
        """Stop what still runs; every call is answered all the same."""
        pending = [c.task for c in self._calls if not c.task.done()]
        for task in pending:
            task.cancel()
        try:
            if pending:
                await asyncio.wait(pending, timeout=ABORT_GRACE_S)
        except asyncio.CancelledError:
            pass  # stopped twice; the first time is already on its way out, and the answers must not get lost
        return self._collect(aborted=True)

    def _collect(self, *, aborted: bool) -> list[Item]:
        outputs: list[Item] = []
        follow_ups: list[Item] = []
        for running in self._calls:
            result = self._aborted(running) if aborted and not _has_result(running.task) else self._result(running)
            output = result.output if self._mask is None else self._mask(result.output)
            outputs.append(output_for(running.call.item, truncate_output(output, *self._guard())))
            follow_ups += result.follow_up
        self._calls = []
        return outputs + follow_ups

    def _guard(self) -> tuple[str, int]:
        """Second guard at insertion: whatever a tool returned, history takes little more than the model's policy."""
        return self._truncation.mode, guard_limit(self._truncation.limit)

    def _result(self, running: RunningCall) -> ToolResult:
        task = running.task
        if task.cancelled():
            return self._aborted(running)
        error = task.exception()
        if error is None:
            return task.result()
        if isinstance(error, SpindleError):
            return ToolResult(output=str(error))
        # A bug of ours must not end the user's turn: the model hears of it and can try another way.
        self._emit(Warning(message=f"tool {running.call.name} failed: {type(error).__name__}: {error}"))
        return ToolResult(output=f"tool {running.call.name} failed internally: {type(error).__name__}: {error}")

    def _aborted(self, running: RunningCall) -> ToolResult:
        elapsed = 0.0 if running.started is None else self._clock.monotonic() - running.started
        seconds = f"{max(0.1, elapsed):.1f}"
        if running.call.name in ONE_SHOT_SHELLS:
            return ToolResult(output=f"Wall time: {seconds} seconds\naborted by user")
        return ToolResult(output=f"aborted by user after {seconds}s")


async def _run(tool: Tool, call: ToolCall, ctx: ToolContext) -> ToolResult:
    return await tool.run(call, ctx)


def _has_result(task: asyncio.Task[ToolResult]) -> bool:
    return task.done() and not task.cancelled()
