"""The worker process of the local engine: `spindle fleet worker`, started by a driver with a socket as stdin.

It ends with its driver. The end of the socket says that the driver is gone; attempts are stopped and their workspaces
removed, and should that take too long, a thread of its own ends the process.
"""

from __future__ import annotations

import asyncio
import os
import platform
import select
import signal
import socket
import threading
import time
from collections.abc import Callable

from spindle import __version__
from spindle.errors import SpindleError, UsageError
from spindle.fleet.driver_line import DriverLine
from spindle.fleet.exchange import Lease, Refusal
from spindle.fleet.worker import AttemptBench, Worker, allow_files
from spindle.fleet.worker_messages import (
    BEAT_S,
    LINE_BYTES,
    STOP_S,
    Beat,
    Begin,
    Halt,
    Hello,
    Present,
    ToDriver,
    Unable,
    line,
    to_worker,
)


def run() -> int:
    """Work until the driver says so, or is gone."""
    try:
        # Commands inherit stdin; so the socket goes where they do not see it.
        channel = socket.socket(fileno=os.dup(0))
        channel.getpeername()
    except OSError:
        raise UsageError("only `spindle fleet run` may start `spindle fleet worker`") from None
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the driver decides what they mean
    threading.Thread(target=_end_with_driver, args=(channel.fileno(),), daemon=True).start()
    asyncio.run(_work(channel))
    return 0


def _end_with_driver(fd: int) -> None:
    """Wait for the end of the driver, then for the process to end by itself."""
    poller = select.poll()
    poller.register(fd, getattr(select, "POLLRDHUP", 0))
    poller.poll()
    time.sleep(STOP_S + 1.0)
    os.kill(os.getpid(), signal.SIGKILL)


async def _work(channel: socket.socket) -> None:
    reader, writer = await asyncio.open_unix_connection(sock=channel, limit=LINE_BYTES)

    def say(message: ToDriver) -> None:
        writer.write(line(message))

    begin = await _next(reader)
    if not isinstance(begin, Begin):
        return
    allow_files(begin.per_worker)
    try:
        bench = await asyncio.to_thread(AttemptBench, begin.terms)
    except (SpindleError, OSError) as error:
        say(Unable(reason=str(error)))
        await writer.drain()
        return
    governor = DriverLine(say)
    worker = Worker(bench, governor, say)
    say(Hello(pid=os.getpid(), spindle=__version__, python=platform.python_version()))
    beating = asyncio.create_task(_beat(say))
    try:
        while (message := await _next(reader)) is not None and not isinstance(message, Halt):
            if isinstance(message, Lease | Refusal):
                governor.answered(message)
            elif not isinstance(message, Begin | Present):
                worker.take(message)
    finally:
        beating.cancel()
        try:
            await asyncio.wait_for(worker.stop(), STOP_S)
            await asyncio.wait_for(writer.drain(), 1.0)
        except (TimeoutError, OSError):
            pass


async def _next(reader: asyncio.StreamReader):
    try:
        text = await reader.readuntil(b"\n")
    except (asyncio.IncompleteReadError, OSError):
        return None
    return to_worker.decode(text)


async def _beat(say: Callable[[ToDriver], None]) -> None:
    while True:
        await asyncio.sleep(BEAT_S)
        say(Beat())
