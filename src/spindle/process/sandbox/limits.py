"""How much of the machine one confined command may use: processes and memory. Nothing is limited unless asked for.

A control group counts the whole command, where this process may make one. Elsewhere the shell's limits must do: the
number of processes is then counted for the command's own user namespace (not for user 0, whom the kernel does not
count), and memory for each process alone.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from spindle.policy.sandbox import Fence

_MOUNT = "/sys/fs/cgroup"
_ENTER = 'for group in $0; do echo $$ > "$group/cgroup.procs" || exit 1; done; exec "$@"'
_LIMITED = 'ulimit $0 || exit 1; exec "$@"'
_OLD_NAMES = {"memory.max": "memory.limit_in_bytes"}
_count = 0


class Group:
    """Control groups that a command is put into; none when there is nothing to limit."""

    def __init__(self, folders: Sequence[str] = ()) -> None:
        self._folders = tuple(folders)

    def enter(self, argv: Sequence[str]) -> tuple[str, ...]:
        """`argv` behind a shell that puts itself into the groups first."""
        if not self._folders:
            return tuple(argv)
        return ("/bin/sh", "-c", _ENTER, " ".join(self._folders), *argv)

    def remove(self) -> None:
        """Take the groups away again; what is still dying in them is waited for by the kernel, not by us."""
        for folder in self._folders:
            try:
                os.rmdir(folder)
            except OSError:
                pass


def group(fence: Fence) -> Group:
    """The control groups for a command's limits, as far as they can be made here."""
    wanted = _wanted(fence)
    return Group(_make_all(wanted)) if wanted and _possible(wanted) else Group()


def inside(fence: Fence, argv: Sequence[str]) -> list[str]:
    """`argv` behind the shell's own limits, where control groups cannot be made."""
    wanted = _wanted(fence)
    if not wanted or _possible(wanted):
        return list(argv)
    options: list[str] = []
    if "pids" in wanted:
        options += ["-u", str(fence.pids_max)]
    if "memory" in wanted:
        options += ["-d", str(max(1, fence.memory_max // 1024))]
    # One option at a time: not every shell takes several.
    words = list(argv)
    for at in range(len(options) - 2, -1, -2):
        words = [_shell(), "-c", _LIMITED.replace("$0", f"{options[at]} {options[at + 1]}"), "limit", *words]
    return words


def can_group() -> bool:
    """Can this process count a whole command with control groups?"""
    return _possible({"pids": 1, "memory": 1 << 30})


def _shell() -> str:
    """One whose `ulimit` can count processes, which the smallest shells cannot."""
    return next((path for path in ("/bin/bash", "/usr/bin/bash", "/bin/zsh") if os.access(path, os.X_OK)), "/bin/sh")


def _wanted(fence: Fence) -> dict[str, int]:
    wanted = {"pids": fence.pids_max, "memory": fence.memory_max}
    return {kind: value for kind, value in wanted.items() if value}


class _Found:
    parents: dict[str, str | None] = {}
    """For each kind of limit the folder in which groups can be made; None = cannot. Tried once per process."""


def _possible(wanted: dict[str, int]) -> bool:
    for kind in wanted:
        if kind not in _Found.parents:
            _Found.parents[kind] = next((path for path in _candidates(kind) if _works(path, kind)), None)
    return all(_Found.parents[kind] is not None for kind in wanted)


def _candidates(kind: str) -> list[str]:
    """The group of this process and those above it: one hierarchy for everything, or (older) one for each kind."""
    found: list[str] = []
    try:
        with open("/proc/self/cgroup", encoding="utf-8", errors="surrogateescape") as file:
            lines = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        return []
    for _, controllers, path in lines:
        if not controllers:
            base = _MOUNT if os.path.exists(f"{_MOUNT}/cgroup.controllers") else f"{_MOUNT}/unified"
        elif kind in controllers.split(","):
            base = f"{_MOUNT}/{kind}"
        else:
            continue
        while True:
            found.append(f"{base}{path.rstrip('/')}")
            if path in ("/", ""):
                break
            path = os.path.dirname(path)
    return found


def _works(parent: str, kind: str) -> bool:
    try:
        folder = _make(parent, {kind: 1 << 40 if kind == "memory" else 1 << 20})
    except OSError:
        return False
    try:
        return os.access(f"{folder}/cgroup.procs", os.W_OK)
    finally:
        os.rmdir(folder)


def _make_all(wanted: dict[str, int]) -> list[str]:
    """One group in each hierarchy that is needed."""
    made: dict[str, str] = {}
    by_parent: dict[str, dict[str, int]] = {}
    for kind, value in wanted.items():
        parent = _Found.parents[kind]
        assert parent is not None
        by_parent.setdefault(parent, {})[kind] = value
    try:
        for parent, values in by_parent.items():
            made[parent] = _make(parent, values)
    except OSError:
        Group(list(made.values())).remove()
        raise
    return list(made.values())


def _make(parent: str, values: dict[str, int]) -> str:
    """A group below `parent` with these limits; raises OSError when it cannot be had."""
    global _count
    _count += 1
    folder = f"{parent}/spindle-{os.getpid()}-{_count}"
    os.mkdir(folder)
    try:
        for kind, value in values.items():
            _set(folder, f"{kind}.max", value)
    except OSError:
        os.rmdir(folder)
        raise
    return folder


def _set(folder: str, name: str, value: int) -> None:
    path = f"{folder}/{name}"
    if not os.path.exists(path):
        path = f"{folder}/{_OLD_NAMES.get(name, name)}"
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, str(value).encode())
    finally:
        os.close(fd)
