"""The fence around a command: which back end of this machine puts it up.

`back_end()` is the only door; `back_end_now()` is the same one for callers without an event loop. It answers with a
back end that confines as the boundary says, or raises `SandboxUnavailable`; it never gives less than was asked for.
The ladder: bubblewrap on Linux, the system's own sandbox on macOS, Landlock if the user accepted it by name, and then
nothing.
"""

from __future__ import annotations

import sys
from typing import cast

from spindle.errors import SandboxUnavailable
from spindle.policy.sandbox import Boundary, Fence
from spindle.process.sandbox.launch import Backend
from spindle.protocol.quote import visible

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


async def back_end(boundary: Boundary | None) -> Backend:
    """What starts a command inside `boundary`. None means that a person or a rule let it out of the sandbox."""
    if boundary is None or boundary.is_full_access:
        return _checked(None, None)
    return _checked(boundary, await problem(boundary.fence))


def back_end_now(boundary: Boundary) -> Backend:
    """The same for a program that has nothing else to do meanwhile."""
    if boundary.is_full_access:
        return _checked(None, None)
    return _checked(boundary, problem_now(boundary.fence))


def _checked(confines: Boundary | None, reason: str | None) -> Backend:
    """The back end for a boundary, if it can confine as that says; `reason` is why none can on this machine."""
    _hide_this_process()
    if confines is None:
        from spindle.process.sandbox import outside  # only where nothing confines the command

        return outside
    if reason is not None:
        raise SandboxUnavailable(reason)
    if (doubt := confines.doubt()) is not None:
        raise SandboxUnavailable(
            f"{visible(doubt)}, so nobody knows what git would obey there, and nothing was run; "
            "write that file again, or use the read-only mode"
        )
    return _load(backend_of(confines.fence))


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
