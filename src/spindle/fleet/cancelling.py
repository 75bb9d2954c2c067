"""How `spindle fleet cancel` reaches a driver in another process: lines in a file of the run's folder."""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec

NAME = "cancel.jsonl"


class _Line(msgspec.Struct, frozen=True):
    id: str | None = None
    """None: the whole run."""


def ask(out: str, ids: Sequence[str]) -> None:
    """Ask the driver to cancel these tasks; none: the whole run."""
    fd = os.open(f"{out}/{NAME}", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        os.write(fd, b"".join(msgspec.json.encode(_Line(task_id)) + b"\n" for task_id in ids or (None,)))
    finally:
        os.close(fd)


class Requests:
    """What was asked since the driver started."""

    def __init__(self, out: str) -> None:
        self._path = f"{out}/{NAME}"
        self._read = 0
        self.clear()

    def new(self) -> list[str | None]:
        """None stands for the whole run."""
        try:
            if os.path.getsize(self._path) <= self._read:
                return []
            with open(self._path, "rb") as file:
                file.seek(self._read)
                data = file.read()
        except OSError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        return [msgspec.json.decode(line, type=_Line).id for line in whole.splitlines()]

    def clear(self) -> None:
        """Nobody is asked any more."""
        try:
            os.unlink(self._path)
        except OSError:
            pass
