"""`spindle proto`: ops in on stdin, events out on stdout, one JSON object per line. A codec and little else."""

from __future__ import annotations

import asyncio
import os
import signal

from spindle.api.door import OpenThread, SessionRequest, open_thread
from spindle.config.schema import Config
from spindle.core.stream import EventStream, Subscription
from spindle.errors import SpindleError
from spindle.frontends.launch import config_for_op, config_from, warn_of_bypass
from spindle.frontends.options import Parsed
from spindle.frontends.proto.engine import Engine
from spindle.frontends.standard_streams import LAST_WRITE_S
from spindle.frontends.stdio import Lines, LineTooLong, write_all
from spindle.protocol.events import (
    AgentMessageContentDelta,
    Event,
    ReasoningContentDelta,
    ReasoningRawContentDelta,
    encode_event,
)
from spindle.protocol.items import encode_json
from spindle.protocol.ops import BadSubmission, ConfigureSession, Shutdown, Submission, decode_submission

MAX_UNREAD_EVENTS = 1 << 18
"""When this many events wait to be read, no further ops are taken in."""


def run(parsed: Parsed, words: list[str]) -> int:
    config = config_from(parsed)
    warn_of_bypass(parsed)
    return asyncio.run(serve(config, parsed))


async def serve(config: Config, parsed: Parsed) -> int:
    """Run one engine over stdio until shutdown or the end of input."""

    async def open_for(op: ConfigureSession, stream: EventStream) -> OpenThread:
        return await open_thread(
            SessionRequest(
                config=config_for_op(config, op, parsed),
                source="cli",
                originator="codex_cli_rs",
                thread=op.resume_id,
                rollout_path=op.resume_path,
                base_instructions=op.base_instructions,
                user_instructions=op.user_instructions,
                replay=True,
                legacy_interrupt_error=parsed.flag("legacy_interrupt_error"),
                stream=stream,
                reload=lambda: config_for_op(config_from(parsed), op, parsed),
                bypass=parsed.flag("dangerously_bypass_approvals_and_sandbox"),
            )
        )

    engine = Engine(open_for, wait_configure=parsed.flag("wait_configure"))
    events = engine.subscribe()
    writer = asyncio.ensure_future(write_events(events))
    actor = asyncio.ensure_future(engine.run())
    reader = asyncio.ensure_future(read_ops(engine, events))
    signals = Signals(engine)
    await asyncio.wait([actor, writer, reader], return_when=asyncio.FIRST_COMPLETED)
    # Input has ended, or nobody reads any more: there is nothing left to work for.
    engine.submit(Submission("", Shutdown()))
    await asyncio.wait([actor])
    if signals.caught is not None:
        # Whoever sent the signal does not wait for a reader that does not read.
        await asyncio.wait([writer], timeout=LAST_WRITE_S)
        os._exit(128 + signals.caught)
    await asyncio.wait([writer])
    reader.cancel()
    await asyncio.wait([reader])
    for task in (actor, writer, reader):
        if not task.cancelled():
            task.result()
    return 0


class Signals:
    """SIGTERM and SIGHUP end the engine as a shutdown does; a second one does not wait."""

    def __init__(self, engine: Engine) -> None:
        self.caught: int | None = None
        self._engine = engine
        self._loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            # What was ignored when we were started (nohup) stays ignored.
            if signal.getsignal(number) != signal.SIG_IGN:
                self._loop.add_signal_handler(number, self._stop, number)

    def _stop(self, number: int) -> None:
        self.caught = number
        self._loop.remove_signal_handler(number)
        self._engine.submit(Submission("", Shutdown()))


async def read_ops(engine: Engine, events: Subscription) -> None:
    """Each line of stdin is a submission. Returns at the end of input."""
    lines = Lines()
    while True:
        try:
            line = await lines.next()
        except LineTooLong as error:
            engine.reject("", str(error))
            continue
        except OSError as error:
            raise SpindleError(f"stdin cannot be read: {error.strerror}") from error
        if not line:
            return
        if not line.strip():
            continue
        try:
            engine.submit(decode_submission(line))
        except BadSubmission as error:
            engine.reject(error.id, str(error))
        if engine.is_behind:
            await engine.settle()
        if len(events) > MAX_UNREAD_EVENTS:
            await events.drained()


async def write_events(events: Subscription) -> None:
    """Every event as a line, flushed at once. A reader that stops reading holds up only this task."""
    loop = asyncio.get_running_loop()
    async for event in events:
        batch = [event, *events.take_ready()]
        lines = b"".join(line + b"\n" for ready in batch for line in event_lines(ready))
        try:
            await loop.run_in_executor(None, write_all, lines)
        except BrokenPipeError:
            return
        except OSError as error:
            raise SpindleError(f"stdout cannot be written: {error.strerror}") from error


def event_lines(event: Event) -> list[bytes]:
    """The event's line, and for deltas the twin that older clients read."""
    lines = [encode_event(event)]
    match event.msg:
        case AgentMessageContentDelta(delta=delta):
            lines.append(encode_json({"id": event.id, "msg": {"type": "agent_message_delta", "delta": delta}}))
        case ReasoningContentDelta(delta=delta):
            lines.append(encode_json({"id": event.id, "msg": {"type": "agent_reasoning_delta", "delta": delta}}))
        case ReasoningRawContentDelta(delta=delta):
            twin = {"type": "agent_reasoning_raw_content_delta", "delta": delta}
            lines.append(encode_json({"id": event.id, "msg": twin}))
        case _:
            pass
    return lines
