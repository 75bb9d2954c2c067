"""Workers as actors of a Ray cluster: one that runs already, or one of our own on this machine.

Ray carries; it decides nothing. Its own retries and restarts are off, because it repeats silently and forgets
everything with the driver. This is the only module that imports Ray, and it does so after the environment says
that the cluster is to ask for a token: Ray looks at that once, when it is imported.
"""

from __future__ import annotations

import asyncio
import os
import platform
import secrets
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import MutableMapping
from importlib.util import find_spec
from typing import Any

import msgspec

from spindle import __version__
from spindle.errors import UsageError
from spindle.fleet.driver_folder import Arrived, DriverFolder
from spindle.fleet.engine import Answers, EngineFailed, Event, Lost, Release, Spec, Worker, WorkerGone
from spindle.fleet.exchange import FILE_BYTES, FILES
from spindle.fleet.ray_worker import RayWorker
from spindle.fleet.voice import Voice
from spindle.fleet.worker import Over
from spindle.fleet.worker_messages import (
    BEAT_S,
    Begin,
    Halt,
    Hello,
    Orphan,
    Present,
    ToWorker,
    Unable,
    line,
    to_driver,
    to_worker,
)
from spindle.fleet.worker_table import WorkerTable
from spindle.protocol.quote import visible

INSTALL = "pip install 'spindle[fleet]'"
START_S = 90.0
AWAY_S = 30.0
"""How long a worker that does not answer may be away before it counts as lost."""
SILENCE_S = 24 * BEAT_S
TAKE_OVER_S = 15.0
"""How long a worker that outlived its driver may take to answer the next one."""
CONFIRM_EVERY = 64
OBJECT_STORE_BYTES = 80 << 20
"""The least that Ray takes: records are small, and files come in pieces."""
_JOIN_S = 10.0
_PROBE = """
import sys
from ray._raylet import GcsClient
from ray.exceptions import AuthenticationError
try:
    GcsClient(address=sys.argv[1]).internal_kv_get(b"spindle", None, timeout=5)
except AuthenticationError:
    sys.exit(3)
except Exception as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""
"""Whether a cluster lets in somebody without a token. In a process of its own: Ray reads the mode once."""


class Node(msgspec.Struct, frozen=True):
    """A machine of the cluster."""

    id: str
    name: str


class RayCluster:
    """The cluster that the run works on. Whoever joins it leaves it; what we started, we end."""

    def __init__(self, ray: Any, *, is_ours: bool) -> None:
        self.ray = ray
        self.is_ours = is_ours
        """It goes with the driver, and so does every worker."""
        self.handles: dict[str, Any] = {}
        """The actors of this driver, by the names of the workers."""

    @classmethod
    def join(cls, address: str, env: MutableMapping[str, str], *, insecure: bool) -> RayCluster:
        """Raises UsageError when there is none, or it lets in anybody."""
        _quiet(env)
        if not insecure:
            _require_token(address, env)
        ray = _import_ray()
        try:
            _init(ray, address=address)
        except Exception as error:  # Ray has no common kind for "there is no cluster"
            raise UsageError(f"there is no Ray cluster to work on at {visible(address)}: {_first(error)}") from error
        return cls(ray, is_ours=False)

    @classmethod
    def start(cls, folder: DriverFolder, env: MutableMapping[str, str]) -> RayCluster:
        """A cluster of our own on this machine, closed to everybody else. Raises EngineFailed."""
        _quiet(env)
        env["RAY_AUTH_MODE"], env["RAY_AUTH_TOKEN_PATH"] = "token", folder.make_token()
        for name in ("RAY_AUTH_TOKEN", "RAY_ADDRESS"):
            env.pop(name, None)
        ray, place = _import_ray(), folder.make_ray_folder(env)
        try:
            _init(
                ray,
                address="local",
                include_dashboard=False,
                object_store_memory=OBJECT_STORE_BYTES,
                _temp_dir=place,
            )
        except Exception as error:  # Ray has no common kind for what goes wrong
            raise EngineFailed(f"Ray cannot be started on this machine: {_first(error)}") from error
        return cls(ray, is_ours=True)

    def nodes(self) -> list[Node]:
        """Those that are alive."""
        return [Node(node["NodeID"], node["NodeManagerHostname"]) for node in self.ray.nodes() if node["Alive"]]

    def orphans(self, run: str) -> list[Any]:
        """Workers of this run whose driver is gone."""
        names = [] if self.is_ours else self.ray.util.list_named_actors()
        found: list[Any] = []
        for name in names:
            if name.startswith(f"{run}-"):
                try:
                    found.append(self.ray.get_actor(name))
                except ValueError:
                    continue  # it has just ended
        return found

    def end_workers(self) -> None:
        """Those of this driver; at once."""
        for handle in self.handles.values():
            self.ray.kill(handle)

    def leave(self) -> None:
        """Ends what we started, and nothing else."""
        self.end_workers()
        self.ray.shutdown()


def _quiet(env: MutableMapping[str, str]) -> None:
    env["RAY_USAGE_STATS_ENABLED"] = "0"


def check_installed() -> None:
    """Raises UsageError. Nothing of Ray is loaded yet: its environment is not ready."""
    if find_spec("ray") is None:
        raise UsageError(f"--engine ray needs Ray, which is not installed here: {INSTALL}")


def _import_ray() -> Any:
    try:
        import ray  # an extra
        import ray._private.worker  # likewise
    except ImportError as error:
        raise UsageError(f"--engine ray needs Ray, which is not installed here: {INSTALL}") from error
    # Ray writes of every worker that dies on our stdout, where events are; we tell it ourselves.
    ray._private.worker.print_to_stdstream = lambda *words, **more: None
    return ray


def _init(ray: Any, **how: Any) -> None:
    """On the main thread, whose end is the end of what it starts; SIGTERM stays with us."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(namespace="spindle-fleet", log_to_driver=False, configure_logging=False, **how)
    finally:
        signal.signal(signal.SIGTERM, before)


def _require_token(address: str, env: MutableMapping[str, str]) -> None:
    """Turn away a cluster on which anybody who reaches it runs code."""
    bare = {name: value for name, value in env.items() if not name.startswith("RAY_AUTH")}
    try:
        found = subprocess.run(
            [sys.executable, "-P", "-c", _PROBE, address],
            env={**bare, "RAY_AUTH_MODE": "disabled"},
            capture_output=True,
            text=True,
            timeout=_JOIN_S,
        )
    except subprocess.TimeoutExpired:
        raise UsageError(f"no Ray cluster answers at {visible(address)}") from None
    if found.returncode == 0:
        raise UsageError(
            f"the Ray cluster at {visible(address)} asks for no token, so whoever reaches it runs code there; start it "
            "with RAY_AUTH_MODE=token, or say --insecure-cluster"
        )
    if "ModuleNotFoundError" in found.stderr or "ImportError" in found.stderr:
        raise UsageError(f"--engine ray needs Ray, which is not installed here: {INSTALL}")
    if found.returncode != 3:
        raise UsageError(f"no Ray cluster answers at {visible(address)}: {visible(_last(found.stderr))}")
    env.setdefault("RAY_AUTH_MODE", "token")


def _first(error: BaseException) -> str:
    return visible(str(error).strip().partition("\n")[0])


def _last(text: str) -> str:
    return text.strip().rpartition("\n")[2]


class RayEngine(WorkerTable["_Actor"]):
    """The actors, and what they say."""

    def __init__(self, cluster: RayCluster, folder: DriverFolder, answers: Answers) -> None:
        super().__init__()
        self._cluster = cluster
        self._folder = folder
        self._answers = answers
        self._in_vain: Counter[str] = Counter()
        """How often no worker could be started on a node: a dead one counts as alive for a while."""

    async def start(self, spec: Spec, count: int) -> list[Worker]:
        is_first, self._cache = self._cache is None, spec.terms.cache
        ready = await self._take_over(spec) if is_first else []
        made = [self._new() for _ in range(count - sum(not worker.is_outdated for worker in ready))]
        try:
            return [*ready, *await asyncio.gather(*(actor.begin(spec) for actor in made))]
        except BaseException as error:
            self._in_vain.update(actor.node.id for actor in made if not actor.has_begun)
            await asyncio.gather(*(self.stop(actor.name) for actor in made))
            if ready and isinstance(error, WorkerGone):
                return ready
            raise

    async def _take_over(self, spec: Spec) -> list[Worker]:
        """The workers that have outlived the driver before this one."""
        found: list[Worker] = []
        for handle in self._cluster.orphans(spec.run):
            orphan = await _found(self._cluster.ray, handle, spec)
            if orphan is None:
                self._cluster.ray.kill(handle)
                continue
            name = orphan.begin.name.split("-")[1]
            self._count = max(self._count, int(name[1:]))
            actor = self._actor(name, Node(orphan.begin.node_id, orphan.node))
            found.append(actor.go_on(handle, orphan, spec))
        return found

    def _new(self) -> _Actor:
        """An actor on the node that has the fewest of ours, among those where the last ones could be started."""
        nodes = self._cluster.nodes()
        if not nodes:
            raise EngineFailed("no node of the Ray cluster is alive")
        load = [actor.node.id for actor in self._workers.values()]
        return self._actor(
            self._next_name(),
            min(nodes, key=lambda node: (self._in_vain[node.id], load.count(node.id), nodes.index(node))),
        )

    def _actor(self, name: str, node: Node) -> _Actor:
        actor = _Actor(name, node, self._cluster, self._events, self._answers, self._folder)
        self._workers[name] = actor
        return actor


async def _found(ray: Any, handle: Any, spec: Spec) -> Orphan | None:
    """What a worker of an earlier driver says; None where it cannot go on."""
    try:
        begin = to_worker.decode(await asyncio.wait_for(handle.terms.remote(), TAKE_OVER_S))
        assert isinstance(begin, Begin)
        said = await asyncio.wait_for(handle.take_over.remote(spec.heard.get(begin.name, 0)), TAKE_OVER_S)
        orphan = to_driver.decode(said)
    except (ray.exceptions.RayError, TimeoutError, msgspec.DecodeError):
        return None
    is_ours = isinstance(orphan, Orphan) and orphan.hello.spindle == __version__
    return orphan if is_ours and isinstance(orphan, Orphan) else None


class _Actor:
    """One worker."""

    def __init__(
        self,
        name: str,
        node: Node,
        cluster: RayCluster,
        events: asyncio.Queue[Event],
        answers: Answers,
        folder: DriverFolder,
    ) -> None:
        self.name = name
        self.node = node
        self._cluster = cluster
        self._ray = cluster.ray
        self._events = events
        self._answers = answers
        self._voice = Voice(name, events, answers, self.say, self._on_over)
        self._fetching: set[asyncio.Task[None]] = set()
        self._folder = folder
        self._handle: Any = None
        self._listening: asyncio.Task[None] | None = None
        self._others: list[asyncio.Task[None]] = []
        self._to_say: asyncio.Queue[bytes] = asyncio.Queue()
        self._heard_s = 0.0
        self._is_ending = False
        self._pid = 0
        self.has_begun = False

    async def begin(self, spec: Spec) -> Worker:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # Ray is loaded by now

        place = NodeAffinitySchedulingStrategy(self.node.id, soft=False)
        full_name = f"{spec.run}-{self.name}-{secrets.token_hex(4)}"
        goes_with_us = self._cluster.is_ours or not spec.terms.orphan_ttl_s
        outlives = {} if goes_with_us else {"lifetime": "detached", "name": full_name}
        make = self._ray.remote(RayWorker).options(
            # Beside its calls for files and words: an actor of Ray counts each as one of its tasks.
            max_concurrency=spec.per_worker + 16,
            num_cpus=0.01,
            max_restarts=0,
            max_task_retries=0,
            scheduling_strategy=place,
            **outlives,
        )
        self._handle = self._cluster.handles[self.name] = make.remote(line(_begin(spec, full_name, self.node.id)))
        try:
            hello = to_driver.decode(await asyncio.wait_for(self._handle.begin.remote(), START_S))
        except TimeoutError:
            raise EngineFailed(f"a worker on node {self.node.name} did not start within {START_S:.0f} s") from None
        except self._ray.exceptions.RayError as error:
            raise WorkerGone(f"a worker cannot be started on node {self.node.name}: {_first(error)}") from error
        if isinstance(hello, Unable):
            raise EngineFailed(f"a worker cannot be started on node {self.node.name}: {hello.reason}")
        assert isinstance(hello, Hello)
        self._check_versions(hello)
        return self._attend(hello, spec, 0)

    def go_on(self, handle: Any, orphan: Orphan, spec: Spec) -> Worker:
        """Take the place of the driver that a worker had."""
        self._handle = self._cluster.handles[self.name] = handle
        worker = self._attend(orphan.hello, spec, spec.heard.get(orphan.begin.name, 0))
        now = _begin(spec, orphan.begin.name, orphan.begin.node_id)
        return msgspec.structs.replace(worker, held=frozenset(orphan.held), is_outdated=orphan.begin != now)

    def _attend(self, hello: Hello, spec: Spec, heard: int) -> Worker:
        self._pid = hello.pid
        self.has_begun = True
        self._heard_s = _now()
        self._listening = asyncio.create_task(self._listen(heard))
        self._others = [asyncio.create_task(work) for work in (self._say_all(), self._be_present(spec))]
        return Worker(name=self.name, pid=hello.pid, node=self.node.name)

    def _check_versions(self, hello: Hello) -> None:
        for what, theirs, ours in (
            ("Spindle", hello.spindle, __version__),
            ("Python", hello.python, platform.python_version()),
        ):
            if theirs != ours:
                raise EngineFailed(
                    f"node {self.node.name} has {what} {theirs}, and the driver {ours}; install the same"
                )

    def say(self, message: ToWorker) -> None:
        self._to_say.put_nowait(line(message))

    async def _say_all(self) -> None:
        """In order, one after the other: what is said of an attempt comes after the attempt."""
        while True:
            said = await self._to_say.get()
            try:
                await self._handle.hear.remote(said)
            except self._ray.exceptions.RayError:
                return  # whoever listens finds out, too

    async def _be_present(self, spec: Spec) -> None:
        while True:
            await asyncio.sleep(min(BEAT_S, spec.terms.orphan_ttl_s / 4 or BEAT_S))
            self.say(Present())

    async def _listen(self, told: int) -> None:
        """Hear the worker until it is gone for good."""
        away_since = None
        while True:
            try:
                async for word in self._handle.words.options(num_returns="streaming").remote(told):
                    number, said = await asyncio.wait_for(_value(word), SILENCE_S)
                    told, away_since, self._heard_s = number, None, _now()
                    self._voice.hear(to_driver.decode(said))
                    if number % CONFIRM_EVERY == 0:
                        self._handle.confirm.remote(number)
                reason = "its actor ended"
            except self._ray.exceptions.ActorUnavailableError as error:
                away_since = away_since or _now()
                if _now() - away_since < AWAY_S and self._is_node_alive():
                    await asyncio.sleep(0.5)
                    continue
                reason = _first(error)
            except (self._ray.exceptions.RayError, TimeoutError) as error:
                reason = _first(error) or f"it said nothing for {SILENCE_S:.0f} s"
            if not self._is_ending:
                self._lost(reason)
            return

    def _is_node_alive(self) -> bool:
        return any(node["NodeID"] == self.node.id and node["Alive"] for node in self._ray.nodes())

    def _lost(self, reason: str) -> None:
        self._is_ending = True
        self._close()
        self._events.put_nowait(Lost(worker=self.name, reason=f"on node {self.node.name}: {reason}"))

    async def end(self, patience_s: float) -> None:
        self._is_ending = True
        if self._listening is not None and patience_s > 0:
            self.say(Halt())
            await asyncio.wait([self._listening], timeout=patience_s)
            if self._fetching:
                await asyncio.wait(self._fetching, timeout=patience_s)
        self._close()

    def _close(self) -> None:
        for task in (self._listening, *self._others, *self._fetching):
            if task is not None and task is not asyncio.current_task():
                task.cancel()
        self._voice.close()
        if self._handle is not None:
            self._ray.kill(self._handle)
            self._cluster.handles.pop(self.name, None)
        if self.has_begun and self.node.name == os.uname().nodename:
            _kill_worker(self._pid)
        self._answers.forget(self.name)

    # ---- files -------------------------------------------------------------------------------------------------------

    def _on_over(self, over: Over) -> None:
        task = asyncio.create_task(self._fetch_all(over))
        self._fetching.add(task)
        task.add_done_callback(self._fetching.discard)

    async def _fetch_all(self, over: Over) -> None:
        """An attempt counts as ended when its files are here: a node that dies before has lost it."""
        theirs = over.outcome.folder
        files = Arrived(None)
        if theirs is not None:
            ours = self._folder.new_arrival()
            os.mkdir(ours)
            # The worker keeps its own until the record is written: another driver may have to ask for them again.
            files = Arrived(ours, lambda: self.say(Release(folder=theirs)))
            try:
                for name in FILES:
                    await self._fetch(theirs, name, ours)
            except self._ray.exceptions.RayError:
                return  # whoever listens finds out, too
        self._voice.ended(over, files)

    async def _fetch(self, folder: str, name: str, into: str) -> None:
        """A byte more than is kept tells that a file was longer."""
        left = FILE_BYTES + 1
        async for piece in self._handle.file.options(num_returns="streaming").remote(folder, name):
            data = (await piece)[:left]
            left -= len(data)
            await asyncio.to_thread(_append, f"{into}/{name}", data)
            if not left:
                return


def _begin(spec: Spec, name: str, node_id: str) -> Begin:
    return Begin(terms=spec.terms, per_worker=spec.per_worker, name=name, node_id=node_id)


def _kill_worker(pid: int) -> None:
    """End a worker of this machine: where its node is gone Ray does not, and it notices only after a while."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            is_ours = file.read().startswith(b"ray::RayWorker")
        if is_ours:
            os.kill(pid, signal.SIGKILL)
    except OSError:
        pass  # it is gone, or this system does not tell


def _append(path: str, data: bytes) -> None:
    with open(path, "ab") as file:
        file.write(data)


async def _value(ref: Any) -> Any:
    return await ref


def _now() -> float:
    return asyncio.get_running_loop().time()
