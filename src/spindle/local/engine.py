"""Runs a model in a child process, for everybody in this process who uses it; supervised from start to end."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import deque
from collections.abc import Mapping
from weakref import WeakKeyDictionary

import msgspec

from spindle.errors import ModelError
from spindle.local.plan import Plan
from spindle.local.serving import LINE_BYTES, Order, Report
from spindle.model.server_words import one_line
from spindle.process.companion import Companion, Companions
from spindle.protocol.clock import Clock

LOAD_S = 600.0
"""Longest time for a model to be loaded, from the slowest of disks."""
_STOP_S = 0.5
_LAST_LINES = 20
_KEPT = frozenset(
    ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PYTHONPATH")
)
_KEPT_BEGINNINGS = ("GGML_", "LLAMA_", "CUDA_", "HIP_", "ROCR_", "VK_", "OMP_")


class Running(msgspec.Struct, frozen=True):
    """Where a model answers."""

    base_url: str
    key: str


class Engine:
    """One model. Started when it is first needed, and again if it has ended; one start at a time."""

    def __init__(self, plan: Plan, clock: Clock) -> None:
        self.plan = plan
        self._companions = Companions(clock)
        self._clock = clock
        self._child: Companion | None = None
        self._pipes: list[asyncio.BaseTransport] = []
        self._running: Running | None = None
        self._said: deque[str] = deque(maxlen=_LAST_LINES)
        self._starting = asyncio.Lock()

    @property
    def is_running(self) -> bool:
        return self._running is not None and self._child is not None and self._child.exit_code is None

    async def ready(self) -> Running:
        """Where it answers, once it does. Raises ModelError with the reason if it cannot be started."""
        async with self._starting:
            if self._running is not None and self.is_running:
                return self._running
            await self._end()
            try:
                self._running = await self._start()
            except BaseException:
                await self._end()
                raise
            return self._running

    async def stop(self) -> None:
        async with self._starting:
            await self._end()
            self._companions.close()

    async def _start(self) -> Running:
        key = f"{self._clock.uuid7()}{self._clock.uuid7()}".replace("-", "")
        argv = (sys.executable, "-P", "-m", "spindle.local.serving")
        try:
            child = self._child = self._companions.start(argv, child_environment(os.environ), "/")
        except OSError as error:
            raise self._failed(f"{argv[0]} cannot be started: {error.strerror or error}") from error
        plan, model = self.plan, self.plan.model
        order = Order(path=model.path, name=model.name, key=key, context=plan.context, threads=plan.threads)
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=LINE_BYTES)
        errors, _ = await loop.connect_read_pipe(lambda: _LastLines(self._said), child.stderr)
        self._pipes.append(errors)
        output, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), child.stdout)
        self._pipes.append(output)
        try:
            child.stdin.write(msgspec.json.encode(order) + b"\n")
            child.stdin.flush()
            line = await asyncio.wait_for(reader.readline(), LOAD_S)
            report = msgspec.json.decode(line, type=Report)
        except TimeoutError:
            raise self._failed(f"it was not loaded within {LOAD_S / 60:.0f} minutes") from None
        except (OSError, ValueError):  # it ended before it said anything
            await child.ends_within(_STOP_S)
            raise self._failed(_death(child.exit_code)) from None
        if report.error:
            raise self._failed(report.error)
        return Running(f"{report.address}/v1", key)

    def _failed(self, reason: str) -> ModelError:
        last = next((line for line in self._said if "error" in line), "") or next(reversed(self._said), "")
        detail = f" (it last said: {last})" if last and last not in reason else ""
        return ModelError(f"the model {self.plan.model.name} could not be started: {one_line(reason)}{detail}")

    async def _end(self) -> None:
        self._running = None
        child, self._child = self._child, None
        if child is None:
            return
        try:
            child.stdin.close()
        except OSError:
            pass  # it is gone already
        await child.stop(_STOP_S)
        for pipe in self._pipes:
            pipe.close()
        self._pipes.clear()


class _LastLines(asyncio.Protocol):
    """Keeps the last lines that the child wrote to stderr."""

    def __init__(self, lines: deque[str]) -> None:
        self._lines = lines
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[:LINE_BYTES]
        self._lines.extend(one_line(line.decode("utf-8", "replace")) for line in lines[-_LAST_LINES:])


def _death(code: int | None) -> str:
    if code == -9:
        return "its process was killed, as systems do when there is no memory left"
    if code is not None and code < 0:
        return f"its process ended with signal {-code}"
    return f"its process ended with code {code}"


def child_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """No key and no token of the user's goes to the child."""
    return {name: value for name, value in environ.items() if name in _KEPT or name.startswith(_KEPT_BEGINNINGS)}


class _Shared:
    """An engine, and how many use it."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.users = 0


_shared: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, int, int], _Shared]] = WeakKeyDictionary()
"""By event loop, since pipes belong to one."""


def borrow(plan: Plan, clock: Clock) -> Engine:
    """The engine for a plan: the one that others use already, if there is one. To be given back."""
    of_loop = _shared.setdefault(asyncio.get_running_loop(), {})
    shared = of_loop.setdefault(_key(plan), _Shared(Engine(plan, clock)))
    shared.users += 1
    return shared.engine


async def give_back(engine: Engine) -> None:
    """Whoever used it last ends it."""
    of_loop = _shared.get(asyncio.get_running_loop(), {})
    shared = of_loop.get(_key(engine.plan))
    if shared is None or shared.engine is not engine:
        return
    shared.users -= 1
    if not shared.users:
        del of_loop[_key(engine.plan)]
        await engine.stop()


def _key(plan: Plan) -> tuple[str, int, int]:
    return plan.model.path, plan.context, plan.threads
