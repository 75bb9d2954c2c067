"""The files of the working folder, for the list behind `@`: all but those that are ignored.

In a repository these are what git tracks, and what it would track. Listing runs in a thread and searching in small
steps, so that neither is felt while typing, with 100,000 files. No program or setting of the repository acts: git gets
settings that keep it from starting anything.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable, Iterator
from heapq import nsmallest
from itertools import islice

from spindle.frontends.tui.composer.fuzzy import Rank, path_kind, rank_path
from spindle.policy.safe import safe_environment
from spindle.process.lookup import find_installed
from spindle.protocol.clock import Clock
from spindle.tools.grep_files import ripgrep
from spindle.workspace.git import find_repository

MOST_FILES = 500_000
_PATIENCE_S = 30.0
_FRESH_S = 15.0
_SHOWN = 50
_STEP = 500
"""How many files are looked at before other work gets its turn: about half a millisecond's."""
_SKIPPED_FOLDERS = frozenset((".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "target"))


_Files = tuple[list[str], list[str]]
"""Names, and the same in small letters."""


class FileSearch:
    """Files that fit a query, the best first. `found` is called on the loop whenever there is more to show."""

    def __init__(self, cwd: str, clock: Clock, found: Callable[[], None]) -> None:
        self._cwd = cwd
        self._lister = Lister(cwd)
        self._clock = clock
        self._found = found
        self._files: _Files = ([], [])
        self._matching: tuple[str, _Files] | None = None
        """The query that was searched last, and what fits it: when more letters are typed, nothing else can."""
        self._listed_at: float | None = None
        self._listing: asyncio.Task[None] | None = None
        self._search: asyncio.Task[None] | None = None
        self._query = ""
        self.results: list[str] = []
        self.is_busy = False

    def look(self, query: str) -> None:
        """Search for something else. What was found and still fits stays to be seen until the search is through."""
        if self._listed_at is None or (not query and self._clock.monotonic() - self._listed_at > _FRESH_S):
            self._list()
        self._query = query.lower()
        fitting = (rank_path(name, self._query) for name in self.results)
        self.results = [rank.name for rank in sorted(rank for rank in fitting if rank is not None)]
        if self._search is not None:
            self._search.cancel()
        self.is_busy = True
        self._search = asyncio.get_running_loop().create_task(self._run(self._query))

    def close(self) -> None:
        """Nobody looks any more; a listing that still runs is ended, or the program would wait for it."""
        for task in (self._search, self._listing):
            if task is not None:
                task.cancel()
        self._lister.stop()

    def _list(self) -> None:
        if self._listing is None or self._listing.done():
            self._listing = asyncio.get_running_loop().create_task(self._read())

    async def _read(self) -> None:
        names = await asyncio.to_thread(self._lister.names)
        lowered: list[str] = []
        for start in range(0, len(names), _STEP):
            lowered += [name.lower() for name in names[start : start + _STEP]]
            await asyncio.sleep(0)
        self._files = (names, lowered)
        self._matching = None
        self._listed_at = self._clock.monotonic()
        self.look(self._query)

    async def _run(self, query: str) -> None:
        best: list[Rank] = []
        names, lowered = self._files
        if self._matching is not None and query.startswith(self._matching[0]):
            names, lowered = self._matching[1]
        matching: _Files = ([], [])
        for start in range(0, len(names), _STEP):
            worst = best[-1].kind if len(best) == _SHOWN else 99
            ranked: list[Rank] = []
            for place in range(start, min(start + _STEP, len(names))):
                kind = path_kind(lowered[place], query)
                if kind is None:
                    continue
                matching[0].append(names[place])
                matching[1].append(lowered[place])
                if kind <= worst:
                    ranked.append(Rank(kind, len(names[place]), names[place]))
            best = nsmallest(_SHOWN, best + ranked)
            await asyncio.sleep(0)
        self._matching = (query, matching)
        # What git tracks may have been deleted.
        self.results = [rank.name for rank in best if os.path.lexists(f"{self._cwd}/{rank.name}")]
        self.is_busy = self._listed_at is None
        self._found()


class Lister:
    """Lists the files of a folder, in a thread; can be stopped from another."""

    def __init__(self, cwd: str) -> None:
        self._cwd = cwd
        self._process: subprocess.Popen[bytes] | None = None
        self._is_stopped = False

    def names(self) -> list[str]:
        """Paths below the folder, relative to it. Names that are no text are left out: they could not be sent."""
        return [name for name in islice(self._all(), MOST_FILES) if name.isascii() or _is_text(name)]

    def stop(self) -> None:
        self._is_stopped = True
        if self._process is not None:
            self._process.kill()

    def _all(self) -> Iterator[str]:
        if find_repository(self._cwd) is not None and (git := find_installed("git", cwd=self._cwd)):
            words = [git, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"]
            names = list(self._output_of(words))
            if names or self._is_stopped:
                yield from names
                return
        if rg := ripgrep():
            words = [rg, "--no-config", "--files", "--null", "--no-messages", "--hidden", "--glob=!.git"]
            yield from self._output_of([*words, "--color=never", "--one-file-system"])
            return
        yield from self._walk()

    def _output_of(self, words: list[str]) -> Iterator[str]:
        """What a program lists, each name ended by a NUL. It is ended when it takes too long."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        environment |= safe_environment(("git", "status"), environment)
        # A setting of the repository may name another folder.
        environment["GIT_WORK_TREE"] = find_repository(self._cwd) or self._cwd
        try:
            process = subprocess.Popen(
                words,
                cwd=self._cwd,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        except OSError:
            return
        self._process = process
        if self._is_stopped:
            process.kill()
        try:
            output, _ = process.communicate(timeout=_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
        self._process = None
        yield from (os.fsdecode(name) for name in output.split(b"\0") if name)

    def _walk(self) -> Iterator[str]:
        for folder, folders, names in os.walk(self._cwd):
            if self._is_stopped:
                return
            folders[:] = sorted(name for name in folders if name not in _SKIPPED_FOLDERS)
            within = os.path.relpath(folder, self._cwd)
            yield from (name if within == "." else f"{within}/{name}" for name in sorted(names))


def _is_text(name: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in name)
