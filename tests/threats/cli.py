"""What the threat tests need beside the installed command: its processes, and disks of its own."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def processes_with(word: str) -> list[int]:
    """Living processes that have `word` as a part of their command line."""
    needle = word.encode()
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                line = file.read()
            with open(f"/proc/{name}/stat", "rb") as file:
                state = file.read().rpartition(b")")[2].split()[0]
        except OSError:
            continue
        if needle in line and state not in (b"Z", b"X"):
            found.append(int(name))
    return found


def children_of(pid: int) -> list[int]:
    """All living descendants."""
    direct: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                direct += [int(number) for number in file.read().split()]
    except OSError:
        pass
    return [found for child in direct for found in (child, *children_of(child))]


def peak_memory_kb(pid: int) -> int:
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM:"))


# ---- disks -----------------------------------------------------------------------------------------


def in_own_mounts(script: str) -> list[str]:
    """A wrapper that runs `script` in a mount namespace of its own; `"$@"` in it is the command."""
    as_root = [] if os.getuid() == 0 else ["-r"]
    return ["unshare", *as_root, "-m", "sh", "-c", f"mount --make-rprivate / && {script}", "sh"]


def on_small_disk(folder: Path, kilobytes: int, copy: Path) -> list[str]:
    """A wrapper that puts `folder` on a disk of this size, and what is there in the end into `copy`."""
    disk, kept, before = (shlex.quote(str(path)) for path in (folder, copy, f"{folder}.before"))
    return in_own_mounts(
        f"cp -a {disk} {before} && mount -t tmpfs -o size={kilobytes}k,mode=700 none {disk} && "
        f'cp -a {before}/. {disk} && {{ "$@"; code=$?; cp -a {disk} {kept}; exit $code; }}'
    )


def with_empty_temp_folders(listing: Path, keep: Sequence[Path]) -> list[str]:
    """A wrapper that empties the shared temp folders, and writes what was put there in the meantime into `listing`.

    What is in `keep` stays, and so do the programs under test, wherever they lie.
    """
    empty = ("/tmp", "/dev/shm")
    roots = {Path(os.path.realpath(path)) for path in (*keep, REPOSITORY, sys.prefix, sys.base_prefix)}
    kept = sorted(path for path in roots if str(path).startswith(tuple(f"{folder}/" for folder in empty)))
    kept = [path for path in kept if not any(other in path.parents for other in kept)]
    stages = {shlex.quote(str(path)): f"/mnt/{number}" for number, path in enumerate(kept)}
    steps = ["mount -t tmpfs none /mnt"]
    steps += [f"mkdir {stage} && mount --bind {path} {stage}" for path, stage in stages.items()]
    steps += [f"mount -t tmpfs none {folder}" for folder in empty]
    steps += [f"mkdir -p {path} && mount --bind {stage} {path}" for path, stage in stages.items()]
    pruned = "".join(f"-path {path} -prune -o " for path in stages)
    look = f"find {' '.join(empty)} -mindepth 1 {pruned}-print"
    told = shlex.quote(str(listing))
    steps += [f"{look} > /mnt/before", f'{{ "$@"; code=$?; {look} | grep -vxFf /mnt/before > {told}; exit $code; }}']
    return in_own_mounts(" && ".join(steps))


def on_read_only_disk(folder: Path) -> list[str]:
    disk = shlex.quote(str(folder))
    return in_own_mounts(f'mount --bind {disk} {disk} && mount -o remount,bind,ro {disk} && exec "$@"')


def mounts_work() -> bool:
    script = 'mount -t tmpfs none /mnt && exec "$@"'
    return subprocess.run([*in_own_mounts(script), "true"], capture_output=True).returncode == 0
