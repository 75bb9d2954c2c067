"""Follow a program that was started to its end on the event loop, and end it before that if somebody wants so.

A program is over when its leader has exited and its output has ended or been silent for a moment: a child left in the
background that still holds the pipe cannot keep us waiting.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Sequence

from spindle.process import kill
from spindle.process.sandbox.launch import Popen
from spindle.process.spawn import SpawnSpec

_CHUNK = 256 * 1024
_SILENCE_S = 0.05
_DRAIN_LIMIT_S = 0.5
_DRAIN_READS = 64
_GRACE_S = 0.05
_KILL_WAIT_S = 1.0


class Running:
    """A started program. `returncode` is set, and `finished` done, when it is over; 128+n after signal n."""

    def __init__(self, spec: SpawnSpec, popen: Popen, fd: int, on_output: Callable[[bytes], None]) -> None:
        """`fd` is where its output is read from, -1 if nobody reads it."""
        self._loop = asyncio.get_running_loop()
        self._spec = spec
        self._popen = popen
        self._fd = fd
        self._on_output = on_output
        self._silence: asyncio.TimerHandle | None = None
        self._deadline = 0.0
        self._pidfd = -1
        self._killed = False
        self.pid = popen.pid
        # At once: `reap_orphans` takes the exit status of marked children that nobody waits for, and it is marked.
        kill.note_leader(self.pid)
        self.tty = spec.tty
        self.never_ran = False
        """The sandbox could not be set up: what was printed is its launcher's complaint."""
        self.exit_code: int | None = None
        """Known a moment before `finished`, while the last output is still being read."""
        self.finished: asyncio.Future[int] = self._loop.create_future()
        if fd >= 0:
            self._loop.add_reader(fd, self._readable)
        self._watch_exit()

    # ---- the end of the leader ---------------------------------------------------------------------

    def _watch_exit(self) -> None:
        try:
            self._pidfd = os.pidfd_open(self.pid)  # pyright: ignore[reportAttributeAccessIssue]
        except (AttributeError, OSError):
            self._watch_exit_in_a_thread()
            return
        self._loop.add_reader(self._pidfd, self._leader_exited)

    def _watch_exit_in_a_thread(self) -> None:
        import threading  # already loaded by asyncio; named here because only old kernels and macOS need it

        def wait() -> None:
            self._popen.wait()
            try:
                self._loop.call_soon_threadsafe(self._leader_exited)
            except RuntimeError:
                pass  # the loop is closed; nobody is waiting any more

        threading.Thread(target=wait, name=f"wait-{self.pid}", daemon=True).start()

    def _leader_exited(self) -> None:
        # With a pidfd it is reaped here and nowhere else. Until then its number stays its own: while `exit_code` is
        # None, a signal to it reaches nobody else.
        code = self._popen.poll()
        if code is None:
            return
        self._stop_watching()
        self.exit_code = code if code >= 0 else 128 - code
        self.never_ran = self._spec.launch.never_ran(code) and not self._killed
        if self.finished.cancelled():
            return
        # What it printed is in the pipe by now. Bounded: a child that it left behind may print faster than we read.
        for _ in range(_DRAIN_READS):
            if self._fd < 0 or not self._read_once():
                break
        if self._fd < 0 or self._killed:
            self._finish()
            return
        self._deadline = self._loop.time() + _DRAIN_LIMIT_S
        self._silence = self._loop.call_later(_SILENCE_S, self._finish)

    def _stop_watching(self) -> None:
        """Nobody waits for the leader any more."""
        kill.note_leader(self.pid, is_over=True)
        if self._pidfd >= 0:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1

    def _finish(self) -> None:
        if self._silence is not None:
            self._silence.cancel()
        self._close_output()
        if not self.finished.done():
            assert self.exit_code is not None
            self.finished.set_result(self.exit_code)

    # ---- output ------------------------------------------------------------------------------------

    def _readable(self) -> None:
        got_more = self._read_once()
        if self.exit_code is None:
            return
        if self._fd < 0 or self._loop.time() >= self._deadline:
            self._finish()
        elif got_more and self._silence is not None:
            self._silence.cancel()
            self._silence = self._loop.call_later(_SILENCE_S, self._finish)

    def _read_once(self) -> bool:
        """Read what is there; False when nothing is, or when the output has ended (then the descriptor is closed)."""
        try:
            data = os.read(self._fd, _CHUNK)
        except BlockingIOError:
            return False
        except OSError:  # a terminal whose last user is gone answers EIO
            data = b""
        if not data:
            self._close_output()
            return False
        self._on_output(data)
        return True

    def _close_output(self) -> None:
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1
            # Whoever listened knows this program: without each other, both go with their last user.
            self._on_output = _ignore

    # ---- what a caller may do ----------------------------------------------------------------------

    async def is_set_up(self, within_s: float) -> bool:
        """False when its sandbox could not be set up; a launcher that has not failed by then has started it."""
        try:
            await asyncio.wait((self.finished,), timeout=within_s)
        except asyncio.CancelledError:
            await self.stop()
            raise
        return not self.never_ran

    async def write(self, data: bytes, timeout_s: float) -> bool:
        """Type into the terminal; False when the program did not take all of it in time, or is over."""
        deadline = self._loop.time() + timeout_s
        while data:
            if self._fd < 0:
                return False
            try:
                data = data[os.write(self._fd, data) :]
            except BlockingIOError:
                if self._loop.time() >= deadline:
                    return False
                await asyncio.sleep(0.01)
            except OSError:
                return False
        return True

    def resize(self, rows: int, columns: int) -> None:
        """Give its terminal another size."""
        if self.tty and self._fd >= 0:
            from spindle.process import pty  # only for a program on a terminal

            pty.resize(self._fd, rows, columns)

    @property
    def is_confined(self) -> bool:
        return self._spec.launch.is_confined

    @property
    def is_left_alone(self) -> bool:
        """It is not a command of the model, and goes on when those are ended."""
        return self._spec.output_file is not None and not self._spec.launch.is_confined

    async def stop(self) -> int:
        """End the program and everything it started. Returns the exit code."""
        if self.finished.done():
            kill.kill_leftovers(self._spec.mark)
        else:
            await stop_all([self], self._spec.mark)
        return self.finished.result()

    def abandon(self) -> None:
        """Let it run to its own end, unwatched. Only for a program that has an output file."""
        if self.finished.done():
            return
        self._stop_watching()
        self._popen.returncode = 0  # nobody will ask; without it the interpreter complains about a child not waited for
        self.finished.cancel()

    def _give_up(self) -> None:
        """It is stuck in the kernel (a dead network disk): not ours to wait for."""
        if not self.finished.done():
            self.exit_code = 128 + signal.SIGKILL
            self._finish()


def _ignore(data: bytes) -> None:
    """What listens when nothing comes any more."""


async def stop_all(running: Sequence[Running], mark: kill.Mark) -> bool:
    """End several programs at once, with everything that carries `mark`: a chance to tidy up, then SIGKILL.

    False when something may be left.
    """
    leaders = {one.pid for one in running if one.exit_code is None}
    launchers = {one.pid for one in running if one._spec.launch.has_launcher}
    ends = [one.finished for one in running]
    for one in running:
        one._killed = True
    if leaders:
        # A launcher is spared: it is the parent of its namespace, and the kernel would kill all in it at once.
        kill.signal_tree(leaders, mark, signal.SIGTERM, spare=launchers)
        await asyncio.wait(ends, timeout=_GRACE_S)
    is_done = kill.kill_tree({one.pid for one in running if one.exit_code is None}, mark)
    await asyncio.wait(ends, timeout=_KILL_WAIT_S)
    for one in running:
        one._give_up()
    return is_done
