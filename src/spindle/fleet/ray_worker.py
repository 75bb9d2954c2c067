"""A worker as an actor of a Ray cluster. Nothing here imports Ray: the engine makes an actor of the class.

The driver reads what the worker says as one stream, numbered, so that a connection that was away for a moment goes on
where it was. What the driver says comes in calls. Attempts are tasks of the actor's event loop, as in any other worker.
"""

from __future__ import annotations

import asyncio
import os
import platform
from collections import deque
from collections.abc import AsyncIterator

import msgspec

from spindle import __version__
from spindle.errors import SpindleError
from spindle.fleet.book import open_plain
from spindle.fleet.driver_line import DriverLine
from spindle.fleet.exchange import Lease, Refusal, Terms
from spindle.fleet.worker import AttemptBench, Worker, allow_files
from spindle.fleet.worker_messages import BEAT_S, STOP_S, Beat, Begin, Halt, Hello, ToDriver, Unable, line, to_worker

CHUNK_BYTES = 1 << 20


class RayWorker:
    """One worker, in a process of its own on some node."""

    def __init__(self, terms: bytes) -> None:
        self._begin = to_worker.decode(terms)
        self._worker: Worker | None = None
        self._line = DriverLine(self._say)
        self._said: deque[tuple[int, bytes]] = deque()
        """What the driver has not confirmed yet."""
        self._count = 0
        self._news = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._is_over = False

    async def begin(self) -> bytes:
        """Get ready to work; gives the first message."""
        assert isinstance(self._begin, Begin)
        allow_files(self._begin.per_worker)
        try:
            bench = await asyncio.to_thread(AttemptBench, _here(self._begin.terms))
        except (SpindleError, OSError) as error:
            return line(Unable(reason=str(error)))
        self._worker = Worker(bench, self._line, self._say)
        self._tasks.append(asyncio.create_task(self._beat()))
        return line(Hello(pid=os.getpid(), spindle=__version__, python=platform.python_version()))

    async def hear(self, said: bytes) -> None:
        """What the driver says."""
        message = to_worker.decode(said)
        if isinstance(message, Lease | Refusal):
            self._line.answered(message)
        elif isinstance(message, Halt):
            await self._halt()
        elif not isinstance(message, Begin) and self._worker is not None:
            self._worker.take(message)

    async def words(self, after: int) -> AsyncIterator[tuple[int, bytes]]:
        """What the worker says from now on, and what it said before that did not arrive: numbers above `after`."""
        while self._said and self._said[0][0] <= after:
            self._said.popleft()
        told = after
        while True:
            self._news.clear()
            for number, said in [entry for entry in self._said if entry[0] > told]:
                yield number, said
                told = number
            if self._is_over and (not self._said or self._said[-1][0] <= told):
                return
            await self._news.wait()

    async def confirm(self, number: int) -> None:
        """All messages up to this one have arrived."""
        while self._said and self._said[0][0] <= number:
            self._said.popleft()

    async def file(self, folder: str, name: str) -> AsyncIterator[bytes]:
        """A file of an outcome, in pieces; nothing where there is none."""
        file = open_plain(f"{folder}/{name}")
        if file is None:
            return
        with file:
            while part := await asyncio.to_thread(file.read, CHUNK_BYTES):
                yield part

    def _say(self, message: ToDriver) -> None:
        self._count += 1
        self._said.append((self._count, line(message)))
        self._news.set()

    async def _halt(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._worker is not None:
            try:
                await asyncio.wait_for(self._worker.stop(), STOP_S)
            except TimeoutError:
                pass
        self._is_over = True
        self._news.set()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            self._say(Beat())


def _here(terms: Terms) -> Terms:
    """The terms on this node, whose folders need not be those of the driver's."""
    home, cache = terms.home, terms.cache
    if not os.path.isdir(home):
        home = os.environ.get("CODEX_HOME") or os.path.expanduser("~/.codex")
    try:
        os.makedirs(cache, 0o700, exist_ok=True)
    except OSError:
        cache = f"{os.environ.get('XDG_CACHE_HOME') or os.path.expanduser('~/.cache')}/spindle"
    return msgspec.structs.replace(terms, home=home, cache=cache)
