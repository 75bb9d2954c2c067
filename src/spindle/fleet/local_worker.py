"""The worker process of the local engine: `spindle fleet worker`, started by a driver with a socket as stdin.

It ends with its driver. The end of the socket says that the driver is gone; attempts are stopped and their workspaces
removed, and should that take too long, a thread of its own ends the process.
"""

from __future__ import annotations

import asyncio
import os
import platform
import resource
import select
import signal
import socket
import threading
import time

from spindle import __version__
from spindle.errors import SpindleError, UsageError
from spindle.fleet.exchange import Asking, Lease, Refusal, Spent
from spindle.fleet.local_wire import (
    BEAT_S,
    LINE_BYTES,
    STOP_S,
    Ask,
    Beat,
    Begin,
    GiveBack,
    Halt,
    Hello,
    Settle,
    ToDriver,
    Unable,
    line,
    to_worker,
)
from spindle.fleet.worker import AttemptBench, Worker


def run() -> int:
    """Work until the driver says so, or is gone."""
    try:
        # Commands inherit stdin; so the socket goes where they do not see it.
        channel = socket.socket(fileno=os.dup(0))
        channel.getpeername()
    except OSError:
        raise UsageError("`spindle fleet worker` is started by `spindle fleet run`, and by nobody else") from None
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
    pipe = _Pipe(writer)
    begin = await _next(reader)
    if not isinstance(begin, Begin):
        return
    _allow_files(begin.per_worker)
    try:
        bench = await asyncio.to_thread(AttemptBench, begin.terms)
    except (SpindleError, OSError) as error:
        pipe.say(Unable(reason=str(error)))
        await writer.drain()
        return
    worker = Worker(bench, pipe, pipe.say)
    pipe.say(Hello(pid=os.getpid(), spindle=__version__, python=platform.python_version()))
    beating = asyncio.create_task(_beat(pipe))
    try:
        while (message := await _next(reader)) is not None and not isinstance(message, Halt):
            if isinstance(message, Lease | Refusal):
                pipe.answered(message)
            elif not isinstance(message, Begin):
                worker.take(message)
    finally:
        beating.cancel()
        try:
            await asyncio.wait_for(worker.stop(), STOP_S)
            await asyncio.wait_for(writer.drain(), 1.0)
        except (TimeoutError, OSError):
            pass


def _allow_files(attempts: int) -> None:
    """Each attempt has a few files and connections open, and the usual limit is made for one of them."""
    needed = 128 + 24 * attempts
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, allowed), hard))


async def _next(reader: asyncio.StreamReader):
    try:
        text = await reader.readuntil(b"\n")
    except (asyncio.IncompleteReadError, OSError):
        return None
    return to_worker.decode(text)


async def _beat(pipe: _Pipe) -> None:
    while True:
        await asyncio.sleep(BEAT_S)
        pipe.say(Beat())


class _Pipe:
    """What the worker says, and its line to the governor."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._asked: dict[int, asyncio.Future[Lease | Refusal]] = {}
        self._count = 0

    def say(self, message: ToDriver) -> None:
        self._writer.write(line(message))

    async def lease(self, asking: Asking) -> Lease | Refusal:
        self._count += 1
        number = self._count
        self._asked[number] = asyncio.get_running_loop().create_future()
        self.say(Ask(number=number, asking=asking))
        return await self._asked[number]

    def answered(self, answer: Lease | Refusal) -> None:
        waiting = self._asked.pop(answer.number, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    def settle(self, number: int, asked_tokens: int, spent: Spent) -> None:
        self.say(Settle(number=number, asked_tokens=asked_tokens, spent=spent))

    def give_back(self, number: int, count: int) -> None:
        self.say(GiveBack(number=number, count=count))
