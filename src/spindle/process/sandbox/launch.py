"""What a back end hands to those who start programs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

Popen = subprocess.Popen[bytes]


def _nothing() -> None:
    """There is nothing to tidy up."""


def _here(start: Callable[[], Popen]) -> Popen:
    return start()


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """A command ready to start, once."""

    argv: Sequence[str]
    env: Mapping[str, str]
    sandboxed: bool
    restores_signals: bool = False
    """The launcher may be started deaf to signals that end programs: it makes them work again for the command."""
    files: tuple[int, ...] = ()
    """Descriptors the launcher needs; ours until it is started."""
    report: int = -1
    """Where a launcher tells that the command ran: a descriptor to read at its end; whoever starts it closes it."""
    start: Callable[[Callable[[], Popen]], Popen] = _here
    """Where to start it: in the thread whose rights it is to inherit."""
    release: Callable[[], None] = _nothing
    """Call once when the command is over (or could not be started): takes away what the sandbox needed on disk."""

    def popen(self, argv: Sequence[str], env: Mapping[str, str], files: tuple[int, ...] = (), **options: Any) -> Popen:
        """Start it. `argv` and `env` are its own, or its own with something in front; `files` go along."""
        words, variables = list(argv), dict(env)
        try:
            return self.start(
                lambda: subprocess.Popen(words, env=variables, close_fds=True, pass_fds=self.files + files, **options)
            )
        finally:
            for fd in self.files:
                os.close(fd)

    def never_ran(self, exit_code: int) -> bool:
        """Did the launcher end before the command began? Reads the report, once."""
        if self.report < 0:
            return False
        try:
            said = os.read(self.report, 4096)
        except BlockingIOError:
            said = b""
        return exit_code == 1 and b'"exit-code"' not in said
