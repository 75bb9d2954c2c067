"""Worker processes on this machine, each at the other end of a socket.

A worker that dies closes its socket, and so is lost at once. A driver that dies closes all of them, and its workers end
by themselves. No secret goes through the socket or stands in an argument: a worker finds credentials on its own.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys

from spindle import __version__
from spindle.fleet.driver_folder import Arrived, DriverFolder
from spindle.fleet.engine import Answers, EngineFailed, Event, Lost, Release, Spec, Worker, WorkerGone
from spindle.fleet.voice import Voice
from spindle.fleet.worker import Over
from spindle.fleet.worker_messages import (
    BEAT_S,
    LINE_BYTES,
    Begin,
    Halt,
    Hello,
    ToDriver,
    ToWorker,
    Unable,
    line,
    to_driver,
)
from spindle.fleet.worker_table import WorkerTable
from spindle.protocol.quote import visible

START_S = 60.0
SILENCE_S = 24 * BEAT_S
"""A worker that says nothing for so long is stuck."""
_LAST_WORDS = 2000


class LocalEngine(WorkerTable["_Process"]):
    """The processes, and what they say."""

    def __init__(self, folder: DriverFolder, answers: Answers) -> None:
        super().__init__()
        self._folder = folder
        self._answers = answers

    async def start(self, spec: Spec, count: int) -> list[Worker]:
        self._cache = spec.terms.cache
        started = [self._new() for _ in range(count)]
        try:
            await asyncio.gather(*(process.begin(spec) for process in started))
            return [await process.ready for process in started]
        except BaseException:
            for process in started:
                await self.stop(process.name)
            raise

    def _new(self) -> _Process:
        process = _Process(self._next_name(), self._folder, self._events, self._answers)
        self._workers[process.name] = process
        return process


class _Process:
    """One worker process."""

    def __init__(self, name: str, folder: DriverFolder, events: asyncio.Queue[Event], answers: Answers) -> None:
        self.name = name
        self._folder = folder
        self._node = os.uname().nodename
        self._events = events
        self._answers = answers
        self.ready: asyncio.Future[Worker] = asyncio.get_running_loop().create_future()
        self.ready.add_done_callback(lambda ready: ready.cancelled() or ready.exception())  # nobody may wait for it
        self._process: asyncio.subprocess.Process | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._voice = Voice(name, events, answers, self.say, self._on_over)
        self._last_words = b""
        self._heard_s = 0.0
        self._is_ending = False

    async def begin(self, spec: Spec) -> None:
        ours, theirs = socket.socketpair()
        try:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "spindle", "fleet", "worker"),
                stdin=theirs.fileno(),
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                cwd="/",
                # Ctrl-C goes to the driver alone, which says what becomes of attempts.
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            raise EngineFailed(f"{sys.executable} cannot be started: {error.strerror}") from error
        finally:
            theirs.close()
        reader, self._writer = await asyncio.open_unix_connection(sock=ours, limit=LINE_BYTES)
        self.say(Begin(terms=spec.terms, per_worker=spec.per_worker))
        self._heard_s = _now()
        assert self._process.stderr is not None
        self._tasks = [
            asyncio.create_task(self._listen(reader)),
            asyncio.create_task(self._keep_last_words(self._process.stderr)),
            asyncio.create_task(self._watch()),
        ]

    def say(self, message: ToWorker) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(line(message))

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                message = to_driver.decode(await reader.readuntil(b"\n"))
                self._heard_s = _now()
                self._hear(message)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError, ValueError):
            pass  # it is gone, or says what no worker of ours says
        if not self._is_ending:
            await self._lost()

    def _hear(self, message: ToDriver) -> None:
        match message:
            case Hello():
                if message.spindle != __version__:
                    self._refuse(f"the worker is version {message.spindle}, and this is {__version__}")
                elif not self.ready.done():
                    self.ready.set_result(Worker(name=self.name, pid=message.pid, node=self._node))
            case Unable():
                self._refuse(message.reason)
            case _:
                self._voice.hear(message)

    def _on_over(self, over: Over) -> None:
        """An attempt counts as ended when its files are ours; else it is lost, with the worker that made them."""
        theirs, ours = over.outcome.folder, None
        if theirs is not None:
            ours = self._folder.claim(theirs, over.outcome.files)
            if ours is None:
                if self._process is not None and self._process.returncode is None:
                    self._process.kill()
                return
            self.say(Release(folder=theirs))
        self._voice.ended(over, Arrived(ours))

    def _refuse(self, reason: str, kind: type[EngineFailed] = EngineFailed) -> None:
        if not self.ready.done():
            self.ready.set_exception(kind(f"a worker cannot be started: {reason}"))

    async def _lost(self) -> None:
        """Its end of the socket is closed: nothing more can come of it."""
        self._is_ending = True
        code = await self._kill()
        said = visible(self._last_words.decode("utf-8", "replace").strip().rpartition("\n")[2])
        reason = f"its process {_death(code)}" + (f" (it last said: {said})" if said else "")
        self._refuse(reason, WorkerGone)
        self._close()
        self._answers.forget(self.name)
        self._events.put_nowait(Lost(worker=self.name, reason=reason))

    async def end(self, patience_s: float) -> None:
        self._is_ending = True
        self._refuse("the run is over")
        self.say(Halt())
        process = self._process
        if process is not None and patience_s > 0:
            try:
                await asyncio.wait_for(process.wait(), patience_s)
                await asyncio.wait_for(asyncio.wait(self._tasks[:1]), 1.0)
            except TimeoutError:
                pass
        await self._kill()
        self._close()
        self._answers.forget(self.name)

    async def _kill(self) -> int | None:
        process = self._process
        if process is None:
            return None
        if process.returncode is None:
            try:
                await asyncio.wait_for(process.wait(), 0.2)
            except TimeoutError:
                process.kill()
        return await process.wait()

    def _close(self) -> None:
        self._voice.close()
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()
        if self._writer is not None:
            self._writer.close()

    async def _keep_last_words(self, stderr: asyncio.StreamReader) -> None:
        while data := await stderr.read(4096):
            self._last_words = (self._last_words + data)[-_LAST_WORDS:]

    async def _watch(self) -> None:
        """End a worker that does not start, or that is stuck."""
        while True:
            await asyncio.sleep(1.0)
            silence = _now() - self._heard_s
            if silence > (SILENCE_S if self.ready.done() else START_S) and self._process is not None:
                self._last_words += f"\nnothing for {silence:.0f} s".encode()
                self._process.kill()
                return


def _now() -> float:
    return asyncio.get_running_loop().time()


def _death(code: int | None) -> str:
    if code == -signal.SIGKILL:
        return "was killed, as systems do when there is no memory left"
    if code is not None and code < 0:
        return f"ended with signal {-code}"
    return f"ended with code {code}"
