"""Confinement on Linux with bubblewrap: own user, mount, process, IPC, host-name and network namespaces.

The launcher is executed directly, one per command, and dies with this process; `bubblewrap_here` is which one, and
what it can do. What a command sees of the file system is `mounts`, which system calls it cannot make is `seccomp`,
which sockets it may connect to is `sockets`, how much of the machine it may use is `limits`; `gate` is the last step
before the command.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from spindle.policy.sandbox import Boundary
from spindle.process.sandbox import gate, limits, seccomp
from spindle.process.sandbox.bubblewrap_here import (
    NO_NESTING,
    Here,
    memory_file,
    private_mounts,
    problem,
    signal_restorer,
    starter_here,
)
from spindle.process.sandbox.launch import Launch, Report, Wanted
from spindle.process.sandbox.mounts import Mounts
from spindle.process.sandbox.placeholders import placeholders_of
from spindle.process.sandbox.sockets import SocketRules

__all__ = ["launch", "problem"]  # what a `Backend` has


def launch(wanted: Wanted) -> Launch:
    """The command line that confines a command; `problem()` must have answered None before."""
    starter = starter_here()
    argv, boundary, env, cwd = wanted.argv, wanted.boundary, wanted.env, wanted.cwd
    assert boundary is not None
    if Here.has_gate:
        argv = gate.located(argv, env, cwd)
    placeholders = placeholders_of(wanted.home)
    has_tmpfs_options = NO_NESTING in Here.namespaces
    mounts = Mounts(boundary, placeholders, launcher=Here.program, has_tmpfs_options=has_tmpfs_options)
    inner_env, launcher_env = _split_loader_variables(_for_tools(env, cwd, mounts))
    inside = limits.inside(boundary.fence, argv)
    restorer = signal_restorer() if wanted.tty else ()
    if restorer:
        inside = [*restorer, *inside]
    passed: tuple[int, ...] = ()
    if Here.has_gate:
        passed = (gate.opened(mounts.roots),)
        inside = gate.through(passed[0], inside)
    filtered = memory_file("filter", seccomp.confinement(seccomp.machine(), unix=starter.watch is not None))
    heard, told = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    report = Report(heard)
    words = (
        *mounts.plan,
        *_separation(boundary, wanted.tty),
        *("--seccomp", str(filtered), "--json-status-fd", str(told)),
        *inner_env,
        *("--chdir", cwd),
    )
    plan = memory_file("plan", os.fsencode("\0".join(words)) + b"\0")
    group = limits.group(boundary.fence)

    leader = 0

    def note(pid: int) -> None:
        nonlocal leader
        leader = pid
        if starter.watch is not None:
            starter.watch.set_rules(pid, _socket_rules(boundary))

    def release() -> None:
        if starter.watch is not None:
            starter.watch.forget(leader)
        placeholders.release(mounts.held)
        group.remove()
        report.close()

    return Launch(
        argv=group.enter((*private_mounts(), Here.program, "--args", str(plan), "--", *inside)),
        env=launcher_env,
        is_confined=True,
        has_launcher=True,
        restores_signals=bool(restorer),
        files=(plan, filtered, told, *passed, *mounts.files),
        report=report,
        start=starter.spawner.call,
        note=note,
        release=release,
    )


def _separation(boundary: Boundary, tty: bool) -> tuple[str, ...]:
    """What the command does not share with us. A private terminal is already its own; a new session would lose it."""
    network = () if boundary.has_network else ("--unshare-net",)
    return (*Here.namespaces, *network, *(() if tty else ("--new-session",)))


def _socket_rules(boundary: Boundary) -> SocketRules:
    return SocketRules(roots=boundary.roots, allowed=boundary.fence.unix_sockets, own_network=not boundary.has_network)


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


def _for_tools(env: Mapping[str, str], cwd: str, mounts: Mounts) -> dict[str, str]:
    """The environment, with what two tools need to know of a sandbox.

    Go takes every `.git` for a repository, and a build fails where git finds none in it: in a placeholder. tar, for
    root, gives files to the owners they had elsewhere, for which root has no right here.
    """
    found = dict(env)
    flags = env.get("GOFLAGS", "")
    if (
        "-buildvcs" not in flags
        and any(path.endswith("/.git") for path in mounts.held)
        # A root is resolved already.
        and not _is_in_repository(cwd if cwd in mounts.roots else os.path.realpath(cwd), mounts.held)
    ):
        found["GOFLAGS"] = f"{flags} -buildvcs=false".lstrip()
    if os.getuid() == 0:
        found.setdefault("TAR_OPTIONS", "--no-same-owner")
    return found


def _is_in_repository(folder: str, held: Sequence[str]) -> bool:
    """Is a folder, given by its real path, inside a repository that is no placeholder of ours?"""
    while not os.path.lexists(f"{folder}/.git") or f"{folder}/.git" in held:
        if folder == "/":
            return False
        folder = os.path.dirname(folder)
    return True
