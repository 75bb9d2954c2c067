"""How much work an attempt is: what it starts and makes, beside the session itself. To make a folder or a file costs
about as much as anything else here does."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fleet_attempts import Fleet


class Seen:
    """What this process does while it is looked at."""

    def __init__(self) -> None:
        self.is_looking = False
        self.programs: list[str] = []
        self.folders: list[str] = []
        sys.addaudithook(self._note)

    def _note(self, event: str, told: tuple[Any, ...]) -> None:
        if not self.is_looking:
            return
        if event == "subprocess.Popen":
            self.programs.append(told[1][1])
        elif event == "os.mkdir":
            self.folders.append(os.fsdecode(told[0]))

    @contextmanager
    def looking(self) -> Iterator[None]:
        self.is_looking = True
        try:
            yield
        finally:
            self.is_looking = False


async def test_an_attempt_that_changes_nothing_runs_git_twice_and_makes_few_folders(fleet: Fleet) -> None:
    await fleet.run(id="first")  # makes the mirror
    seen = Seen()
    with seen.looking():
        outcome = await fleet.run(id="second")
    assert outcome.ended == "ok", outcome.error
    assert seen.programs == ["read-tree", "ls-files"]
    root = os.path.dirname(str(outcome.folder))
    made = dict.fromkeys(os.path.relpath(folder, root) for folder in seen.folders)  # some are tried again
    of_session = [name for name in made if name.startswith("home/")]
    assert len(of_session) <= 5 and [name for name in made if name not in of_session] == [
        *(".", "work", "home", "tmp", "files"),
        *("work/.git", "work/.git/refs", "work/.git/objects", "work/.git/objects/info"),
    ]
