"""Programs that live beside a thread and talk to us over pipes; ended with everything they started.

They are the user's own programs (MCP servers), not the model's commands: no shell, an environment that the caller has
chosen, and no sandbox, unless the model could have written them. When this process is killed, a watchdog ends them.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

from spindle.policy.sandbox import Boundary
from spindle.process import kill
from spindle.process.watchdog import Watchdog
from spindle.protocol.clock import Clock

_PIPES: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
_POLL_S = 0.01
_TERM_GRACE_S = 0.2


class Companion:
    """One running program. `stdin`, `stdout` and `stderr` are its pipes."""

    def __init__(
        self, popen: subprocess.Popen[bytes], mark: kill.Mark, release: Callable[[], None] = lambda: None
    ) -> None:
        """`release` takes away what its sandbox needed."""
        self._release = release
        assert popen.stdin is not None and popen.stdout is not None and popen.stderr is not None
        self._popen = popen
        self._mark = mark
        self.stdin: IO[bytes] = popen.stdin
        self.stdout: IO[bytes] = popen.stdout
        self.stderr: IO[bytes] = popen.stderr
        kill.note_leader(popen.pid)

    @property
    def exit_code(self) -> int | None:
        return self._popen.poll()

    async def stop(self, grace_s: float) -> None:
        """End it and everything it started. Whoever closed its input gives it `grace_s` to see that for itself."""
        if not await self.ends_within(grace_s):
            kill.signal_tree([self._popen.pid], self._mark, 15)
            await self.ends_within(_TERM_GRACE_S)
        self.kill()

    def kill(self) -> None:
        """End it now, without waiting for anything."""
        leaders = [self._popen.pid] if self._popen.poll() is None else []
        kill.kill_tree(leaders, self._mark)
        release, self._release = self._release, lambda: None
        release()
        if leaders:
            try:
                self._popen.wait(1.0)
            except subprocess.TimeoutExpired:
                return  # stuck in the kernel, on a dead network disk: not ours to wait for
        kill.note_leader(self._popen.pid, is_over=True)

    async def ends_within(self, within_s: float) -> bool:
        """Wait for its end, but no longer than that."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within_s
        while self._popen.poll() is None:
            if loop.time() >= deadline:
                return False
            await asyncio.sleep(_POLL_S)
        return True


class Companions:
    """Starts the programs that live beside one thread."""

    def __init__(self, clock: Clock) -> None:
        self._table = 16 + int(clock.random() * ((1 << 40) - 16))  # the first few are reserved
        self._count = 0
        self._watchdog: Watchdog | None = None

    def start(self, argv: Sequence[str], env: Mapping[str, str], cwd: str) -> Companion:
        """Start `argv[0]`, an absolute path. Raises OSError when it cannot be executed."""
        mark = self._next_mark()
        with kill.marking(mark):
            popen = subprocess.Popen(
                list(argv),
                env={**env, kill.MARK_NAME: mark.text},
                cwd=cwd,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        return self._watched(Companion(popen, mark))

    async def start_confined(
        self, argv: Sequence[str], env: Mapping[str, str], cwd: str, *, boundary: Boundary, home: str
    ) -> Companion:
        """The same inside of the sandbox. Raises SandboxUnavailable when it cannot be confined."""
        from spindle.process import sandbox, spawn  # only for programs that the agent could have written
        from spindle.process.sandbox.launch import Wanted  # the same

        wanted = Wanted(argv=argv, boundary=boundary, cwd=cwd, env=env, home=home, tty=False)
        launch = (await sandbox.back_end(boundary)).launch(wanted)
        mark = self._next_mark()
        try:
            env = {**launch.env, kill.MARK_NAME: mark.text}
            with kill.marking(mark):
                popen = spawn.begin(launch, launch.argv, env, cwd=cwd, start_new_session=True, **_PIPES)
        except BaseException:
            launch.release()
            raise
        return self._watched(Companion(popen, mark, launch.release))

    def _next_mark(self) -> kill.Mark:
        self._count += 1
        return kill.Mark(self._table, self._count)

    def _watched(self, companion: Companion) -> Companion:
        if self._watchdog is None:
            try:
                self._watchdog = Watchdog(kill.Mark(self._table))
            except OSError:
                companion.kill()
                raise
        return companion

    def close(self) -> None:
        """Nothing of ours runs any more."""
        if self._watchdog is not None:
            self._watchdog.close()
            self._watchdog = None
