"""Where a branch and the work on top of it part. Git is asked inside the reviewer's sandbox: a repository can name
programs that git runs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from spindle.errors import SpindleError
from spindle.process.command import Command
from spindle.process.lookup import find_installed
from spindle.protocol.quote import visible
from spindle.workspace.git import find_repository

if TYPE_CHECKING:
    from spindle.core.session import Session

_TIME_LIMIT_S = 60.0
_HASH = re.compile(r"^[0-9a-f]{40,64}$", re.MULTILINE)


async def merge_base(session: Session, branch: str) -> str:
    """The commit from which HEAD and the branch went apart. Raises SpindleError when there is none.

    Where the branch follows one of a remote that has gone on since, that one is meant: work is merged into it.
    """
    cwd = session.settings.cwd
    if find_repository(cwd) is None:
        raise SpindleError(f"{visible(cwd)} is not inside a git repository, so there is no branch to compare with")
    named = None if branch.startswith("-") else await _commit(session, f"{branch}^{{commit}}")
    if named is None:
        raise SpindleError(f"there is no branch or commit {visible(branch)!r} in this repository")
    upstream = await _commit(session, f"{branch}@{{upstream}}^{{commit}}")
    if upstream is not None and await _ask(session, "rev-list", "--max-count=1", f"{named}..{upstream}") is not None:
        named = upstream
    found = await _ask(session, "merge-base", "HEAD", named)
    if found is None:
        raise SpindleError(f"the current branch and {visible(branch)!r} have no commit in common")
    return found


async def _commit(session: Session, name: str) -> str | None:
    return await _ask(session, "rev-parse", "--verify", "--quiet", name)


async def _ask(session: Session, *words: str) -> str | None:
    """The hash that git answers with, if it does."""
    workbench, cwd = session.workbench, session.settings.cwd
    git = find_installed("git", cwd=cwd)
    if git is None:
        raise SpindleError("git is not installed, and the review of a branch needs it")
    command = Command(argv=[git, *words], cwd=cwd, boundary=workbench.boundary(session.settings))
    try:
        done = await workbench.processes.run(command, timeout_s=_TIME_LIMIT_S)
    except OSError as error:
        raise SpindleError(f"git cannot be run: {error.strerror}") from error
    if done.exit_code != 0:
        return None
    found = _HASH.search(done.output.peek().text())
    return found[0] if found is not None else None
