"""`/new worktree`: a new thread in a git worktree of its own, so that it works beside what is open."""

from __future__ import annotations

import asyncio
import os
from asyncio.subprocess import DEVNULL, PIPE

import msgspec

from spindle.errors import SpindleError
from spindle.frontends.tui.commands.folders import folder_of
from spindle.frontends.tui.commands.lines import clean
from spindle.frontends.tui.commands.threads import elsewhere, going_on
from spindle.frontends.tui.desk import Desk
from spindle.frontends.tui.text.clean import name
from spindle.policy.git_drivers import git_may_run_programs
from spindle.policy.safe import safe_environment
from spindle.process.lookup import find_installed
from spindle.workspace.git import find_repository

_PATIENCE_S = 120.0


async def new_in_worktree(desk: Desk) -> None:
    root = await asyncio.to_thread(find_repository, folder_of(desk))
    git = find_installed("git", cwd=folder_of(desk))
    if root is None or git is None:
        raise SpindleError(
            f"{name(folder_of(desk))} is not in a git repository, so it has no worktrees; /new works here"
        )
    if await asyncio.to_thread(git_may_run_programs, (), root):
        raise SpindleError(
            "the settings of this repository name programs that git would run; add the worktree yourself"
        )
    label = f"spindle-{desk.clock.uuid7()[-8:]}"
    path = f"{desk.config.home}/worktrees/{label}/{os.path.basename(root)}"
    await asyncio.to_thread(os.makedirs, os.path.dirname(path), 0o700, True)
    await _add(git, root, label, path)
    settings = desk.thread.settings if desk.thread is not None else None
    config = going_on(elsewhere(desk, path), settings, in_folder=False)
    await desk.switch(
        lambda request: msgspec.structs.replace(
            request, config=config, thread=None, rollout_path=None, newest=False, fork=False, fork_at=None
        )
    )
    desk.say(f"Working in {name(path)} on the new branch {label}; `git worktree remove` takes it away again.")


async def _add(git: str, root: str, branch: str, path: str) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    environment |= safe_environment(["git", "status"])
    running = await asyncio.create_subprocess_exec(
        *(git, "-C", root, "worktree", "add", "-b", branch, "--", path),
        stdin=DEVNULL,
        stdout=DEVNULL,
        stderr=PIPE,
        env=environment,
        start_new_session=True,
    )
    try:
        _, problem = await asyncio.wait_for(running.communicate(), _PATIENCE_S)
    except TimeoutError:
        raise SpindleError(f"git did not make the worktree within {_PATIENCE_S:.0f} s") from None
    finally:
        if running.returncode is None:
            running.kill()
            await running.wait()
    if running.returncode != 0:
        raise SpindleError(f"git could not make a worktree: {clean(problem.decode('utf-8', 'replace'))}")
