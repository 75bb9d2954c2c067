"""The installed command as the threat tests use it: run to its end, or left running, and what it leaves behind."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

PATIENCE_S = 50.0
REPOSITORY = Path(__file__).parents[2]


class Done:
    """A run that is over."""

    def __init__(self, code: int, out: bytes, err: bytes) -> None:
        self.code = code
        self.raw_out = out
        self.out = out.decode("utf-8", "replace")
        self.err = err.decode("utf-8", "replace")

    @property
    def events(self) -> list[dict[str, Any]]:
        """What `--json` printed; a line that is no JSON fails the test."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def thread_id(self) -> str:
        return self.events[0]["thread_id"]

    def items(self, kind: str) -> list[dict[str, Any]]:
        """The finished items of one kind."""
        finished = [event["item"] for event in self.events if event["type"] == "item.completed"]
        return [item for item in finished if item["type"] == kind]


class Spindle:
    """Runs the command in a workspace with a home of its own. `wrap` is a program that starts it."""

    def __init__(self, command: list[str], workspace: Path, home: Path, environment: dict[str, str]) -> None:
        self.command = command
        self.workspace = workspace
        self.home = home
        self.environment = environment
        self._started: list[Any] = []

    def __call__(
        self, *args: str, stdin: bytes | None = None, wrap: Sequence[str] = (), timeout: float = PATIENCE_S, **env: str
    ) -> Done:
        done = subprocess.run(
            [*wrap, *self.command, *args],
            cwd=self.workspace,
            env={**self.environment, **env},
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            timeout=timeout,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def start(self, *args: str, wrap: Sequence[str] = (), **how: Any) -> subprocess.Popen[bytes]:
        """Start it and do not wait; `how` is for Popen. The caller ends it with `finish`."""
        channels: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        channels |= {"env": self.environment, **how}
        command = [*wrap, *self.command, *args]
        started: Any = subprocess.Popen(command, cwd=self.workspace, **channels)
        self._started.append(started)
        return started

    def close(self) -> None:
        """End what a test that failed left running."""
        for process in self._started:
            if process.poll() is None:
                process.kill()
                process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()

    def configure(self, text: str) -> None:
        """Add to the user's config.toml."""
        with (self.home / "config.toml").open("a") as file:
            file.write(f"\n{text}\n")

    def rollouts(self) -> list[Path]:
        return sorted(self.home.rglob("rollout-*.jsonl"))


def finish(process: subprocess.Popen[bytes], timeout: float = PATIENCE_S) -> Done:
    out, err = process.communicate(timeout=timeout)
    return Done(process.returncode, out or b"", err or b"")


def whole_lines(rollout: Path | bytes) -> list[dict[str, Any]]:
    """Every line of a record; one that is torn or no JSON fails the test."""
    data = rollout if isinstance(rollout, bytes) else rollout.read_bytes()
    assert data.endswith(b"\n"), data[-200:]
    return [json.loads(line) for line in data.splitlines()]


def wait_for(condition: Callable[[], Any], what: str, timeout: float = 30.0) -> Any:
    """What `condition` says as soon as it says something."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.02)
    raise AssertionError(f"waited {timeout:g} s in vain: {what}")


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
