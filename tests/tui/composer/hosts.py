"""What a composer needs around it, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from spindle.frontends.tui.composer.draft import Draft


class Host:
    """Runs what it is given, and notes what it was told."""

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.redrawn = asyncio.Event()
        self.under_way: list[Draft] = []

    def redraw(self) -> None:
        self.redrawn.set()

    def warn(self, sentence: str) -> None:
        self.warnings.append(sentence)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(asyncio.get_running_loop().create_task(work))

    async def done(self) -> None:
        await asyncio.gather(*self.tasks)
