"""What a driver needs on its own machine while it runs; what a killed one left is removed by the next one.

CACHE/drivers/NAME/lock      held by the driver as long as it lives
                  /token     of a cluster of its own; commands see nothing of the cache
                  /arrived   files of attempts, on their way into the folder of the run
                  /elsewhere folders that lie elsewhere, a line each
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence

from spindle.fleet.book import take_files

_LONGEST_NAME = 40
"""Of Ray's folder: what Ray puts behind it and what the kernel takes for the name of a socket leave so much."""


class Arrived:
    """The files of an attempt that has ended, in the driver's hands."""

    def __init__(self, folder: str | None, on_drop: Callable[[], None] | None = None) -> None:
        self._folder = folder
        self._on_drop = on_drop

    async def take(self, into: str) -> list[str]:
        if self._folder is None:
            os.mkdir(into)
            return []
        return await asyncio.to_thread(take_files, self._folder, into)

    async def drop(self) -> None:
        if self._on_drop is not None:
            self._on_drop()
        if self._folder is not None:
            await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)


class DriverFolder:
    """The folder of one driver."""

    def __init__(self, cache: str) -> None:
        above = f"{cache}/drivers"
        os.makedirs(above, 0o700, exist_ok=True)
        for name in os.listdir(above):
            _sweep(f"{above}/{name}")
        self._path = tempfile.mkdtemp(prefix="d", dir=above)
        self._lock = os.open(f"{self._path}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._arrivals = f"{self._path}/arrived"
        os.mkdir(self._arrivals)
        self._count = 0

    def new_arrival(self) -> str:
        """Where the files of an attempt may be put: there is nothing yet."""
        self._count += 1
        return f"{self._arrivals}/{self._count}"

    def claim(self, folder: str, files: Sequence[str]) -> str | None:
        """Take over the files that a worker of this machine left; None when they are not all there.

        A worker may be dead by now, and another one sweep up after it: what is moved here is out of reach.
        """
        place = self.new_arrival()
        try:
            os.rename(folder, place)
        except OSError:
            return None
        return place if all(os.path.lexists(f"{place}/{name}") for name in files) else None

    def make_token(self) -> str:
        """A secret for a cluster of ours; gives the path of its file."""
        path = f"{self._path}/token"
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w") as file:
            file.write(os.urandom(32).hex())
        return path

    def make_ray_folder(self, env: Mapping[str, str]) -> str:
        """Where a cluster of ours keeps sockets and logs. Ray opens it to all, so it lies in a closed folder."""
        closed = self._make_elsewhere(env.get("RAY_TMPDIR") or tempfile.gettempdir())
        name = f"{closed}/r"
        os.mkdir(name)
        if len(os.fsencode(name)) <= _LONGEST_NAME:
            return name
        short = f"{self._make_elsewhere('/tmp')}/r"
        os.symlink(name, short)
        return short

    def _make_elsewhere(self, above: str) -> str:
        folder = tempfile.mkdtemp(prefix="s", dir=above)
        with open(f"{self._path}/elsewhere", "a") as file:
            file.write(f"{folder}\n")
        return folder

    def remove(self) -> None:
        _remove(self._path)
        os.close(self._lock)


def _sweep(path: str) -> None:
    """Remove a folder whose driver is gone."""
    try:
        lock = os.open(f"{path}/lock", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return  # it is being made, or removed
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove(path)
    except BlockingIOError:
        pass
    finally:
        os.close(lock)


def _remove(path: str) -> None:
    try:
        with open(f"{path}/elsewhere") as file:
            elsewhere = file.read().splitlines()
    except OSError:
        elsewhere = []
    for folder in elsewhere:
        shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(path, ignore_errors=True)
