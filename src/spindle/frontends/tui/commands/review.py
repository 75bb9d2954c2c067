"""`/review`: have code reviewed by a reviewer that can change nothing. Without a text, one chooses what to look at."""

from __future__ import annotations

import asyncio

import msgspec

from spindle.errors import SpindleError
from spindle.frontends.tui.commands.diff import Git
from spindle.frontends.tui.commands.lines import clean
from spindle.frontends.tui.desk import Desk
from spindle.frontends.tui.text.clean import name
from spindle.frontends.tui.views.list import ListView, Row
from spindle.protocol.ops import Review
from spindle.protocol.review import BaseBranch, Commit, Custom, Target, Uncommitted, hint_of
from spindle.workspace.git import find_repository

_CHOICES = [
    Row(value="uncommitted", name="What is not committed", about="staged, unstaged and untracked"),
    Row(value="branch", name="This branch", about="what it would bring into another one"),
    Row(value="commit", name="A commit", about="one of the last"),
    Row(value="custom", name="In your own words", about="/review TEXT"),
]


async def review(desk: Desk, argument: str) -> None:
    target = Custom(instructions=argument) if argument else await _chosen(desk)
    if target is not None:
        wanted = {"target": msgspec.to_builtins(target), "user_facing_hint": hint_of(target)}
        desk.submit(Review(review_request=wanted))


async def _chosen(desk: Desk) -> Target | None:
    match await desk.ask(ListView("What should be reviewed?", _CHOICES)):
        case "uncommitted":
            return Uncommitted()
        case "branch":
            branches = await (await _git(desk)).branches()
            rows = [Row(value=BaseBranch(branch=branch), name=clean(branch)) for branch in branches]
            return await _one_of(desk, "Into which branch?", rows, "there is no branch to compare with")
        case "commit":
            commits = await (await _git(desk)).commits()
            rows = [
                Row(value=Commit(sha=sha, title=title or None), name=sha[:7], about=clean(title), also=sha)
                for sha, title in commits
            ]
            return await _one_of(desk, "Which commit?", rows, "there is no commit yet")
        case "custom":
            desk.set_draft("/review ")
            return None
        case _:
            return None


async def _one_of(desk: Desk, title: str, rows: list[Row[Target]], problem: str) -> Target | None:
    if not rows:
        raise SpindleError(problem)
    return await desk.ask(ListView(title, rows, has_search=True))


async def _git(desk: Desk) -> Git:
    cwd = desk.thread.settings.cwd if desk.thread is not None else desk.config.cwd
    root = await asyncio.to_thread(find_repository, cwd)
    if root is None:
        raise SpindleError(f"{name(cwd)} is not in a git repository; /review TEXT works everywhere")
    return Git(root)
