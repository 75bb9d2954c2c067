"""Row 1: settings of the person's own that lead git to what the agent could have written."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from repository import make_repository
from spindle.policy.git_reach import git_in_reach
from spindle.policy.reach import Reach
from spindle.policy.sandbox import boundary_of
from spindle.protocol.settings import SandboxPolicy


@pytest.mark.parametrize(
    ("settings", "command", "named"),
    [
        ("[alias]\n\tx = !./evil.sh\n", "x", "evil.sh"),
        ("[alias]\n\tx = !TREE/evil.sh\n", "x", "evil.sh"),
        ("[include]\n\tpath = TREE/more.cfg\n", "status", "more.cfg"),
        ('[includeIf "gitdir:TREE/"]\n\tpath = TREE/more.cfg\n', "status", "more.cfg"),
        ("[alias]\n\tx = !true\n\ty = !./evil.sh\n", "x", None),
        ("[alias]\n\tx = log --oneline\n[user]\n\tname = n\n", "x", None),
    ],
    ids=["alias", "alias by its path", "include", "include for this tree", "another alias", "plain alias"],
)
def test_row1_settings_of_the_persons_that_lead_into_the_tree_keep_git_inside(
    tmp_path: Path, settings: str, command: str, named: str | None
) -> None:
    tree, home = tmp_path / "tree", tmp_path / "home"
    for folder in (tree, home):
        folder.mkdir()
    make_repository(tree)
    (tree / "more.cfg").write_text("[core]\n\tpager = less\n")
    (home / ".gitconfig").write_text(settings.replace("TREE", str(tree)))
    env = {"HOME": str(home), "PATH": "/usr/bin:/bin"}
    boundary = boundary_of(SandboxPolicy(mode="workspace-write"), cwd=str(tree), env=env, home=str(home / ".codex"))
    found = git_in_reach([["git", command]], (str(tree),), env, Reach(boundary, env=env), given=2)
    assert found == [] if named is None else any(named in one for one in found)


@pytest.mark.parametrize("made", ["bare of settings", "pointer", "linked settings", "worktree"])
def test_row1_a_repository_that_the_agent_can_still_fill_keeps_git_inside(tmp_path: Path, made: str) -> None:
    """There is nothing in it to run yet: what is put there between our look and the start of git would run outside."""
    tree, home, outside = tmp_path / "tree", tmp_path / "home", tmp_path / "outside"
    for folder in (tree / "nested", home, outside):
        folder.mkdir(parents=True)
    make_repository(tree)
    nested = tree / "nested"
    if made == "pointer":
        make_repository(outside)
        (nested / ".git").write_text(f"gitdir: {outside}/.git\n")
    else:
        make_repository(nested)
        settings = nested / ".git/config"
        if made == "linked settings":
            (outside / "config").write_text("[core]\n\trepositoryformatversion = 0\n")
            settings.unlink()
            settings.symlink_to(outside / "config")
        else:
            settings.unlink()
        if made == "worktree":
            (nested / ".git").rename(outside / ".git")
            (outside / ".git/config").write_text("[core]\n\trepositoryformatversion = 0\n")
            (nested / ".git").symlink_to(outside / ".git")
    for hooks in (nested / ".git/hooks", outside / ".git/hooks"):
        for path in hooks.glob("*"):
            path.unlink()
    env = {"HOME": str(home), "PATH": "/usr/bin:/bin"}
    boundary = boundary_of(SandboxPolicy(mode="workspace-write"), cwd=str(tree), env=env, home=str(home / ".codex"))
    # The folder that tests work in lies in /tmp, which commands may write.
    boundary = msgspec.structs.replace(boundary, roots=(str(tree),))
    reach = Reach(boundary, env=env)
    assert git_in_reach([["git", "commit"]], (str(tree),), env, reach, given=2) == []
    found = git_in_reach([["git", "commit"]], (str(nested),), env, reach, given=2)
    assert any("/.git" in one and one.startswith("what ") for one in found)
