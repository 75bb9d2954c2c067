"""How a command gets started: the user's environment, the sandbox around it, and the process itself.

Loaded with the first command of a process, so that starting the agent does not pay for it. Which commands are alive
and who may come back to them is `table`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Mapping

from spindle.errors import SandboxUnavailable
from spindle.policy.commands import needed, safe_environment
from spindle.policy.environment import NETWORK_DISABLED, is_loader_variable
from spindle.policy.sandbox import Boundary
from spindle.process import kill, login_env, sandbox, spawn
from spindle.process.command import Command, ShellLike, check_startable
from spindle.process.sandbox import bubblewrap
from spindle.process.watchdog import Watchdog

_PROFILE_MARK = kill.Mark(2)
"""Keeps a profile, and an agent it may start, apart from commands that are killed with the thread."""

_LINGER_S = 0.125
"""Commands come in quick succession, and placeholders cost a millisecond. They stay this long, at most twice."""


class Launcher:
    """Starts commands of one thread and can end all of them."""

    def __init__(
        self,
        *,
        shell: ShellLike,
        environment: Mapping[str, str],
        home: str,
        mark: int,
        withheld: Collection[str] = (),
    ) -> None:
        self._shell = shell
        self._withheld = withheld
        """Variables that a profile may set and no command is to have."""
        self._environment = environment
        self._home = home
        self._mark = mark
        self._running: dict[spawn.Running, Callable[[], None]] = {}
        """What runs, and how to take away what its sandbox needed."""
        self._lingering: list[Callable[[], None]] = []
        self._lingering_longer: list[Callable[[], None]] = []
        """The same for what ended a moment ago, and for what ended before the timer last went off."""
        self._tidying: asyncio.TimerHandle | None = None
        self._captures: dict[Boundary | None, asyncio.Task[login_env.LoginEnvironment | None]] = {}
        self._slow: set[Boundary | None] = set()
        """Where the profile takes so long that commands no longer wait for the capture."""
        self._count = 0
        self._watchdog: Watchdog | None = None
        """There once a command was started that does not die with us by itself."""

    async def launch(self, command: Command, on_output: Callable[[bytes], None]) -> spawn.Running:
        """Start it. Raises OSError when it cannot be executed, SandboxUnavailable when it cannot be confined."""
        return await self._spawn(command, on_output, await self._login(command))

    async def aclose(self) -> None:
        """Kill everything that was started, daemons included."""
        for task in self._captures.values():
            task.cancel()
        await asyncio.gather(*self._captures.values(), return_exceptions=True)
        everything = kill.Mark(self._mark)
        # Without a watchdog every command had a launcher, whose namespace took along what it left behind.
        if self._running:
            await spawn.stop_all(tuple(self._running), everything)
        elif self._watchdog is not None:
            kill.kill_leftovers(everything)
        self._tidy()

    def kill_all(self) -> None:
        """The same without waiting for anything: this process is about to end."""
        for task in self._captures.values():
            task.cancel()
        leaders = {one.pid for one in self._running if one.exit_code is None and not one.is_left_alone}
        kill.kill_tree(leaders, kill.Mark(self._mark))
        for running in tuple(self._running):
            self._running.pop(running)()
        self._tidy()

    def let_go(self) -> None:
        """Take away at once what the sandboxes of finished commands needed."""
        for release in (*self._lingering_longer, *self._lingering):
            release()
        self._lingering, self._lingering_longer = [], []

    def _tidy(self) -> None:
        self.let_go()
        kill.reap_orphans()
        bubblewrap.placeholders_of(self._home).close()
        if self._watchdog is not None:
            self._watchdog.close()
            self._watchdog = None

    async def _spawn(
        self,
        command: Command,
        on_output: Callable[[bytes], None],
        login: login_env.LoginEnvironment | None,
        *,
        mark: kill.Mark | None = None,
        output_file: int | None = None,
    ) -> spawn.Running:
        env = dict(self._environment if login is None else login.env)
        env["PWD"] = command.cwd
        if command.lacks_network:
            env[NETWORK_DISABLED] = "1"
        env |= safe_environment(command.argv, env)
        argv = login_env.without_variables(command.argv, self._withheld) if login is None else list(command.argv)
        setup = -1
        if login is not None:
            argv[:2] = [self._shell.path, "-c"]
            if login.setup:
                setup = login_env.setup_file(login, login.env)
                env["BASH_ENV"] = f"/proc/self/fd/{setup}"
        try:
            check_startable(argv, command.cwd, env)
            if command.is_let_out or not command.is_confined:
                self.let_go()  # a placeholder would be in the way of what a person let out
            reach = needed(command.argv, command.boundary, reads_profile=login is None)
            launch = await sandbox.plan(
                argv, boundary=reach, cwd=command.cwd, env=env, home=self._home, tty=command.tty
            )
            self._count += 1
            spec = spawn.SpawnSpec(
                launch=launch,
                cwd=command.cwd,
                mark=mark or kill.Mark(self._mark, self._count),
                tty=command.tty,
                size=command.size,
                pass_fds=() if setup < 0 else (setup,),
                output_file=output_file,
                input_file=command.input_file,
                error_file=command.error_file,
            )
            return self._start(spec, on_output)
        finally:
            if setup >= 0:
                os.close(setup)

    def _start(self, spec: spawn.SpawnSpec, on_output: Callable[[bytes], None]) -> spawn.Running:
        """Start it and keep the books: what runs, and what to take away when it is over."""
        release = spec.launch.release
        try:
            # Before the program runs: a daemon that it makes at once must become our child, and if we are killed right
            # after, somebody must be there to end it. What a launcher started dies with us by itself.
            if not spec.launch.has_launcher and self._watchdog is None:
                kill.become_subreaper()
                self._watchdog = Watchdog(kill.Mark(self._mark))
            running = spawn.start(spec, on_output)
        except BaseException:
            release()
            raise
        self._running[running] = release

        def over(_: asyncio.Future[int]) -> None:
            # `kill_all` may have released it already; twice would give back a placeholder that another command holds.
            if self._running.pop(running, None) is not None:
                self._lingering.append(release)
            if self._tidying is None:
                self._tidying = asyncio.get_running_loop().call_later(_LINGER_S, self._tidy_up)

        running.finished.add_done_callback(over)
        return running

    def _tidy_up(self) -> None:
        """Some time after commands ended, by one timer for all, so that none has to wait for this."""
        over, self._lingering_longer, self._lingering = self._lingering_longer, self._lingering, []
        self._tidying = None
        if self._lingering_longer:
            self._tidying = asyncio.get_running_loop().call_later(_LINGER_S, self._tidy_up)
        for release in over:
            release()
        kill.reap_orphans()

    # ---- the login shell ---------------------------------------------------------------------------

    def prepare(self, command: Command) -> asyncio.Task[login_env.LoginEnvironment | None] | None:
        """Begin with what `launch` waits for: the capture of the profile. None if it is no script for a login shell."""
        argv, shell = command.argv, self._shell
        if shell.name != "bash" or len(argv) != 3 or argv[1] != "-lc" or argv[0] not in (shell.path, "bash"):
            return None
        # One capture for each boundary: what a profile sets may depend on what it could read.
        reach = command.boundary if command.is_confined else None
        task = self._captures.get(reach)
        if task is None:
            task = self._captures[reach] = asyncio.get_running_loop().create_task(self._capture(command))
        return task

    async def _login(self, command: Command) -> login_env.LoginEnvironment | None:
        """What stands in for the profile, if `command` is a script for the user's login shell."""
        task = self.prepare(command)
        if task is None:
            return None
        reach = command.boundary if command.is_confined else None
        if not task.done() and reach not in self._slow:
            await asyncio.wait((task,), timeout=login_env.PATIENCE_S)
        if task.done():
            return task.result()
        self._slow.add(reach)  # this command reads the profile itself, and so do others until the task is done
        return None

    async def _capture(self, command: Command) -> login_env.LoginEnvironment | None:
        """Runs where the command would run: a profile gets no more rights than what it prepares.

        Outside of a sandbox it is never killed: a profile stopped half-way leaves its lock files behind, and the
        user's next login would wait for them.
        """
        if not hasattr(os, "memfd_create"):
            return None
        is_confined = command.is_confined
        start = command.boundary.cwd if command.boundary is not None else command.cwd
        argv = login_env.capture_argv(self._shell.path)
        probe = Command(argv=argv, cwd=start, boundary=command.boundary)
        printed = os.memfd_create("login-capture", os.MFD_CLOEXEC)
        try:
            running = await self._spawn(
                probe, lambda _: None, None, mark=None if is_confined else _PROFILE_MARK, output_file=printed
            )
            try:
                # Shielded: `finished` belongs to the program. Cancelled with this task, it would never tell its end.
                code = await asyncio.shield(running.finished)
            except asyncio.CancelledError:
                if not is_confined:
                    running.abandon()
                raise
            output = os.pread(printed, login_env.CAPTURE_BYTES + 1, 0)
        except (OSError, SandboxUnavailable):
            return None  # the command itself will say what is wrong
        finally:
            os.close(printed)
        if code != 0 or len(output) > login_env.CAPTURE_BYTES:
            return None
        captured = login_env.read_capture(output, start)
        if captured is not None:
            captured.env.pop(kill.MARK_NAME, None)
            captured.env.pop(NETWORK_DISABLED, None)
            for name in [name for name in captured.env if name in self._withheld or is_loader_variable(name)]:
                del captured.env[name]
        return captured
