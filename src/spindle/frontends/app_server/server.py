"""The app-server itself: which threads are loaded, who is connected, and the way from a request to its method."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

from spindle.api.resting import RestingThreads
from spindle.config.schema import Config
from spindle.errors import ThreadError, reason_of
from spindle.frontends.app_server.connection import Connection
from spindle.frontends.app_server.loaded import LoadedThread
from spindle.frontends.app_server.logins import Logins
from spindle.frontends.app_server.method import After, Call
from spindle.frontends.app_server.notifications import (
    ConfigWarning,
    DeprecationNotice,
    Note,
    ThreadClosed,
    ThreadStatusChanged,
)
from spindle.frontends.app_server.objects import NotLoaded, Thread, Wire
from spindle.frontends.app_server.questions import Questions
from spindle.frontends.app_server.queues import Queues
from spindle.frontends.app_server.registry import METHODS, unknown_method
from spindle.frontends.app_server.rpc import RpcError, read_params
from spindle.frontends.app_server.runtime import Runtime
from spindle.frontends.app_server.server_logins import ServerLogins
from spindle.frontends.app_server.threads import with_git
from spindle.frontends.app_server.watching import Watches
from spindle.frontends.launch import config_from
from spindle.frontends.options import Parsed
from spindle.protocol.clock import Clock, SystemClock
from spindle.thread.layout import is_thread_id
from spindle.thread.store import ThreadStore

MAX_HOLDING = 4
"""So many idle threads keep their file and their connection to the model open; the others hold no descriptor."""

MAX_LOADED = 256
"""When more threads are loaded, the idle one used longest ago is put away."""

COLLECT_EVERY = 64
"""After this many threads were put away, or turns have ended, their memory is given back."""

COLLECT_ALL_EVERY = 256
"""After this many turns, that of older objects too, which takes longer."""

COLLECT_IDLE_S = 1.0
"""The same when nothing has happened in any thread for this long."""

UNLOAD_AFTER_S = 30 * 60
"""A thread that nobody follows and in which nothing happens is put away after this long."""


OUT_OF_DATE = {"web_search_request": 'web_search = "live"', "web_search_cached": 'web_search = "cached"'}
"""Feature flags that are understood for the sake of old files, and what to write instead."""


class Server:
    """All state that is not a client's or a thread's own."""

    def __init__(self, config: Config, parsed: Parsed, clock: Clock | None = None) -> None:
        self.config = config
        """As the command line says; a thread may have another."""
        self.parsed = parsed
        self.clock = clock or SystemClock()
        self.store = ThreadStore(config.home, self.clock)
        self.threads: dict[str, LoadedThread] = {}
        self.connections: list[Connection] = []
        self.questions = Questions(self.clock)
        self.logins = Logins(self)
        self.server_logins = ServerLogins(self)
        self.searches: dict[str, threading.Event] = {}
        """Searches for files that run, by the client's token; setting the event ends one."""
        self.watches = Watches()
        self.runtime = Runtime(self)
        self.queues = Queues(self)
        self._locks: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()
        self._holding: dict[str, LoadedThread] = {}
        """Idle threads that hold descriptors, the one used last at the end."""
        self._releasing: set[asyncio.Task[None]] = set()
        self._packing = RestingThreads()
        self._unloaded = self._ended = 0
        self._collecting: asyncio.TimerHandle | None = None
        self._unloading: set[asyncio.Task[bool]] = set()

    @property
    def home(self) -> str:
        return self.config.home

    @property
    def now_ms(self) -> int:
        return int(self.clock.now() * 1000)

    def reload(self) -> None:
        """The user's file was changed: threads that are opened from now on, and lists, go by it."""
        self.config = config_from(self.parsed, cwd=self.config.cwd)

    # ---- requests ------------------------------------------------------------------------------

    async def call(self, client: Connection, name: str, raw: Any) -> tuple[Wire, Callable[[], None] | None]:
        """Do what a request asks for: its result, and what is to be done after that was sent."""
        method = METHODS.get(name)
        if method is None:
            raise RpcError(unknown_method(name))
        if method.is_experimental and not client.is_experimental:
            raise RpcError(f"{name} requires experimentalApi capability")
        params = read_params(raw, method.params)
        call = Call(self, client)
        thread_id = getattr(params, "thread_id", None)
        if thread_id is not None:
            check_thread_id(thread_id)
        if thread_id is None or not method.is_exclusive:
            done = await method.run(call, params)
        else:
            async with self.lock(thread_id):
                done = await method.run(call, params)
        return (done.result, done.then) if isinstance(done, After) else (done, None)

    def lock(self, thread_id: str) -> asyncio.Lock:
        """Requests about one thread are done one after the other."""
        lock = self._locks.get(thread_id)
        if lock is None:
            lock = self._locks[thread_id] = asyncio.Lock()
        return lock

    # ---- clients -------------------------------------------------------------------------------

    def greet(self, connection: Connection) -> None:
        """Tell a client that has introduced itself what is wrong with the configuration, and what is out of date."""
        self.warn(connection, self.config.warnings)
        for name, instead in OUT_OF_DATE.items():
            if self.config.features.get(name):
                summary = f"`features.{name}` is deprecated"
                connection.notify(DeprecationNotice(summary=summary, details=f"Use `{instead}`."), self.now_ms)

    def warn(self, connection: Connection, warnings: list[str]) -> None:
        for text in connection.untold(warnings):
            connection.notify(ConfigWarning(summary=text), self.now_ms)

    def tell_all(self, note: Note) -> None:
        for connection in self.connections:
            connection.notify(note, self.now_ms)

    def leave(self, connection: Connection) -> None:
        """A client has disconnected: nobody else is told about questions that only it was asked."""
        self.connections.remove(connection)
        for thread in self.threads.values():
            self.unfollow(thread, connection)
        self.questions.forget(connection)
        for watched in connection.watches.values():
            self.watches.remove(watched)
        for session in connection.file_sessions.values():
            session.stop()

    # ---- threads -------------------------------------------------------------------------------

    def loaded(self, thread_id: str) -> LoadedThread:
        thread = self.threads.get(thread_id)
        if thread is None:
            raise RpcError(f"thread not found: {thread_id}")
        return thread

    @property
    def resting_count(self) -> int:
        """How many loaded threads are packed until somebody looks at them."""
        return self._packing.count

    def add(self, thread: LoadedThread) -> None:
        thread.on_idle = lambda: self._turn_ended(thread)
        thread.on_end = lambda turn: self.queues.turn_ended(thread, turn)
        self._settled(thread)

    def _turn_ended(self, thread: LoadedThread) -> None:
        self._settled(thread)
        self._ended += 1
        if self._ended % COLLECT_ALL_EVERY == 0:
            gc.collect()  # what was awake at one of the looks below, and rests now, is no longer young
        elif self._ended % COLLECT_EVERY == 0:
            gc.collect(1)  # what is young, so that nobody waits for it
        self._collect_soon()

    def _collect_soon(self) -> None:
        """A session is a web of objects that name each other, and the collector was told at the start to rest."""
        if self._collecting is not None:
            self._collecting.cancel()
        self._collecting = asyncio.get_running_loop().call_later(COLLECT_IDLE_S, self._collect)

    def _collect(self) -> None:
        if all(thread.hearing.active_turn is None for thread in self.threads.values()):
            gc.collect()
            _give_back_memory()

    def _settled(self, thread: LoadedThread) -> None:
        """A thread was used. Of those in which nothing happens, the ones used longest ago let go of what they hold."""
        if thread.is_closing:
            return
        for places in (self.threads, self._holding):
            places.pop(thread.id, None)
            places[thread.id] = thread
        self._packing.used(thread.live)
        while len(self._holding) > MAX_HOLDING:
            oldest = self._holding.pop(next(iter(self._holding)))
            task = asyncio.ensure_future(oldest.live.release())
            self._releasing.add(task)
            task.add_done_callback(self._releasing.discard)
        if len(self.threads) > MAX_LOADED:
            idle = (other for other in self.threads.values() if other.hearing.active_turn is None)
            self._unload_soon(next(idle, thread))

    async def ready(self, thread_id: str) -> LoadedThread:
        """A thread that is about to be used; one that another process has gone on with is put away instead."""
        thread = self.loaded(thread_id)
        try:
            thread.live.retake()
        except (ThreadError, OSError) as error:
            await self.unload(thread.id)
            raise RpcError(f"{reason_of(error)}; thread/resume loads it as it is now") from error
        self._settled(thread)
        return thread

    async def current(self, thread_id: str) -> LoadedThread | None:
        """A loaded thread, unless what is loaded is no longer all of it."""
        if thread_id not in self.threads:
            return None
        try:
            return await self.ready(thread_id)
        except RpcError:
            return None

    def follow(self, thread: LoadedThread, connection: Connection) -> None:
        thread.followers.add(connection)
        if thread.unload_timer is not None:
            thread.unload_timer.cancel()
            thread.unload_timer = None

    def unfollow(self, thread: LoadedThread, connection: Connection) -> bool:
        """False if it did not follow it anyway."""
        if connection not in thread.followers:
            return False
        thread.followers.discard(connection)
        self.questions.forget(connection, thread.id)
        if not thread.followers:
            self._unload_later(thread)
        return True

    def _unload_later(self, thread: LoadedThread) -> None:
        def look() -> None:
            if thread.followers or self.threads.get(thread.id) is not thread:
                return
            if thread.hearing.active_turn is not None:
                self._unload_later(thread)
                return
            self._unload_soon(thread)

        thread.unload_timer = asyncio.get_running_loop().call_later(UNLOAD_AFTER_S, look)

    def _unload_soon(self, thread: LoadedThread) -> None:
        task = asyncio.ensure_future(self.unload(thread.id))
        self._unloading.add(task)
        task.add_done_callback(self._unloading.discard)

    async def unload(self, thread_id: str) -> bool:
        """End a thread's session; its record stays. False if it was not loaded."""
        thread = self.threads.pop(thread_id, None)
        self._holding.pop(thread_id, None)
        if thread is None:
            return False
        await thread.close()
        self._packing.forget(thread.live)  # after that: whoever looks at the past of a closing thread wakes it
        self.tell_all(ThreadStatusChanged(thread_id=thread_id, status=NotLoaded()))
        self.tell_all(ThreadClosed(thread_id=thread_id))
        self._unloaded += 1
        if self._unloaded % COLLECT_EVERY == 0:
            gc.collect()
        self._collect_soon()
        return True

    async def close(self) -> None:
        """End every thread. What they have to say goes out before."""
        for search in self.searches.values():
            search.set()
        self.watches.close()
        if self._collecting is not None:
            self._collecting.cancel()
        self._packing.close()
        await self.logins.give_up()
        await self.server_logins.give_up()
        await self.queues.close()
        threads, self.threads = list(self.threads.values()), {}
        await asyncio.gather(*(thread.close() for thread in threads), *self._unloading, *self._releasing)

    def describe(self, thread: LoadedThread, *, with_turns: bool = False) -> Thread:
        shown = thread.describe(self.store.names.all().get(thread.id), with_turns=with_turns)
        return with_git(shown, self.store.git_notes.all().get(thread.id))


def _give_back_memory() -> None:
    """The C library keeps what was packed and let go, in pieces between what is held; the system gets it back."""
    import ctypes  # slow: not before the server has had something to do

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of the GNU library alone
    if trim is not None:
        trim(0)


def check_thread_id(thread_id: str) -> str:
    if not is_thread_id(thread_id):
        raise RpcError(f"invalid thread id: {thread_id!r} is not a UUID")
    return thread_id
