"""What a case is. Loaded inside the sandbox too, so only the standard library, and little of it.

An *attack* is a function of a `Place` that tries to reach something outside. It says nothing about the result: that is
judged from outside, by what it `watches` (paths whose state must not change) and by `seen` (a function of the judge
that looks at listeners, processes, terminals). Where the effect cannot be seen from outside, because the kernel would
hand it to the process itself, the attack calls `place.reached()`.

A *work* case is ordinary development; it must end without an exception.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

MODES = ("read-only", "workspace-write", "workspace-write+network")
WITHOUT_NETWORK = MODES[:2]
WRITING = MODES[1:]
USERS = ("root", "user")


class Place(SimpleNamespace):
    """Where a case runs: the paths of its arena (`Arena.facts`), its own `mark` and `canary`, and the host's services.

    `bare` is True in the positive control: steps that loosen the fence itself have nothing to loosen there.
    """

    def reached(self, what: str = "") -> None:
        """Say on the runner's output that something was reached that nobody outside can see."""
        os.write(self.report, f"REACHED {self.case} {what}\n".replace("\0", "").encode())

    def loosen(self, *steps: Callable[[], Any]) -> None:
        """Try each step that could widen the fence; whether it helped shows in what follows."""
        if not self.bare:
            for step in steps:
                try:
                    step()
                except (OSError, AttributeError):
                    pass


class Attack(NamedTuple):
    name: str
    area: str
    body: Callable[[Any], None]
    watches: tuple[str, ...]
    """Templates of paths (`{canary}`, `{ws}/.git`), compared with their state before, folders with all they hold."""
    seen: Callable[[Any, str], str | None] | None
    """Called outside with the arena and the case's mark; what was seen of the attack, or None."""
    modes: tuple[str, ...]
    """Where it must be blocked; elsewhere it is allowed, and not run."""
    arena: str
    """Which kind of arena it needs, see `arena.KINDS`."""
    users: tuple[str, ...]
    no_control: dict[str, str]
    """User -> why the attack cannot succeed bare on a healthy machine (or must not be tried)."""
    prepare: Callable[[Any, str], None] | None
    """Called outside, before, with the arena and the name of the case."""


class Work(NamedTuple):
    name: str
    area: str
    body: Callable[[Any], None]
    needs: tuple[str, ...]
    """Programs without which there is nothing to try."""
    modes: tuple[str, ...]
    users: tuple[str, ...]
    is_slow: bool
    """Takes so long that one way of running it must do."""


ATTACKS: dict[str, Attack] = {}
WORKS: dict[str, Work] = {}


def attack(
    *watches: str,
    seen: Callable[[Any, str], str | None] | None = None,
    modes: tuple[str, ...] = MODES,
    arena: str = "present",
    users: tuple[str, ...] = USERS,
    no_control: str | dict[str, str] = "",
    prepare: Callable[[Any, str], None] | None = None,
) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
    """Register an attack; its function's name says what it does."""

    def register(body: Callable[[Any], None]) -> Callable[[Any], None]:
        reasons = {"root": no_control, "user": no_control} if isinstance(no_control, str) else no_control
        name, area = body.__name__, body.__module__.rsplit(".", 1)[-1]
        assert name not in ATTACKS, name
        ATTACKS[name] = Attack(
            name, area, body, watches, seen, modes, arena, users, {k: v for k, v in reasons.items() if v}, prepare
        )
        return body

    return register


def work(
    *needs: str, modes: tuple[str, ...] = WRITING, users: tuple[str, ...] = USERS, is_slow: bool = False
) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
    """Register ordinary work that the fence must not disturb."""

    def register(body: Callable[[Any], None]) -> Callable[[Any], None]:
        name, area = body.__name__, body.__module__.rsplit(".", 1)[-1]
        assert name not in WORKS, name
        WORKS[name] = Work(name, area, body, needs, modes, users, is_slow)
        return body

    return register
