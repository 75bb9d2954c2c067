"""`verify`: what the patch is worth, tried in a fresh checkout where nothing else of the agent's is left.

The checkout of `base`, then `setup`, then the patch, then what is to be as in `base` again. The patch is put in place
as whole files, so it fits also where `setup` has changed the same ones. No link that `setup` made is written through:
git makes folders anew where one stands in the way, and what is to go is removed folder by folder.
"""

from __future__ import annotations

import os

from spindle.fleet.attempt.checkout import OurGit
from spindle.fleet.attempt.git import Git, Repository
from spindle.fleet.attempt.patch import Change, Patch


async def put_in_place(git: Git, ours: OurGit, work_tree: str, patch: Patch, restore: list[str]) -> None:
    """Lay the patch over a checkout, but for the paths that are to be as they were."""
    kept = [os.fsencode(os.path.normpath(path)) for path in restore]
    applied = [change for change in patch.changes if not any(_is_within(change.path, path) for path in kept)]
    apart = ours.repository(work_tree, "verify-index")
    await _write(git, apart, patch.tree, [change.path for change in applied if change.new is not None])
    for change in applied:
        if change.new is None:
            _remove(work_tree, change)
    if kept:
        listed = await git.run(apart, "ls-tree", "-r", "-z", "--name-only", ours.base.commit)
        again = [name for name in listed.split(b"\0")[:-1] if any(_is_within(name, path) for path in kept)]
        await _write(git, apart, ours.base.commit, again)


async def _write(git: Git, apart: Repository, tree: str, paths: list[bytes]) -> None:
    if not paths:
        return
    await git.run(apart, "read-tree", tree)
    given = b"".join(path + b"\0" for path in paths)
    await git.run(apart, "checkout-index", "-f", "-q", "-z", "--stdin", given=given)


def _is_within(path: bytes, folder: bytes) -> bool:
    return folder == b"." or path == folder or path.startswith(folder + b"/")


def _remove(root: str, change: Change) -> None:
    """Remove a file, if it is still there and no link leads to it."""
    *folders, name = change.path.split(b"/")
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for folder in folders:
            inner = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        os.unlink(name, dir_fd=descriptor)
    except OSError:
        pass  # not there, or something else is by now
    finally:
        os.close(descriptor)
