"""The commands of one thread: found here by their number (`session_id` to the model), and ended with the thread.

The one door through which a tool runs a program. What is shown to the model or to people is the tools' business.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import msgspec

from spindle import process
from spindle.errors import SandboxUnavailable
from spindle.policy.secrets import Secrets
from spindle.process.command import Command, CommandWatch, ShellLike
from spindle.process.output import OutputRing
from spindle.protocol.clock import Clock
from spindle.protocol.events import Msg

if TYPE_CHECKING:
    from spindle.policy.sandbox import Fence
    from spindle.process.launcher import Launcher
    from spindle.process.running import Running

MAX_LIVE = 64
WARN_LIVE = 60
PROTECTED_RECENT = 8
TIMEOUT_EXIT_CODE = 124
_FIRST_ID, _LAST_ID = 1000, 99_999
_TRIES = 3
_SET_UP_S = 0.1


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """A one-shot command that is over."""

    exit_code: int
    output: OutputRing
    duration_s: float
    timed_out: bool


class LiveProcess:
    """A command the model can come back to. `call_id` names the call that started it."""

    def __init__(
        self, session_id: int, call_id: str, command: Command, started: float, secrets: Secrets | None = None
    ) -> None:
        self.id = session_id
        self.call_id = call_id
        self.command = command
        self.started = started
        self.ended: float | None = None
        self.unread = OutputRing(secrets=secrets)
        """What was printed since the model last looked."""
        self.transcript = OutputRing(counts_lines=False, secrets=secrets)
        """What was printed since the start."""
        self.running: Running
        self.tell: Callable[[Msg], None] | None = None
        """How the call that came back last tells people what it sees; None before one has."""
        self.typed = ""
        """What stands on the line that the model is typing."""
        self.typed_before = ""
        """The lines that it has typed."""

    @property
    def exit_code(self) -> int | None:
        return self.running.finished.result() if self.running.finished.done() else None

    async def wait(self, seconds: float) -> int | None:
        """Wait this long at most; the exit code if the command is over by then."""
        if not self.running.finished.done():  # else the event loop would make a turn for nothing
            await asyncio.wait((self.running.finished,), timeout=seconds)
        return self.exit_code


def sandbox_failure(output: OutputRing) -> SandboxUnavailable:
    """What to say when a launcher ended before its command began; `output` is what it printed."""
    lines = output.peek().text().strip().splitlines()
    reason = lines[-1].removeprefix("bwrap: ") if lines else "its launcher gave no reason"
    return SandboxUnavailable(f"the sandbox could not be set up ({reason}), so nothing was run")


_Hear = Callable[[bytes], None]
_open_tables: WeakSet[ProcessTable] = WeakSet()
"""The tables of this process that commands may be started from."""
_THREADS_OF = "spindle.process.sandbox.bubblewrap_here"


class ProcessTable:
    """All commands of one thread. `environment` holds no secrets; `home` is the agent's own folder."""

    def __init__(
        self,
        *,
        clock: Clock,
        shell: ShellLike,
        environment: Mapping[str, str],
        home: str,
        allows_login: bool = True,
        secrets: Secrets | None = None,
        withheld: Collection[str] = (),
    ) -> None:
        self._withheld = withheld
        self._allows_login = allows_login
        self.secrets = secrets
        """What is masked in whatever the commands print."""
        self._clock = clock
        self._environment = environment
        self.home = home
        self._live: dict[int, LiveProcess] = {}
        self._launcher: Launcher | None = None
        self.shell = shell
        self.watch: CommandWatch | None = None
        """Told of the commands that may write; set by the session."""
        self._trying = asyncio.Lock()
        self.told_about_sandbox = False
        """The person knows that commands cannot be confined here; once is enough."""
        process.tidy_up_after_a_crash(home)
        _open_tables.add(self)

    # ---- for tools ---------------------------------------------------------------------------------

    def shell_argv(self, script: str, *, login: bool = True, shell: str | None = None) -> list[str]:
        """The words that run `script`, as people and the model see them."""
        flag = "-lc" if login and self._allows_login else "-c"
        return [shell or self.shell.path, flag, script]

    async def run(
        self,
        command: Command,
        *,
        timeout_s: float | None,
        on_output: Callable[[bytes], None] | None = None,
        on_end: Callable[[Finished], None] | None = None,
    ) -> Finished:
        """Run to the end, or to the time limit (exit code 124).

        Cancelled: everything it started is killed and `on_end` called, then the cancellation goes on.
        """
        ring = OutputRing(secrets=self.secrets)

        def collect(data: bytes) -> None:
            ring.add(data)
            if on_output is not None:
                on_output(data)

        started = self._clock.monotonic()
        begun: list[Running] = []

        def over(running: Running, *, timed_out: bool = False) -> Finished:
            finished = Finished(
                exit_code=TIMEOUT_EXIT_CODE if timed_out else running.finished.result(),
                output=ring,
                duration_s=self._clock.monotonic() - started,
                timed_out=timed_out,
            )
            if on_end is not None and not running.never_ran:
                on_end(finished)
            return finished

        try:
            running = await self._launch(command, collect, begun, ring)
            await asyncio.wait((running.finished,), timeout=timeout_s)
            timed_out = not running.finished.done()
        except asyncio.CancelledError:
            for last in begun[-1:]:
                await last.stop()
                over(last)
            raise
        if timed_out:
            await running.stop()
        finished = over(running, timed_out=timed_out)
        if running.never_ran:
            raise sandbox_failure(ring)
        return finished

    def reserve_id(self) -> int:
        """A number that no live command has."""
        while True:
            number = _FIRST_ID + int(self._clock.random() * (_LAST_ID - _FIRST_ID + 1))
            if number not in self._live:
                return number

    async def start(
        self,
        command: Command,
        *,
        session_id: int,
        call_id: str,
        on_output: Callable[[bytes], None],
        on_exit: Callable[[LiveProcess], None],
    ) -> LiveProcess:
        """Start a command that may outlive its call. `on_exit` is called once, whenever it ends."""
        await self._make_room()
        live = LiveProcess(session_id, call_id, command, self._clock.monotonic(), self.secrets)

        def collect(data: bytes) -> None:
            live.unread.add(data)
            live.transcript.add(data)
            on_output(data)

        def ended(_: asyncio.Future[int]) -> None:
            live.ended = self._clock.monotonic()
            on_exit(live)

        begun: list[Running] = []
        try:
            live.running = await self._launch(command, collect, begun, live.unread, live.transcript)
        except asyncio.CancelledError:
            if begun and not begun[-1].never_ran:  # it was stopped while one looked whether its sandbox holds
                live.running = begun[-1]
                ended(live.running.finished)
            raise
        self._live[session_id] = live
        finished = live.running.finished
        if finished.done():  # as most confined commands are by now; whoever waits for it then does not wait at all
            ended(finished)
        else:
            finished.add_done_callback(ended)
        return live

    def find(self, session_id: int) -> LiveProcess | None:
        live = self._live.get(session_id)
        if live is not None:
            self._live[session_id] = self._live.pop(session_id)  # most recently used stands last
        return live

    def forget(self, live: LiveProcess) -> None:
        """The model knows that it is over."""
        self._live.pop(live.id, None)

    async def stop(self, live: LiveProcess) -> None:
        """End a command and everything it started."""
        self.forget(live)
        await live.running.stop()

    async def stop_some(self, ids: Collection[str] | None = None) -> list[str]:
        """End the commands with these numbers, or all; gives the numbers of those that were still running."""
        chosen = [live for live in self._live.values() if ids is None or str(live.id) in ids]
        running = [str(live.id) for live in chosen if live.exit_code is None]
        await asyncio.gather(*(self.stop(live) for live in chosen))
        return running

    def let_go(self) -> None:
        """Take away at once what the sandboxes of finished commands needed; by itself that happens a moment later."""
        if self._launcher is not None:
            self._launcher.let_go()

    @property
    def all_live(self) -> list[LiveProcess]:
        """Those that have not ended."""
        return [live for live in self._live.values() if live.exit_code is None]

    @property
    def live_count(self) -> int:
        return len(self._live)

    async def sandbox_problem(self, fence: Fence | None = None) -> str | None:
        """Why commands cannot be confined here, or None. Tried once per process."""
        from spindle.process import sandbox  # with the first command, as in `_launch`

        # One after the other: of two calls, the first to ask goes on first, and so do their questions to a person. Each
        # waits for a thread of its own otherwise, and nobody can say which of those ends first.
        async with self._trying:
            return await sandbox.problem(fence)

    async def aclose(self) -> None:
        """Kill everything, daemons included. Commands end with their thread."""
        self._live.clear()
        if self._launcher is not None:
            await self._launcher.aclose()
        _open_tables.discard(self)
        # A program that embeds us expects nothing of ours to be left. Our own command ends, or has a next thread soon.
        # While another thread is still loading that module, there is nothing to end.
        loaded = None if process.is_ours or _open_tables else sys.modules.get(_THREADS_OF)
        if (end_threads := getattr(loaded, "end_threads", None)) is not None:
            end_threads(is_in_use=lambda: bool(_open_tables))

    def kill_all(self) -> None:
        """Kill everything without waiting for anything. For a process that must end this instant."""
        if self._launcher is not None:
            self._launcher.kill_all()

    # ---- starting ----------------------------------------------------------------------------------

    def _launch(
        self, command: Command, on_output: _Hear, begun: list[Running], *rings: OutputRing
    ) -> Coroutine[Any, Any, Running]:
        """Start it, and let whoever watches know. `begun` gets each attempt: one that is cancelled may have run."""
        starting = self._start(command, on_output, begun, *rings)
        if self.watch is None or not self.watch.concerns(command):
            return starting
        if self._launcher is None:
            # The first command waits for the disk: what it needs beside its permission can be made meanwhile.
            asyncio.get_running_loop().call_soon(self._prepare, command)
        return self.watch.around(command, starting)

    async def _start(self, command: Command, on_output: _Hear, begun: list[Running], *rings: OutputRing) -> Running:
        """Start it; a sandbox that could not be set up is tried again, without what it complained of.

        Between the plan of the mounts and the mounting a file may vanish, which says nothing about the next time.
        """
        launcher = self._ready()
        begun.append(await launcher.launch(command, on_output))
        for _ in range(_TRIES - 1):
            if not command.is_confined or await begun[-1].is_set_up(_SET_UP_S):
                break
            for ring in rings:
                ring.clear()
            begun.append(await launcher.launch(command, on_output))
        return begun[-1]

    def _prepare(self, command: Command) -> None:
        if self in _open_tables:
            self._ready().prepare(command)

    def _ready(self) -> Launcher:
        if self._launcher is None:
            from spindle.process.launcher import Launcher  # 4 ms that starting the agent need not pay

            mark = 16 + int(self._clock.random() * ((1 << 40) - 16))  # the first few are reserved
            self._launcher = Launcher(
                shell=self.shell,
                environment=self._environment,
                home=self.home,
                mark=mark,
                withheld=self._withheld,
            )
        return self._launcher

    async def _make_room(self) -> None:
        """Give up the least recently used command: one that has ended if there is one; never the newest few."""
        if len(self._live) < MAX_LIVE:
            return
        old = list(self._live.values())[:-PROTECTED_RECENT]
        chosen = next((live for live in old if live.exit_code is not None), old[0])
        await self.stop(chosen)
