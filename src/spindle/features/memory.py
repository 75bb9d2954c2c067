"""Notes that outlive a thread: the model may keep some for a project, and is told which there are.

Loaded where they are switched on (`spindle.memory`); the tool is `tools/memory.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from spindle.core.feature import Feature
from spindle.tools.memory import Memory
from spindle.tools.memory_folder import MemoryFolder
from spindle.tools.tool import Tool


class ProjectNotes(Feature):
    """The notes in one project's folder."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def tools(self) -> Sequence[Tool]:
        return [Memory(self._folder)]

    def notes(self) -> str | None:
        return MemoryFolder(self._folder).index()
