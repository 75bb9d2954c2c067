"""One program to run, as a tool asks for it."""

from __future__ import annotations

import errno
import os
from collections.abc import Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from spindle.policy.sandbox import Boundary, absolute

if TYPE_CHECKING:
    from spindle.process.running import Running


class ShellLike(Protocol):
    """The user's shell, as `spindle.workspace.shell` finds it."""

    @property
    def name(self) -> str: ...
    @property
    def path(self) -> str: ...


class CommandWatch(Protocol):
    """Wants to know when commands run that may write files."""

    def concerns(self, command: Command) -> bool:
        """Asked before every command; costs next to nothing."""
        ...

    async def around(self, command: Command, start: Coroutine[Any, Any, Running]) -> Running:
        """Start such a command, when it may start; it is over when what runs has finished."""
        ...


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """One program to run."""

    argv: Sequence[str]
    cwd: str
    boundary: Boundary | None
    """What it may reach; made from the turn's settings, whatever `cwd` the model asked for. None: outside of any
    sandbox, because a person or a rule said so."""
    tty: bool = False
    size: tuple[int, int] | None = None
    """Rows and columns of the terminal, if not the usual ones."""
    input_file: int | None = None
    """A descriptor that is its standard input; without one there is nothing to read. Not with a terminal."""
    error_file: int | None = None
    """A descriptor that takes standard error; None: it shares one stream with standard output."""

    @property
    def is_confined(self) -> bool:
        return self.boundary is not None and not self.boundary.is_full_access

    @property
    def is_let_out(self) -> bool:
        """A person or a rule let it out: all that may still hold is what is denied by name."""
        return self.boundary is None or self.boundary.is_let_out

    @property
    def lacks_network(self) -> bool:
        return self.boundary is not None and not self.boundary.is_full_access and not self.boundary.has_network


def check_startable(argv: Sequence[str], cwd: str, env: Mapping[str, str]) -> None:
    """Raise the OSError that starting would end in; a launcher would report it as a failure of its own."""
    program = argv[0]
    if any("\0" in word for word in argv):
        raise OSError(errno.EINVAL, "an argument contains a NUL character", program)
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
