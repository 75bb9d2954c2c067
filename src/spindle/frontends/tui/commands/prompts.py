"""`/init` and `/mention`: what helps to write a message."""

from __future__ import annotations

import os

from spindle.errors import SpindleError
from spindle.frontends.tui.desk import Desk

INIT_PROMPT = """\
Write a file AGENTS.md in the working folder: notes for a coding agent that sees this project for the first time.

Look before you write: the README, the build files, the tests, the history, how the code is laid out. Then put down only
what you found to be true here and what somebody could not guess:
- what the project is, in two sentences, and which folders hold what;
- the exact commands to set it up, build it, run it, and run all tests or a single one;
- how code is written here: language versions, formatting, naming, patterns that recur, what is avoided;
- how changes are made: tests that are expected, commit messages, checks that must pass;
- traps: generated files, slow or flaky tests, secrets, things that must not be touched.

Keep it under 60 lines of Markdown, plain headings and short lists, commands in code blocks. No praise, no generalities.
If something cannot be found out, leave it out. Do not change any other file."""


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
