"""What a back end is, what it is asked for, and what it hands to those who start programs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from spindle.policy.sandbox import Boundary

Popen = subprocess.Popen[bytes]


def _nothing() -> None:
    """There is nothing to tidy up."""


def _ignore(_: int) -> None:
    """Nobody wants to know."""


def _here(start: Callable[[], Popen]) -> Popen:
    return start()


class Report:
    """Where a launcher tells that the command began, and how it ended."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._said = b""

    def has_begun(self) -> bool:
        if self._fd >= 0:
            try:
                self._said += os.read(self._fd, 4096)
            except BlockingIOError:
                pass
        return b'"exit-code"' in self._said

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """A command ready to start, once."""

    argv: Sequence[str]
    env: Mapping[str, str]
    is_confined: bool
    has_launcher: bool = False
    """The first process is a launcher, deaf to what is meant for the command, and its death ends the command."""
    restores_signals: bool = False
    """The launcher may be started deaf to signals that end programs: it makes them work again for the command."""
    files: tuple[int, ...] = ()
    """Descriptors the launcher needs; ours until it is started."""
    report: Report | None = None
    start: Callable[[Callable[[], Popen]], Popen] = _here
    """Where to start it: in the thread whose rights it is to inherit."""
    note: Callable[[int], None] = _ignore
    """Hears the number of the process that was started."""
    release: Callable[[], None] = _nothing
    """Call once when the command is over (or could not be started): takes away what the sandbox needed on disk."""

    def never_ran(self, exit_code: int) -> bool:
        """Did the launcher end before the command began? To be asked when it is over."""
        return exit_code == 1 and self.report is not None and not self.report.has_begun()


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A command that is to run inside its boundary, or outside of any because a person or a rule let it out."""

    argv: Sequence[str]
    boundary: Boundary | None
    cwd: str
    """Where the command starts, which need not be the turn's working directory."""
    env: Mapping[str, str]
    home: str
    """The agent's own folder."""
    tty: bool


class Backend(Protocol):
    """One way to confine commands. A module of this package that has these two functions is one."""

    def problem(self) -> str | None:
        """Why it cannot be used on this machine; None when it can. Tries it, which may take a moment."""
        ...

    def launch(self, wanted: Wanted) -> Launch:
        """How to start the command so that it is confined as its boundary says; SandboxUnavailable when it cannot be.

        Only asked for a boundary that confines, and where `problem` found none. Never gives less than the boundary
        asks for.
        """
        ...
