"""`spindle proto`: ops in on stdin, events out on stdout, one JSON object per line. A codec and little else."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from spindle.api.door import OpenThread, SessionRequest, open_thread
from spindle.config.schema import Config
from spindle.core.stream import EventStream, Subscription
from spindle.errors import SpindleError
from spindle.frontends.event_lines import event_lines
from spindle.frontends.launch import config_for_op, config_from, warn_of_bypass
from spindle.frontends.options import Parsed
from spindle.frontends.proto.engine import Engine
from spindle.frontends.signals import Signals
from spindle.frontends.standard_streams import LAST_WRITE_S
from spindle.frontends.stdio import Lines, LineTooLong, write_all
from spindle.protocol.ops import BadSubmission, ConfigureSession, Shutdown, Submission, decode_submission

MAX_UNREAD_EVENTS = 1 << 18
"""When this many events wait to be read, no further ops are taken in."""


def run(parsed: Parsed, words: list[str]) -> int:
    if (listen := parsed.value("listen")) is not None:
        from spindle.frontends.proto import listening  # few listen

        return listening.run(parsed, listen)
    config = config_from(parsed)
    warn_of_bypass(parsed)
    return asyncio.run(serve(config, parsed))


def make_engine(load: Callable[[], Config], parsed: Parsed) -> Engine:
    """An engine that opens threads as the command line says; `load` gives the configuration for each of them."""

    async def open_for(op: ConfigureSession, stream: EventStream) -> OpenThread:
        return await open_thread(
            SessionRequest(
                config=config_for_op(load(), op, parsed),
                source="cli",
                originator="codex_cli_rs",
                thread=op.resume_id,
                rollout_path=op.resume_path,
                base_instructions=op.base_instructions,
                user_instructions=op.user_instructions,
                replay=True,
                pursues_goals=True,
                legacy_interrupt_error=parsed.flag("legacy_interrupt_error"),
                stream=stream,
                reload=lambda: config_for_op(config_from(parsed), op, parsed),
                bypass=parsed.flag("dangerously_bypass_approvals_and_sandbox"),
            )
        )

    return Engine(open_for, wait_configure=parsed.flag("wait_configure"))


async def serve(config: Config, parsed: Parsed) -> int:
    """Run one engine over stdio until shutdown or the end of input."""
    engine = make_engine(lambda: config, parsed)
    events = engine.subscribe()
    writer = asyncio.ensure_future(write_events(events))
    actor = asyncio.ensure_future(engine.run())
    reader = asyncio.ensure_future(read_ops(engine, events))
    signals = Signals(lambda: engine.submit(Submission("", Shutdown())))
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
        await take_line(engine, events, line)


async def take_line(engine: Engine, events: Subscription, line: bytes) -> None:
    """Hand in what a line says. Waits while too much is to be done or to be read."""
    if not line.strip():
        return
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
