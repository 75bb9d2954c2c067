"""The fence around a command: which back end this machine offers, and the launcher it puts in front of the argv.

`plan()` is the only door. It answers with a launch that is confined as the policy says, or raises
`SandboxUnavailable`; it never answers with less than was asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from spindle.errors import SandboxUnavailable
from spindle.policy.sandbox import Boundary
from spindle.process.sandbox import bubblewrap, none
from spindle.process.sandbox.launch import Launch

__all__ = ["Launch", "plan", "problem"]


async def plan(
    argv: Sequence[str],
    *,
    boundary: Boundary | None,
    cwd: str,
    env: Mapping[str, str],
    home: str,
    tty: bool,
) -> Launch:
    """How to start `argv`. `boundary` None means that a person or a rule let it out of the sandbox.

    `cwd` is where the command starts, which need not be the turn's working directory.
    """
    if boundary is None or boundary.is_full_access:
        return none.launch(argv, env)
    reason = await problem()
    if reason is not None:
        raise SandboxUnavailable(reason)
    return bubblewrap.launch(argv, boundary=boundary, cwd=cwd, env=env, home=home, tty=tty)


async def problem() -> str | None:
    """Why no sandbox can be started here, in one sentence; None when one can. Tried once per process, by running it."""
    if sys.platform != "linux":
        return (
            f"no sandbox is available on {sys.platform} yet, so nothing was run; approve the command to run it "
            "without one, or use the danger-full-access mode"
        )
    return await bubblewrap.problem()
