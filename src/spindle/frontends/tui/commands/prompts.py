"""`/init` and `/mention`: what helps to write a message."""

from __future__ import annotations

import os

from spindle.errors import SpindleError
from spindle.frontends.init_prompt import INIT_PROMPT
from spindle.frontends.tui.desk import Desk


async def init(desk: Desk, argument: str) -> None:
    """Have AGENTS.md written; one that is there is never overwritten."""
    cwd = desk.thread.settings.cwd if desk.thread is not None else desk.config.cwd
    path = f"{cwd}/AGENTS.md"
    if os.path.lexists(path):
        raise SpindleError(f"{path} exists already; it was left as it is. Ask for changes to it in a message")
    desk.send(INIT_PROMPT if not argument else f"{INIT_PROMPT}\n\nAlso: {argument}")


async def mention(desk: Desk, argument: str) -> None:
    """Put `@` into the composer, which opens the list of files."""
    desk.set_draft(f"@{argument}")
