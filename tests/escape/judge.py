"""Looks at the arena from outside and says what an attack did. Nothing here trusts what an attack printed, except for
`REACHED`, which stands for things that only the process itself can see."""

from __future__ import annotations

import os
import signal
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any


def snapshot(path: str) -> dict[str, tuple[Any, ...]]:
    """The state of a file, or of a folder and all that it holds; empty when there is nothing."""
    found: dict[str, tuple[Any, ...]] = {}
    for one in _below(path):
        with suppress(FileNotFoundError):
            found[one] = _state(one)
    return found


def _below(path: str) -> Iterator[str]:
    yield path
    if os.path.isdir(path) and not os.path.islink(path):
        for top, folders, files in os.walk(path):
            for name in (*folders, *files):
                yield os.path.join(top, name)


def _state(path: str) -> tuple[Any, ...]:
    status = os.lstat(path)
    content: bytes | str | tuple[str, ...] = b""
    if stat.S_ISREG(status.st_mode):
        with open(path, "rb") as file:
            content = file.read(65536)
    elif stat.S_ISLNK(status.st_mode):
        content = os.readlink(path)
    elif stat.S_ISDIR(status.st_mode):
        content = tuple(sorted(os.listdir(path)))
    attributes = tuple(sorted((name, os.getxattr(path, name)) for name in os.listxattr(path, follow_symlinks=False)))
    # A folder's own times also change when a placeholder comes and goes in it.
    times = () if stat.S_ISDIR(status.st_mode) else (status.st_mtime_ns, status.st_ctime_ns)
    owner = (status.st_mode, status.st_uid, status.st_gid)
    return (status.st_ino, *owner, status.st_nlink if times else 0, *times, content, attributes)


def difference(before: dict[str, tuple[Any, ...]], after: dict[str, tuple[Any, ...]]) -> str | None:
    """Which paths came, went or changed, in one line; None when all is as it was."""
    changes = [f"{path} appeared" for path in after.keys() - before.keys()]
    changes += [f"{path} is gone" for path in before.keys() - after.keys()]
    changes += [f"{path} changed" for path in before.keys() & after.keys() if before[path] != after[path]]
    return "; ".join(sorted(changes)) or None


# ---- what an attack's `seen` may be --------------------------------------------------------------------------


def heard(arena: Any, mark: str) -> str | None:
    """A listener of the host, a pipe, or an inherited descriptor got the mark."""
    if mark.encode() not in arena.host.heard:
        arena.host.listen_on()
    return "the host heard it" if mark.encode() in arena.host.heard else None


def victim(what: str) -> Callable[[Any, str], str | None]:
    """The victim is dead or stopped (`alive`), or this part of its state changed."""

    def look(arena: Any, mark: str) -> str | None:
        state = arena.victim_after()
        if state is None:
            return "the victim is dead or stopped"
        before = arena.victim_before
        if what != "alive" and state[what] != before[what]:
            return f"the victim's {what}: {before[what]} -> {state[what]}"
        return None

    return look


def survives(arena: Any, mark: str) -> str | None:
    """A process with the mark among its words still runs after the command is over."""
    limit = time.monotonic() + 0.5
    while found := processes_with(mark):
        if time.monotonic() > limit:
            for pid in found:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return f"still alive: {found}"
        time.sleep(0.05)
    return None


def processes_with(mark: str) -> list[int]:
    found: list[int] = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            with suppress(OSError), open(f"/proc/{entry}/cmdline", "rb") as file:
                if mark.encode() in file.read().split(b"\0"):
                    found.append(int(entry))
    return found


def mounted(arena: Any, mark: str) -> str | None:
    """The host's table of mounts has the mark in it; taken away again."""
    with open("/proc/self/mounts") as file:
        targets = [line.split()[1] for line in file if mark in line]
    for target in targets:
        os.system(f"umount -l {target}")
    return f"mounted on the host: {targets}" if targets else None
