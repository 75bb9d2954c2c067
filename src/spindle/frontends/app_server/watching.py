"""Files and folders that a client wants to hear about: which of them have changed, a moment after they did.

In a folder, only direct entries count, not what lies deeper. Where the kernel reports changes (Linux), the module waits
for that; elsewhere it looks every second.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable

from spindle.workspace.folder_watch import FolderWatch, LostTrack, make_watch

SETTLE_S = 0.2
"""What changes within such a time is told at once."""
LOOK_EVERY_S = 1.0
MAX_ENTRIES = 10_000
"""Of a folder with more entries only the folder itself is named."""

Look = dict[str, tuple[int, int, int, int]]
"""What is there: path → what changes when the file does."""
OnChange = Callable[[list[str]], None]


class Watched:
    """One path and who hears of it."""

    def __init__(self, path: str, on_change: OnChange) -> None:
        self.path = path
        self.on_change = on_change
        self.folder = nearest_folder(path)
        """Where the kernel listens."""
        self.touched = asyncio.Event()
        self.task: asyncio.Task[None] | None = None


class Watches:
    """All paths that are watched by one server, through one descriptor."""

    def __init__(self) -> None:
        self._kernel: FolderWatch | None = None
        self._all: set[Watched] = set()

    def add(self, path: str, on_change: OnChange) -> Watched:
        watched = Watched(path, on_change)
        self._all.add(watched)
        self._listen(watched)
        # The first look is now: what changes from here on is a change.
        watched.task = asyncio.ensure_future(self._follow(watched, look_at(path)))
        return watched

    def remove(self, watched: Watched) -> None:
        self._all.discard(watched)
        if watched.task is not None:
            watched.task.cancel()
        self._release(watched.folder)
        if not self._all:
            self.close()

    def _release(self, folder: str) -> None:
        if self._kernel is not None and not any(other.folder == folder for other in self._all):
            self._kernel.remove(folder)

    def close(self) -> None:
        for watched in self._all:
            if watched.task is not None:
                watched.task.cancel()
        self._all.clear()
        if self._kernel is not None:
            asyncio.get_running_loop().remove_reader(self._kernel.fileno())
            self._kernel.close()
            self._kernel = None

    # ---- listening -----------------------------------------------------------------------------

    def _listen(self, watched: Watched) -> bool:
        """Have the kernel tell of its folder; False where it cannot."""
        if self._kernel is None:
            self._kernel = make_watch()
            if self._kernel is None:
                return False
            asyncio.get_running_loop().add_reader(self._kernel.fileno(), self._heard)
        if self._kernel.has(watched.folder):
            return True
        try:
            folder = os.open(watched.folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except (OSError, AttributeError):
            return False
        try:
            self._kernel.add(watched.folder, folder)
            return True
        except LostTrack:
            return False
        finally:
            os.close(folder)

    def _heard(self) -> None:
        assert self._kernel is not None
        try:
            folders = self._kernel.touched()
        except LostTrack:
            folders = {watched.folder for watched in self._all}
        for watched in self._all:
            if watched.folder in folders:
                watched.touched.set()

    async def _follow(self, watched: Watched, before: Look) -> None:
        while True:
            # A folder that was made, or taken away and made anew, must be listened to.
            former, watched.folder = watched.folder, nearest_folder(watched.path)
            if former != watched.folder:
                self._release(former)
            wait_s = None if self._listen(watched) else LOOK_EVERY_S
            if former != watched.folder:
                watched.touched.set()  # it may have been filled before we listened
            try:
                await asyncio.wait_for(watched.touched.wait(), wait_s)
                await asyncio.sleep(SETTLE_S)
            except TimeoutError:
                pass
            watched.touched.clear()
            now = await asyncio.to_thread(look_at, watched.path)
            changed = sorted(path for path in before.keys() | now.keys() if before.get(path) != now.get(path))
            before = now
            if changed:
                watched.on_change(changed)


def nearest_folder(path: str) -> str:
    """The path itself if it is a folder, else the first one above it that exists."""
    while not os.path.isdir(path) and path != "/":
        path = os.path.dirname(path)
    return path


def look_at(path: str) -> Look:
    """The file itself; or, of a folder, what stands in it."""
    try:
        here = os.stat(path)
        if not stat.S_ISDIR(here.st_mode):
            return {path: _signs(here)}
        found: Look = {}
        with os.scandir(path) as entries:
            for entry in entries:
                if len(found) >= MAX_ENTRIES:
                    return {path: _signs(here)}
                try:
                    found[entry.path] = _signs(entry.stat(follow_symlinks=False))
                except OSError:
                    continue  # it has gone meanwhile
        return found
    except (OSError, ValueError):
        return {}


def _signs(found: os.stat_result) -> tuple[int, int, int, int]:
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode
