"""The commands of one thread: started here, found here by their session id, and ended with the thread.

The one door through which a tool runs a program. It adds the environment, the sandbox and the bookkeeping; what is
shown to the model or to people is the tools' business.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from spindle.errors import SandboxUnavailable
from spindle.policy.environment import NETWORK_DISABLED
from spindle.policy.sandbox import absolute
from spindle.process import kill, login_env, sandbox, spawn
from spindle.process.output import OutputRing
from spindle.process.sandbox import bubblewrap
from spindle.protocol.clock import Clock
from spindle.protocol.settings import SandboxPolicy

MAX_LIVE = 64
WARN_LIVE = 60
PROTECTED_RECENT = 8
TIMEOUT_EXIT_CODE = 124
_FIRST_ID, _LAST_ID = 1000, 99_999


class ShellLike(Protocol):
    """The user's shell, as `spindle.workspace.shell` finds it."""

    @property
    def name(self) -> str: ...
    @property
    def path(self) -> str: ...


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """One program to run."""

    argv: Sequence[str]
    cwd: str
    root: str
    """The turn's working directory: writable roots follow it, whatever `cwd` the model asked for."""
    sandbox: SandboxPolicy | None
    """None: outside of any sandbox, because a person or a rule said so."""
    tty: bool = False


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """A one-shot command that is over."""

    exit_code: int
    output: OutputRing
    duration_s: float
    timed_out: bool


class LiveProcess:
    """A command the model can come back to. `call_id` names the call that started it."""

    def __init__(self, session_id: int, call_id: str, command: Command, started: float) -> None:
        self.id = session_id
        self.call_id = call_id
        self.command = command
        self.started = started
        self.last_used = started
        self.ended: float | None = None
        self.unread = OutputRing()
        """What was printed since the model last looked."""
        self.transcript = OutputRing()
        """What was printed since the start."""
        self.running: spawn.Running

    @property
    def exit_code(self) -> int | None:
        return self.running.finished.result() if self.running.finished.done() else None

    async def wait(self, seconds: float) -> int | None:
        """The exit code if the command is over by then."""
        await asyncio.wait((self.running.finished,), timeout=seconds)
        return self.exit_code


class ProcessTable:
    """All commands of one thread. `environment` holds no secrets; `home` is the agent's own folder."""

    def __init__(self, *, clock: Clock, shell: ShellLike, environment: Mapping[str, str], home: str) -> None:
        self._clock = clock
        self._environment = environment
        self._home = home
        self._live: dict[int, LiveProcess] = {}
        self._running: set[spawn.Running] = set()
        self._captures: dict[SandboxPolicy | None, asyncio.Task[login_env.LoginEnvironment | None]] = {}
        self._count = 0
        self._ran_outside = False
        self._mark = int(clock.random() * (1 << 40))
        self.shell = shell
        self.told_about_sandbox = False
        """The person knows that commands cannot be confined here; once is enough."""

    # ---- for tools ---------------------------------------------------------------------------------

    def shell_argv(self, script: str, *, login: bool = True, shell: str | None = None) -> list[str]:
        """The words that run `script`, as people and the model see them."""
        return [shell or self.shell.path, "-lc" if login else "-c", script]

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
        ring = OutputRing()

        def collect(data: bytes) -> None:
            ring.add(data)
            if on_output is not None:
                on_output(data)

        started = self._clock.monotonic()
        running = await self._launch(command, collect)
        timed_out = False
        try:
            await asyncio.wait((running.finished,), timeout=timeout_s)
            timed_out = not running.finished.done()
        finally:
            if not running.finished.done():
                await running.stop()
            finished = Finished(
                exit_code=TIMEOUT_EXIT_CODE if timed_out else running.finished.result(),
                output=ring,
                duration_s=self._clock.monotonic() - started,
                timed_out=timed_out,
            )
            if on_end is not None:
                on_end(finished)
        return finished

    def reserve_id(self) -> int:
        """A session id nobody has."""
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
        live = LiveProcess(session_id, call_id, command, self._clock.monotonic())

        def collect(data: bytes) -> None:
            live.unread.add(data)
            live.transcript.add(data)
            on_output(data)

        def ended(_: asyncio.Future[int]) -> None:
            live.ended = self._clock.monotonic()
            on_exit(live)

        live.running = await self._launch(command, collect)
        live.running.finished.add_done_callback(ended)
        self._live[session_id] = live
        return live

    def find(self, session_id: int) -> LiveProcess | None:
        live = self._live.get(session_id)
        if live is not None:
            live.last_used = self._clock.monotonic()
            self._live[session_id] = self._live.pop(session_id)  # most recently used stands last
        return live

    def forget(self, live: LiveProcess) -> None:
        """The model knows that it is over."""
        self._live.pop(live.id, None)

    async def stop(self, live: LiveProcess) -> None:
        """End a session and everything it started."""
        self.forget(live)
        await live.running.stop()

    @property
    def live_count(self) -> int:
        return len(self._live)

    async def sandbox_problem(self) -> str | None:
        """Why commands cannot be confined here, or None. Tried once per process."""
        return await sandbox.problem()

    async def warm(self, policy: SandboxPolicy, root: str) -> None:
        """Do in a quiet moment what the first command would have to wait for."""
        if policy.is_full_access or await sandbox.problem() is None:
            await self._login(Command(argv=self.shell_argv(":"), cwd=root, root=root, sandbox=policy))

    async def aclose(self) -> None:
        """Kill everything, daemons included. Commands end with their thread."""
        for task in self._captures.values():
            task.cancel()
        await asyncio.gather(*self._captures.values(), return_exceptions=True)
        await asyncio.gather(*(running.stop() for running in tuple(self._running)))
        self._live.clear()
        if self._ran_outside:
            kill.kill_leftovers(kill.Mark(self._mark))
        bubblewrap.guards_of(self._home).close()

    # ---- starting ----------------------------------------------------------------------------------

    async def _launch(self, command: Command, on_output: Callable[[bytes], None]) -> spawn.Running:
        login = await self._login(command)
        return await self._spawn(command, on_output, login)

    async def _spawn(
        self, command: Command, on_output: Callable[[bytes], None], login: login_env.LoginEnvironment | None
    ) -> spawn.Running:
        policy = command.sandbox
        env = dict(self._environment if login is None else login.env)
        env["PWD"] = command.cwd
        if policy is not None and not policy.is_full_access and not policy.has_network:
            env[NETWORK_DISABLED] = "1"
        argv = list(command.argv)
        setup = -1
        if login is not None:
            argv[:2] = [self.shell.path, "-c"]
            setup = login_env.setup_file(login, login.env)
            env["BASH_ENV"] = f"/proc/self/fd/{setup}"
        try:
            check_startable(argv[0], command.cwd, env)
            launch = await sandbox.plan(
                argv, policy=policy, root=command.root, cwd=command.cwd, env=env, home=self._home, tty=command.tty
            )
            self._count += 1
            try:
                if not launch.sandboxed:
                    self._ran_outside = True
                    kill.become_subreaper()
                running = spawn.start(
                    spawn.SpawnSpec(
                        argv=launch.argv,
                        cwd=command.cwd,
                        env=launch.env,
                        mark=kill.Mark(self._mark, self._count),
                        tty=command.tty,
                        sandboxed=launch.sandboxed,
                        pass_fds=() if setup < 0 else (setup,),
                    ),
                    on_output,
                )
            except BaseException:
                launch.release()
                raise
        finally:
            if setup >= 0:
                os.close(setup)
        self._running.add(running)

        def over(_: asyncio.Future[int]) -> None:
            self._running.discard(running)
            launch.release()
            kill.reap_orphans()

        running.finished.add_done_callback(over)
        return running

    async def _make_room(self) -> None:
        """Give up the least recently used session: one that has ended if there is one; never the newest few."""
        if len(self._live) < MAX_LIVE:
            return
        old = list(self._live.values())[:-PROTECTED_RECENT]
        chosen = next((live for live in old if live.exit_code is not None), old[0])
        await self.stop(chosen)

    # ---- the login shell ---------------------------------------------------------------------------

    async def _login(self, command: Command) -> login_env.LoginEnvironment | None:
        """What stands in for the profile, if `command` is a script for the user's login shell."""
        argv = command.argv
        if self.shell.name != "bash" or len(argv) != 3 or argv[1] != "-lc" or argv[0] not in (self.shell.path, "bash"):
            return None
        task = self._captures.get(command.sandbox)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._capture(command))
            self._captures[command.sandbox] = task
        return await asyncio.shield(task)

    async def _capture(self, command: Command) -> login_env.LoginEnvironment | None:
        """Runs where the command would run: a profile gets no more rights than what it prepares."""
        if not hasattr(os, "memfd_create"):
            return None
        ring = OutputRing()
        probe = Command(
            argv=login_env.capture_argv(self.shell.path), cwd=command.root, root=command.root, sandbox=command.sandbox
        )
        try:
            running = await self._spawn(probe, ring.add, None)
        except (OSError, SandboxUnavailable):
            return None  # the command itself will say what is wrong
        try:
            await asyncio.wait((running.finished,), timeout=login_env.CAPTURE_LIMIT_S)
        finally:
            if not running.finished.done():
                await running.stop()
        if running.finished.result() != 0 or ring.dropped:
            return None
        captured = login_env.read_capture(ring.value(), command.root)
        if captured is not None:
            captured.env.pop(kill.MARK_NAME, None)
            captured.env.pop(NETWORK_DISABLED, None)
        return captured


def check_startable(program: str, cwd: str, env: Mapping[str, str]) -> None:
    """Raise the OSError that starting would end in; a launcher would report it as a failure of its own."""
    if not os.path.isdir(cwd):
        raise FileNotFoundError(2, "No such file or directory", cwd)
    if "/" in program:
        candidates = [absolute(program, cwd)]
    else:
        candidates = [f"{absolute(folder, cwd)}/{program}" for folder in env.get("PATH", os.defpath).split(os.pathsep)]
    for path in candidates:
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return
    if any(os.path.exists(path) for path in candidates):
        raise PermissionError(13, "Permission denied", program)
    raise FileNotFoundError(2, "No such file or directory", program)
