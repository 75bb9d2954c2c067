"""Whether the user trusts a folder. Only the user's own files can say so; a repository cannot speak for itself."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from spindle.policy.ownership import foreign_folder
from spindle.workspace.files import folders_between, shown
from spindle.workspace.git import find_root


class Trust(msgspec.Struct, frozen=True, kw_only=True):
    """What the user said: `level` is trusted, untrusted or None, about `folder` and what lies below it."""

    level: Any = None
    folder: str | None = None
    problem: str | None = None
    """Why what the user said does not count."""

    def covers(self, folder: str) -> bool:
        """Whether `folder` is the trusted one or lies below it."""
        if self.level != "trusted" or self.folder is None:
            return False
        return folder == self.folder or folder.startswith(f"{self.folder.rstrip('/')}/")


def find_trust(cwd: str, projects: Mapping[str, Any]) -> Trust:
    """The entry for the real path of `cwd`, else for the root of the git working tree around it.

    The root is the folder that holds `.git`. What a `.git` pointer file or its `commondir` names is not followed: a
    prepared repository could name a trusted one there. It need not be a repository: if something merely named `.git`
    did not count, a prepared folder inside a trusted project would be trusted along with the project.
    """
    if not projects:
        return Trust()
    real = os.path.realpath(cwd)
    for folder in (real, find_root(real)):
        if folder is None:
            continue
        entry = projects.get(folder) or projects.get(f"{folder}/")
        if isinstance(entry, dict) and (level := entry.get("trust_level")) is not None:
            return _unless_foreign(Trust(level=level, folder=folder), real)
    return Trust()


def _unless_foreign(trust: Trust, cwd: str) -> Trust:
    """Trust was given to a folder of the user's own. Whoever owns what is there now could put in it what they like."""
    if trust.level != "trusted" or trust.folder is None:
        return trust
    for folder in folders_between(trust.folder, cwd):
        if (uid := foreign_folder(folder, ".git", ".codex")) is not None:
            return Trust(
                problem=f"{shown(folder)} is trusted by your settings, but it, or the .git or .codex in it, belongs to "
                f"another user ({uid}), so it counts as not trusted; if it is yours, `git config --global --add "
                f"safe.directory {shown(folder)}` says so"
            )
    return trust
