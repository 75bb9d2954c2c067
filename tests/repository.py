"""Git repositories for tests: made without git, which not every machine has, and without starting a program."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def make_repository(folder: Path) -> Path:
    """Make `folder` an empty repository, as `git init` does."""
    git = folder / ".git"
    for name in ("objects/info", "objects/pack", "refs/heads", "refs/tags", "hooks", "info"):
        (git / name).mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/master\n")
    (git / "config").write_text(
        "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n"
    )
    (git / "description").write_text("Unnamed repository; edit this file 'description' to name the repository.\n")
    (git / "info/exclude").write_text("")
    return folder
