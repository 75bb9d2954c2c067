"""One program to run, as a tool asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from spindle.policy.sandbox import Boundary


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
    boundary: Boundary | None
    """What it may reach; made from the turn's settings, whatever `cwd` the model asked for. None: outside of any
    sandbox, because a person or a rule said so."""
    tty: bool = False

    @property
    def is_confined(self) -> bool:
        return self.boundary is not None and not self.boundary.is_full_access

    @property
    def lacks_network(self) -> bool:
        return self.boundary is not None and not self.boundary.is_full_access and not self.boundary.has_network
