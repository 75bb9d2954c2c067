"""One program to run, as a tool asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from spindle.protocol.settings import SandboxPolicy


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
