"""How a command gets started: the user's environment, the sandbox around it, and the process itself.

Loaded with the first command of a process, so that starting the agent does not pay for it. Which commands are alive
and who may come back to them is `table`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from spindle.policy.commands import needed, safe_environment
from spindle.policy.environment import NETWORK_DISABLED
from spindle.process import kill, sandbox, spawn
from spindle.process.command import Command, ShellLike, check_startable
from spindle.process.login_env import LoginShell, setup_file
from spindle.process.running import Running, stop_all
from spindle.process.sandbox.launch import Wanted
from spindle.process.sandbox.placeholders import placeholders_of

if TYPE_CHECKING:
    from spindle.process.watchdog import Watchdog

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
        self._login = LoginShell(shell, withheld)
        self._environment = environment
        self._home = home
        self._mark = mark
        self._running: dict[Running, Callable[[], None]] = {}
        """What runs, and how to take away what its sandbox needed."""
        self._lingering: list[Callable[[], None]] = []
        self._lingering_longer: list[Callable[[], None]] = []
        """The same for what ended a moment ago, and for what ended before the timer last went off."""
        self._tidying: asyncio.TimerHandle | None = None
        self._count = 0
        self._watchdog: Watchdog | None = None
        """There once a command was started that does not die with us by itself."""

    async def launch(
        self,
        command: Command,
        on_output: Callable[[bytes], None],
        *,
        mark: kill.Mark | None = None,
        output_file: int | None = None,
    ) -> Running:
        """Start it. Raises OSError when it cannot be executed, SandboxUnavailable when it cannot be confined.

        With an `output_file` it is the look at what a profile sets, which has its own `mark` outside of a sandbox.
        """
        login = None if output_file is not None else await self._login.environment(command, self.launch)
        argv = self._login.words(command, login)
        env = dict(self._environment if login is None else login.env)
        env["PWD"] = command.cwd
        if command.lacks_network:
            env[NETWORK_DISABLED] = "1"
        env |= safe_environment(command.argv, env)
        setup = () if login is None or not login.setup else (setup_file(login),)
        if setup:
            env["BASH_ENV"] = f"/proc/self/fd/{setup[0]}"
        try:
            check_startable(argv, command.cwd, env)
            if command.is_let_out or not command.is_confined:
                self.let_go()  # a placeholder would be in the way of what a person let out
            reach = needed(command.argv, command.boundary, reads_profile=login is None)
            wanted = Wanted(argv=argv, boundary=reach, cwd=command.cwd, env=env, home=self._home, tty=command.tty)
            back_end = await sandbox.back_end(reach)
            launch = back_end.launch(wanted)
            self._count += 1
            spec = spawn.SpawnSpec(
                launch=launch,
                cwd=command.cwd,
                mark=mark or kill.Mark(self._mark, self._count),
                tty=command.tty,
                size=command.size,
                pass_fds=setup,
                output_file=output_file,
                input_file=command.input_file,
                error_file=command.error_file,
            )
            try:
                if not launch.has_launcher:
                    self._watch_over()
                running = Running(spec, *spawn.start(spec), on_output)
            except BaseException:
                launch.release()
                raise
        finally:
            for fd in setup:
                os.close(fd)
        self._running[running] = launch.release
        running.finished.add_done_callback(lambda _: self._over(running))
        return running

    def prepare(self, command: Command) -> None:
        """Begin with what `launch` waits for."""
        self._login.prepare(command, self.launch)

    async def aclose(self) -> None:
        """Kill everything that was started, daemons included."""
        await asyncio.gather(*self._login.cancel(), return_exceptions=True)
        everything = kill.Mark(self._mark)
        # Without a watchdog every command had a launcher, whose namespace took along what it left behind.
        is_done = True
        if self._running:
            is_done = await stop_all(tuple(self._running), everything)
        elif self._watchdog is not None:
            is_done = kill.kill_leftovers(everything)
        self._tidy(is_done=is_done)

    def kill_all(self) -> None:
        """The same without waiting for anything: this process is about to end."""
        self._login.cancel()
        leaders = {one.pid for one in self._running if one.exit_code is None and not one.is_left_alone}
        is_done = kill.kill_tree(leaders, kill.Mark(self._mark))
        for running in tuple(self._running):
            self._running.pop(running)()
        self._tidy(is_done=is_done)

    def let_go(self) -> None:
        """Take away at once what the sandboxes of finished commands needed."""
        for release in (*self._lingering_longer, *self._lingering):
            release()
        self._lingering, self._lingering_longer = [], []

    def _tidy(self, *, is_done: bool) -> None:
        """`is_done`: nothing that was started is left. Else the watchdog stays, and ends it after us."""
        self.let_go()
        kill.reap_orphans()
        placeholders_of(self._home).close()
        if self._watchdog is not None and is_done:
            self._watchdog.close()
            self._watchdog = None

    def _watch_over(self) -> None:
        """Before a program runs that does not die with us by itself, as what a launcher started does.

        A daemon that it makes at once must become our child, and if we are killed right after, somebody must be there
        to end it.
        """
        if self._watchdog is None:
            from spindle.process.watchdog import Watchdog  # only for what no launcher confines

            kill.become_subreaper()
            self._watchdog = Watchdog(kill.Mark(self._mark))

    def _over(self, running: Running) -> None:
        """What its sandbox needed stays for a moment: the next command may need it too."""
        # `kill_all` may have released it already; twice would give back a placeholder that another command holds.
        if (release := self._running.pop(running, None)) is not None:
            self._lingering.append(release)
        if self._tidying is None:
            self._tidying = asyncio.get_running_loop().call_later(_LINGER_S, self._tidy_up)

    def _tidy_up(self) -> None:
        """Some time after commands ended, by one timer for all, so that none has to wait for this."""
        over, self._lingering_longer, self._lingering = self._lingering_longer, self._lingering, []
        self._tidying = None
        if self._lingering_longer:
            self._tidying = asyncio.get_running_loop().call_later(_LINGER_S, self._tidy_up)
        for release in over:
            release()
        kill.reap_orphans()
