"""A worker as an actor of a Ray cluster. Nothing here imports Ray: the engine makes an actor of the class.

The driver reads what the worker says as one stream, numbered, so that a connection that was away for a moment goes on
where it was. What the driver says comes in calls. Attempts are tasks of the actor's event loop, as in any other worker.

On a cluster that is not the driver's own, a worker outlives its driver for a while. Its attempts go on until they want
to ask their model, for which they need leave, and what has ended is kept. A driver that resumes the run takes all that
over (`take_over`); when none comes, the worker ends.
"""

from __future__ import annotations

import asyncio
import os
import platform
import threading
from collections import deque
from collections.abc import AsyncIterator

import msgspec

from spindle import __version__
from spindle.errors import SpindleError
from spindle.fleet.book import open_plain
from spindle.fleet.driver_line import DriverLine
from spindle.fleet.exchange import Lease, Refusal, Terms
from spindle.fleet.worker import AttemptBench, Worker, allow_files
from spindle.fleet.worker_messages import (
    BEAT_S,
    STOP_S,
    Beat,
    Begin,
    Halt,
    Hello,
    Orphan,
    Present,
    Settle,
    ToDriver,
    Unable,
    line,
    to_driver,
    to_worker,
)

CHUNK_BYTES = 1 << 20
BEGIN_S = 120.0
EMPTY_S = 6 * BEAT_S
"""How long a worker that has nothing to keep waits for a driver that was heard before."""


class RayWorker:
    """One worker, in a process of its own on some node."""

    def __init__(self, terms: bytes) -> None:
        begin = to_worker.decode(terms)
        assert isinstance(begin, Begin)
        self._begin = begin
        self._worker: Worker | None = None
        self._line = DriverLine(self._say)
        self._said: deque[tuple[int, bytes]] = deque()
        """What the driver has not confirmed yet."""
        self._count = 0
        self._news = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._is_over = False
        self._heard_s = 0.0
        """When the driver said something last."""
        self._drivers = 1
        """How many there were so far."""
        # A driver that dies between two calls leaves an actor that nobody knows of.
        self._unbegun = threading.Timer(BEGIN_S, os._exit, (0,))
        self._unbegun.daemon = True
        self._unbegun.start()

    async def begin(self) -> bytes:
        """Get ready to work; gives the first message."""
        self._unbegun.cancel()
        allow_files(self._begin.per_worker)
        try:
            bench = await asyncio.to_thread(AttemptBench, _here(self._begin.terms))
        except (SpindleError, OSError) as error:
            return line(Unable(reason=str(error)))
        self._worker = Worker(bench, self._line, self._say)
        self._heard_s = _now()
        self._tasks += [asyncio.create_task(work) for work in (self._beat(), self._end_without_driver())]
        return line(_hello())

    async def terms(self) -> bytes:
        """What it was begun with."""
        return line(self._begin)

    async def take_over(self, heard: int) -> bytes:
        """Another driver is there, and knows what was spent up to this word. It is told the rest again: what was spent
        since, what waits for leave, and what has ended."""
        if self._worker is None:
            return line(Unable(reason="its driver was gone before it was ready"))
        self._drivers += 1
        self._heard_s = _now()
        unheard = [to_driver.decode(said) for number, said in self._said if number > heard]
        self._said.clear()
        for message in unheard:
            if isinstance(message, Settle):
                self._say(message)
        self._line.ask_again()
        for over in self._worker.kept:
            self._say(over)
        held = self._worker.held
        return line(Orphan(hello=_hello(), begin=self._begin, node=os.uname().nodename, held=held))

    async def hear(self, said: bytes) -> None:
        """What the driver says."""
        self._heard_s = _now()
        message = to_worker.decode(said)
        if isinstance(message, Lease | Refusal):
            self._line.answered(message)
        elif isinstance(message, Halt):
            await self._halt()
        elif not isinstance(message, Begin | Present) and self._worker is not None:
            self._worker.take(message)

    async def words(self, after: int) -> AsyncIterator[tuple[int, bytes]]:
        """What the worker says from now on, and what it said before that did not arrive: numbers above `after`."""
        while self._said and self._said[0][0] <= after:
            self._said.popleft()
        told, driver = after, self._drivers
        while driver == self._drivers:
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
        if isinstance(message, Settle):
            word = f"{self._begin.name}:{self._count}"
            message = msgspec.structs.replace(message, spent=msgspec.structs.replace(message.spent, word=word))
        self._said.append((self._count, line(message)))
        self._news.set()

    async def _halt(self) -> None:
        for task in self._tasks:
            if task is not asyncio.current_task():
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

    async def _end_without_driver(self) -> None:
        """End the process when nobody has come for long enough: nobody else would."""
        patience_s = self._begin.terms.orphan_ttl_s
        if not patience_s:
            return  # Ray ends it with its driver
        while True:
            has_something = self._worker is not None and self._worker.held
            limit_s = patience_s if has_something else min(patience_s, EMPTY_S)
            if (silence_s := _now() - self._heard_s) > limit_s:
                break
            await asyncio.sleep(min(limit_s - silence_s + 0.01, BEAT_S))
        await self._halt()
        os._exit(0)


def _hello() -> Hello:
    return Hello(pid=os.getpid(), spindle=__version__, python=platform.python_version())


def _now() -> float:
    return asyncio.get_running_loop().time()


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
