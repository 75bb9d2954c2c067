"""The fence around a command: which back end this machine offers, and the launcher it puts in front of the argv.

`plan()` is the only door; `plan_now()` is the same one for callers without an event loop. It answers with a launch that
is confined as the policy says, or raises `SandboxUnavailable`; it never gives less than was asked for. The ladder:
bubblewrap on Linux, the system's own sandbox on macOS, Landlock if the user accepted it by name, and then nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Literal

from spindle.errors import SandboxUnavailable
from spindle.policy.sandbox import Boundary, Fence
from spindle.process.sandbox.launch import Launch

__all__ = ["Launch", "backend_of", "plan", "plan_now", "problem", "problem_now"]

_tried: dict[str, str | None] = {}
"""What `problem` found, by the back end that the user chose."""
_OTHERWISE = "approve the command to run it without one, or use the danger-full-access mode"


async def plan(
    argv: Sequence[str], *, boundary: Boundary | None, cwd: str, env: Mapping[str, str], home: str, tty: bool
) -> Launch:
    """How to start `argv`. `boundary` None means that a person or a rule let it out of the sandbox.

    `cwd` is where the command starts, which need not be the turn's working directory.
    """
    reason = None if boundary is None or boundary.is_full_access else await problem(boundary.fence)
    return _planned(reason, argv, boundary=boundary, cwd=cwd, env=env, home=home, tty=tty)


def plan_now(
    argv: Sequence[str], *, boundary: Boundary, cwd: str, env: Mapping[str, str], home: str, tty: bool
) -> Launch:
    """The same for a program that has nothing else to do meanwhile."""
    reason = None if boundary.is_full_access else problem_now(boundary.fence)
    return _planned(reason, argv, boundary=boundary, cwd=cwd, env=env, home=home, tty=tty)


def _planned(
    reason: str | None,
    argv: Sequence[str],
    *,
    boundary: Boundary | None,
    cwd: str,
    env: Mapping[str, str],
    home: str,
    tty: bool,
) -> Launch:
    _hide_this_process()
    if boundary is None or boundary.is_full_access:
        from spindle.process.sandbox import none  # only the back end in use is loaded

        return none.launch(argv, env)
    if reason is not None:
        raise SandboxUnavailable(reason)
    match backend_of(boundary.fence):
        case "landlock":
            from spindle.process.sandbox import landlock  # only the back end in use is loaded

            return landlock.launch(argv, boundary=boundary, env=env)
        case "seatbelt":
            from spindle.process.sandbox import seatbelt  # only the back end in use is loaded

            return seatbelt.launch(argv, boundary=boundary, env=env)
        case _:
            from spindle.process.sandbox import bubblewrap  # only the back end in use is loaded

            return bubblewrap.launch(argv, boundary=boundary, cwd=cwd, env=env, home=home, tty=tty)


def _hide_this_process() -> None:
    """Before any command runs: what this process knows, keys among it, is not for commands that run beside it."""
    if sys.platform == "linux":
        from spindle.process.sandbox import kernel  # loads ctypes, which is slow: not before the first command

        kernel.hide_from_other_processes()


def backend_of(fence: Fence, system: str = sys.platform) -> Literal["bubblewrap", "landlock", "seatbelt", "none"]:
    """The one back end that is used where it works."""
    match fence.backend, system:
        case ("auto", "darwin"):
            return "seatbelt"
        case ("auto" | "bwrap", "linux"):
            return "bubblewrap"
        case ("landlock", "linux"):
            return "landlock"
        case _:
            return "none"


async def problem(fence: Fence | None = None) -> str | None:
    """Why no sandbox can be started here, in one sentence; None when one can. Tried once per process, by running it."""
    fence = fence or Fence()
    if fence.backend not in _tried:
        import asyncio  # whoever awaits this has it

        _tried[fence.backend] = await asyncio.to_thread(problem_now, fence)
    return _tried[fence.backend]


def problem_now(fence: Fence) -> str | None:
    """The same without an event loop."""
    match backend_of(fence):
        case "bubblewrap":
            from spindle.process.sandbox import bubblewrap  # only the back end in use is loaded

            reason = bubblewrap.problem()
            return reason if reason is None or fence.backend != "auto" else _with_offer(reason)
        case "landlock":
            from spindle.process.sandbox import landlock  # only the back end in use is loaded

            reason = landlock.problem()
            return reason and f"the Landlock back end cannot be used ({reason}), so nothing was run; {_OTHERWISE}"
        case "seatbelt":
            from spindle.process.sandbox import seatbelt  # only the back end in use is loaded

            reason = seatbelt.problem()
            return reason and f"macOS cannot confine commands here ({reason}), so nothing was run; {_OTHERWISE}"
        case "none":
            pass
    if fence.backend == "none":
        return (
            'there is no sandbox because of `backend = "none"` under [spindle.sandbox], so nothing was run; '
            + _OTHERWISE
        )
    if fence.backend == "auto":
        return f"no sandbox is available on {sys.platform}, so nothing was run; {_OTHERWISE}"
    return (
        f'the back end "{fence.backend}" of [spindle.sandbox] is for Linux, so nothing was run here; use "auto", or '
        + _OTHERWISE
    )


def _with_offer(reason: str) -> str:
    """The next step of the ladder is the user's to take, knowing what it lacks."""
    from spindle.process.sandbox import landlock  # only where bubblewrap fails

    version = landlock.abi()
    return reason if landlock.unusable(version) is not None else f"{reason}; {landlock.offer(version)}"
