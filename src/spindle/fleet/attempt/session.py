"""The turn of an attempt: a session as `exec` opens it, in the attempt's own home and workspace."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from spindle.api.door import OpenThread, SessionRequest, open_thread
from spindle.api.inputs import input_items
from spindle.config.schema import Config
from spindle.core.stream import Subscription
from spindle.errors import ErrorInfo
from spindle.fleet.attempt.toll import Toll
from spindle.fleet.exchange import FILE_BYTES
from spindle.protocol.clock import Clock
from spindle.protocol.events import (
    AgentMessageContentDelta,
    Error,
    Event,
    ExecCommandOutputDelta,
    Msg,
    ReasoningContentDelta,
    TaskComplete,
    TurnAborted,
)
from spindle.protocol.items import encode_json
from spindle.protocol.ops import Interrupt, UserTurn
from spindle.protocol.settings import BudgetLimits

_UNTOLD: tuple[type[Msg], ...] = (AgentMessageContentDelta, ReasoningContentDelta, ExecCommandOutputDelta)
_BATCH_BYTES = 64 * 1024
_CUT = b'{"cut":true}\n'


class TurnRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of the agent, and on which terms."""

    prompt: str
    images: list[str] = []
    schema: dict[str, Any] | None = None
    budget: BudgetLimits = BudgetLimits()
    timeout_s: float
    events: str
    """The file that tells what happened."""


class TurnResult(msgspec.Struct, frozen=True, kw_only=True):
    """How the turn ended."""

    thread_id: str
    model: str
    rollout: str | None
    final_message: str | None = None
    error: str | None = None
    info: ErrorInfo | None = None
    timed_out: bool = False
    duration_s: float


async def run_turn(request: TurnRequest, config: Config, toll: Toll, clock: Clock) -> TurnResult:
    """One turn of a new thread. Nobody is asked. Raises SpindleError when there can be no such thread, ValueError for
    pictures that are none. Whatever happens, nothing runs on."""
    items = input_items(request.prompt, request.images)
    thread = await open_thread(
        SessionRequest(
            config=config,
            source="exec",
            originator="codex_exec",
            is_attended=False,
            budget=request.budget or None,
            gate=toll,
            clock=clock,
        )
    )
    events = _EventFile(request.events)
    started = clock.monotonic()
    reader = thread.subscribe(skip=_UNTOLD)
    thread.begin()
    heard = _Heard()
    try:
        thread.submit(UserTurn(items=items, final_output_json_schema=request.schema))
        try:
            async with toll.deadline.within(request.timeout_s):
                await _follow(reader, heard, events)
        except TimeoutError:
            heard.timed_out = True
            thread.submit(Interrupt(), "")
    finally:
        await _close(thread)
        events.close()
    return TurnResult(
        thread_id=thread.id,
        model=thread.settings.model,
        rollout=thread.path,
        final_message=heard.final_message,
        error=None if heard.error is None else heard.error.message,
        info=None if heard.error is None else heard.error.codex_error_info,
        timed_out=heard.timed_out,
        duration_s=clock.monotonic() - started,
    )


class _Heard:
    def __init__(self) -> None:
        self.final_message: str | None = None
        self.error: Error | None = None
        self.timed_out = False


async def _follow(reader: Subscription, heard: _Heard, events: _EventFile) -> None:
    async for event in reader:
        events.add(event)
        match event.msg:
            case Error():
                heard.error = event.msg
            case TaskComplete():
                heard.final_message = event.msg.last_agent_message
                return
            case TurnAborted():
                heard.error = heard.error or Error(message=f"the turn was {event.msg.reason}")
                return
            case _:
                pass
    heard.error = heard.error or Error(message="the thread ended before its turn did")


async def _close(thread: OpenThread) -> None:
    """Whoever cancels us a second time while we wait has no time: what runs is killed, and we go."""
    try:
        await thread.close()
    except asyncio.CancelledError:
        thread.kill()
        raise


class _EventFile:
    """Events as JSON lines. Nothing is open between two batches: a worker holds a thousand of these."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lines: list[bytes] = []
        self._waiting = 0
        self._written = 0
        self._is_full = False

    def add(self, event: Event) -> None:
        if self._is_full:
            return
        line = encode_json(event) + b"\n"
        if self._written + self._waiting + len(line) + len(_CUT) > FILE_BYTES:
            self._is_full, line = True, _CUT
        self._lines.append(line)
        self._waiting += len(line)
        if self._waiting >= _BATCH_BYTES:
            self.close()

    def close(self) -> None:
        if not self._lines:
            return
        with open(self._path, "ab") as file:
            file.writelines(self._lines)
        self._written += self._waiting
        self._lines.clear()
        self._waiting = 0
