"""The fence around a command: which back end this machine offers, and the launcher it puts in front of the argv.

`plan()` is the only door; `plan_now()` is the same one for callers without an event loop. It answers with a launch that
is confined as the policy says, or raises `SandboxUnavailable`; it never gives less than was asked for. The ladder:
bubblewrap on Linux, the system's own sandbox on macOS, Landlock if the user accepted it by name, and then nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import cast

from spindle.errors import SandboxUnavailable
from spindle.policy.sandbox import Boundary, Fence
from spindle.process.sandbox.launch import Backend, Launch, Wanted
from spindle.protocol.quote import visible

__all__ = ["Launch", "backend_of", "found_problem", "plan", "plan_now", "problem", "problem_now"]

_tried: dict[str, str | None] = {}
"""What `problem` found, by the back end that the user chose."""
_OTHERWISE = "approve the command to run it without one, or use the danger-full-access mode"
_LADDER = {
    ("auto", "linux"): "bubblewrap",
    ("bwrap", "linux"): "bubblewrap",
    ("landlock", "linux"): "landlock",
    ("auto", "darwin"): "seatbelt",
}
"""The back end for what the user chose on a system. A new one is a module that is a `Backend`, and its row here."""
_SENTENCES = {
    "landlock": "the Landlock back end cannot be used ({}), so nothing was run; " + _OTHERWISE,
    "seatbelt": "macOS cannot confine commands here ({}), so nothing was run; " + _OTHERWISE,
}
"""Where the problem of a back end is not yet a sentence for a person."""


async def plan(
    argv: Sequence[str], *, boundary: Boundary | None, cwd: str, env: Mapping[str, str], home: str, tty: bool
) -> Launch:
    """How to start `argv`. `boundary` None means that a person or a rule let it out of the sandbox.

    `cwd` is where the command starts, which need not be the turn's working directory.
    """
    if boundary is None or boundary.is_full_access:
        return _outside(argv, env)
    wanted = Wanted(argv=argv, boundary=boundary, cwd=cwd, env=env, home=home, tty=tty)
    return _confined(wanted, await problem(boundary.fence))


def plan_now(
    argv: Sequence[str], *, boundary: Boundary, cwd: str, env: Mapping[str, str], home: str, tty: bool
) -> Launch:
    """The same for a program that has nothing else to do meanwhile."""
    if boundary.is_full_access:
        return _outside(argv, env)
    wanted = Wanted(argv=argv, boundary=boundary, cwd=cwd, env=env, home=home, tty=tty)
    return _confined(wanted, problem_now(boundary.fence))


def _outside(argv: Sequence[str], env: Mapping[str, str]) -> Launch:
    from spindle.process.sandbox import none  # only where nothing confines the command

    _hide_this_process()
    return none.launch(argv, env)


def _confined(wanted: Wanted, reason: str | None) -> Launch:
    _hide_this_process()
    if reason is not None:
        raise SandboxUnavailable(reason)
    if (doubt := wanted.boundary.doubt()) is not None:
        raise SandboxUnavailable(
            f"{visible(doubt)}, so what git would obey there is not known and nothing was run; "
            "write that file anew, or use the read-only mode"
        )
    return _load(backend_of(wanted.boundary.fence)).launch(wanted)


def _load(name: str) -> Backend:
    from importlib import import_module  # only the back end in use is loaded

    return cast(Backend, import_module(f"{__name__}.{name}"))


def _hide_this_process() -> None:
    """Before any command runs: what this process knows, keys among it, is not for commands that run beside it."""
    if sys.platform == "linux":
        from spindle.process.sandbox import kernel  # loads ctypes, which is slow: not before the first command

        kernel.hide_from_other_processes()


def backend_of(fence: Fence, system: str = sys.platform) -> str:
    """The one back end that is used where it works: a module of this package, or "none"."""
    return _LADDER.get((fence.backend, system), "none")


def found_problem(fence: Fence) -> str | None:
    """What `problem` found; None also as long as nothing was tried. Runs nothing."""
    return _tried.get(fence.backend)


async def problem(fence: Fence | None = None) -> str | None:
    """Why no sandbox can be started here, in one sentence; None when one can. Tried once per process, by running it."""
    fence = fence or Fence()
    if fence.backend not in _tried:
        import asyncio  # whoever awaits this has it

        _tried[fence.backend] = await asyncio.to_thread(problem_now, fence)
    return _tried[fence.backend]


def problem_now(fence: Fence) -> str | None:
    """The same without an event loop."""
    name = backend_of(fence)
    if name != "none":
        reason = _load(name).problem()
        if reason is None:
            return None
        sentence = _SENTENCES.get(name, "{}").format(reason)
        return _with_offer(sentence) if (name, fence.backend) == ("bubblewrap", "auto") else sentence
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
