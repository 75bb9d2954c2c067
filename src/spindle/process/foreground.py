"""Run one command with the streams and the terminal of this process, as a shell would: nothing is captured.

The command is in a process group of its own, so that a signal it sends to its group stays inside. On a terminal that
group is given the foreground when the command needs it, is stopped and continued with this process, and the terminal
comes back at the end.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

from spindle.errors import SandboxUnavailable
from spindle.process import kill, spawn
from spindle.process.sandbox.launch import Launch

_ENDING = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
"""Meant for the command. A launcher between it and us would die of them, and end the command without a farewell."""
_PASSED_ON = (*_ENDING, signal.SIGWINCH, signal.SIGTSTP)
_WANTS_TERMINAL = (signal.SIGTTIN, signal.SIGTTOU)


def has_terminal() -> bool:
    """Whether this process has a controlling terminal that a command could share."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def run(launch: Launch, *, cwd: str, shares_terminal: bool) -> int:
    """Start it, wait for its end, and tell its exit code; 128+n after signal n.

    Raises OSError if it cannot start, SandboxUnavailable if its launcher ended before the command began.
    """
    terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC) if shares_terminal else -1
    before = {number: signal.getsignal(number) for number in (*_PASSED_ON, signal.SIGTTOU)}
    try:
        with _together(launch) as mark:
            job = _Job(_start(launch, mark, cwd, shares_terminal=shares_terminal), terminal)
            for number in _PASSED_ON:
                if before[number] is not signal.SIG_IGN:  # as under nohup, or in the background of a script
                    signal.signal(number, job.pass_on)
            code = job.wait()
        if launch.never_ran(code):
            raise SandboxUnavailable("the sandbox could not be set up, so nothing was run; its launcher said why")
        return code
    finally:
        for number, action in before.items():
            signal.signal(number, action)
        if terminal >= 0:
            os.close(terminal)
        launch.release()


@contextmanager
def _together(launch: Launch) -> Iterator[kill.Mark | None]:
    """What the command leaves behind ends with it, and all of it ends with us. A launcher sees to that by itself."""
    if launch.has_launcher:
        yield None
        return
    from spindle.process.watchdog import Watchdog  # only without a launcher

    mark = kill.Mark(int.from_bytes(os.urandom(5), "big") | 1 << 5)  # the first few are reserved
    kill.become_subreaper()
    watchdog = Watchdog(mark)
    try:
        yield mark
    finally:
        kill.kill_leftovers(mark)
        watchdog.close()


def _start(launch: Launch, mark: kill.Mark | None, cwd: str, *, shares_terminal: bool) -> subprocess.Popen[bytes]:
    # What is ignored now is ignored by the launcher for good; inside, the signals are switched on again.
    for number in _ENDING if launch.restores_signals else ():
        signal.signal(number, signal.SIG_IGN)

    def start(env: Mapping[str, str]) -> subprocess.Popen[bytes]:
        return spawn.begin(
            launch,
            launch.argv,
            env,
            cwd=cwd,
            start_new_session=not shares_terminal,
            process_group=0 if shares_terminal else None,
        )

    if mark is None:
        return start(launch.env)
    with kill.marking(mark):
        return start({**launch.env, kill.MARK_NAME: mark.text})


class _Job:
    """The command as a shell's job. `terminal` is a descriptor, or -1."""

    def __init__(self, popen: subprocess.Popen[bytes], terminal: int) -> None:
        self._popen = popen
        self._group = popen.pid
        self._terminal = terminal
        self._holds_terminal = False
        self._was_continued = False

    def pass_on(self, number: int, _: FrameType | None) -> None:
        self._signal(self._group, number)

    def wait(self) -> int:
        if self._terminal >= 0:
            signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # else taking the terminal back would stop us
            if os.isatty(0) and os.isatty(1):
                self._give_terminal(self._group)
        try:
            while True:
                _, status = os.waitpid(self._popen.pid, os.WUNTRACED)
                if not os.WIFSTOPPED(status):
                    break
                self._stopped(os.WSTOPSIG(status))
        finally:
            self._take_terminal()
        code = os.waitstatus_to_exitcode(status)
        self._popen.returncode = code
        return code if code >= 0 else 128 - code

    def _stopped(self, number: int) -> None:
        if number in _WANTS_TERMINAL and not self._holds_terminal and self._give_terminal(self._group):
            self._signal(self._group, signal.SIGCONT)
            return
        foreground = self._take_terminal()
        if not self._stop_too() and number in _WANTS_TERMINAL:
            self._signal(self._group, signal.SIGHUP)  # nobody can ever give it what it waits for
        if foreground or number in _WANTS_TERMINAL:
            self._give_terminal(foreground or self._group)
        for group in {self._group, foreground or self._group}:
            self._signal(group, signal.SIGCONT)

    def _stop_too(self) -> bool:
        """Stop the whole job that a shell started as us, until it is continued.

        False when there is no such shell: then the kernel drops the signal.
        """
        self._was_continued = False
        signal.signal(signal.SIGCONT, self._note_continued)
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(0, signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, self.pass_on)
        signal.signal(signal.SIGCONT, signal.SIG_DFL)
        return self._was_continued

    def _note_continued(self, number: int, _: FrameType | None) -> None:
        self._was_continued = True

    def _give_terminal(self, group: int) -> bool:
        """Only what is ours can be given: a job in the background has no terminal to give."""
        if self._terminal < 0 or self._foreground() != os.getpgrp():
            return False
        try:
            os.tcsetpgrp(self._terminal, group)
        except OSError:
            return False
        self._holds_terminal = True
        return True

    def _take_terminal(self) -> int:
        """Back to our own group; the answer is the group that had it, 0 if the command did not."""
        if not self._holds_terminal:
            return 0
        self._holds_terminal = False
        had = self._foreground()
        try:
            os.tcsetpgrp(self._terminal, os.getpgrp())
        except OSError:
            pass  # the terminal is gone
        return had

    def _foreground(self) -> int:
        try:
            return os.tcgetpgrp(self._terminal)
        except OSError:
            return 0

    @staticmethod
    def _signal(group: int, number: int) -> None:
        try:
            os.killpg(group, number)
        except OSError:
            pass  # it is over
