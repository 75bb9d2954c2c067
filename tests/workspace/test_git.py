"""Facts about a repository, compared with what git itself says, and repositories that git would not make."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from repository import make_repository
from spindle.workspace.git import GitFacts, find_repository, find_root, git_facts, strip_credentials


def git(folder: Path, *args: str) -> str:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(folder), *args]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = make_repository(tmp_path / "repo")
    (folder / ".git/HEAD").write_text("ref: refs/heads/main\n")
    return folder


def commit(folder: Path) -> str:
    git(folder, "commit", "-q", "--allow-empty", "-m", "x")
    return git(folder, "rev-parse", "HEAD")


def test_outside_of_a_repository_there_is_nothing_to_tell(tmp_path: Path):
    assert git_facts(str(tmp_path)) is None


def test_before_the_first_commit_only_the_branch_is_known(repository: Path):
    assert git_facts(str(repository)) == GitFacts(root=str(repository), branch="main")


def test_branch_commit_and_origin_are_read_from_a_sub_folder(repository: Path):
    head = commit(repository)
    git(repository, "checkout", "-q", "-b", "feature/x")
    git(repository, "remote", "add", "origin", "https://user:secret@example.com/a/b.git")
    (repository / "sub").mkdir()
    facts = git_facts(str(repository / "sub"))
    assert facts is not None and facts.to_wire() == {
        "commit_hash": head,
        "branch": "feature/x",
        "repository_url": "https://example.com/a/b.git",
    }


def test_packed_references_are_found(repository: Path):
    head = commit(repository)
    git(repository, "branch", "other-main")
    git(repository, "pack-refs", "--all")
    assert not (repository / ".git/refs/heads/main").exists()
    assert git_facts(str(repository)) == GitFacts(root=str(repository), branch="main", commit_hash=head)


def test_a_detached_head_has_a_commit_and_no_branch(repository: Path):
    head = commit(repository)
    git(repository, "checkout", "-q", "--detach")
    assert git_facts(str(repository)) == GitFacts(root=str(repository), commit_hash=head)


def test_a_worktree_has_its_own_branch_and_shares_the_rest(repository: Path, tmp_path: Path):
    head = commit(repository)
    git(repository, "remote", "add", "origin", "git@example.com:a/b.git")
    git(repository, "worktree", "add", "-q", "-b", "side", str(tmp_path / "tree"))
    assert git_facts(str(tmp_path / "tree")) == GitFacts(
        root=str(tmp_path / "tree"), branch="side", commit_hash=head, repository_url="git@example.com:a/b.git"
    )


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("ref: refs/heads/../../../secret\n", None),
        ("ref: refs/heads/loop\n", None),
        ("ref: refs/heads/a\x1b[2Jb\n", None),
        ("not a hash\n", None),
        ("f" * 40 + "\n", "f" * 40),
        ("\xff\xfe\x00", None),
    ],
)
def test_a_prepared_head_gives_a_hash_or_nothing(repository: Path, head: str, expected: str | None):
    (repository / ".git/HEAD").write_text(head)
    (repository / ".git/refs/heads/loop").write_text("ref: refs/heads/loop\n")
    (repository / "secret").write_text("e" * 40)
    facts = git_facts(str(repository))
    assert (facts and facts.commit_hash) == expected
    assert facts is None or facts.branch is None or facts.branch.isprintable()


@pytest.mark.parametrize(
    ("url", "clean"),
    [
        ("https://example.com/a.git", "https://example.com/a.git"),
        ("https://token@example.com/a.git", "https://example.com/a.git"),
        ("https://u:p@w@example.com:8443/a?access_token=x", "https://example.com:8443/a"),
        ("HTTP://u:p@example.com", "HTTP://example.com"),
        ("ssh://git:pw@example.com/a", "ssh://git@example.com/a"),
        ("ssh://git@example.com/a", "ssh://git@example.com/a"),
        ("git@example.com:a/b.git", "git@example.com:a/b.git"),
        ("/local/path", "/local/path"),
    ],
)
def test_credentials_are_taken_out_of_addresses(url: str, clean: str):
    assert strip_credentials(url) == clean


def test_the_root_is_the_nearest_folder_with_a_marker(tmp_path: Path):
    inner = tmp_path / "outer/inner/deep"
    inner.mkdir(parents=True)
    (tmp_path / "outer/.git").mkdir()
    (tmp_path / "outer/inner/go.mod").touch()
    assert find_root(str(inner)) == str(tmp_path / "outer")
    assert find_root(str(inner), [".git", "go.mod"]) == str(tmp_path / "outer/inner")
    assert find_root(str(inner), []) is None
    assert find_root(str(inner), ["../../outer"]) is None


def make_folder(path: Path, *below: str, head: str | None = None) -> None:
    for name in below:
        (path / name).mkdir(parents=True, exist_ok=True)
    if head is not None:
        (path / ".git/HEAD").write_text(head)


BRANCH = "ref: refs/heads/main\n"
LOOKALIKES: dict[str, Callable[[Path], object]] = {
    "nothing": lambda at: None,
    "an empty folder": lambda at: make_folder(at, ".git"),
    "a head alone": lambda at: make_folder(at, ".git", head=BRANCH),
    "no references": lambda at: make_folder(at, ".git/objects", head=BRANCH),
    "no objects": lambda at: make_folder(at, ".git/refs", head=BRANCH),
    "no head": lambda at: make_folder(at, ".git/objects", ".git/refs"),
    "a head that names nothing": lambda at: make_folder(at, ".git/objects", ".git/refs", head="junk\n"),
    "a head outside of refs": lambda at: make_folder(at, ".git/objects", ".git/refs", head="ref: objects/x\n"),
    "an empty head": lambda at: make_folder(at, ".git/objects", ".git/refs", head=""),
    "all three": lambda at: make_folder(at, ".git/objects", ".git/refs", head=BRANCH),
    "a detached head": lambda at: make_folder(at, ".git/objects", ".git/refs", head="a" * 40 + "\n"),
    "a head without a blank": lambda at: make_folder(at, ".git/objects", ".git/refs", head="ref:refs/heads/main"),
    "a pointer that is none": lambda at: (at / ".git").write_text("hello\n"),
    "a pointer to nowhere": lambda at: (at / ".git").write_text("gitdir: /nowhere\n"),
    "a pointer to a plain folder": lambda at: (at / ".git").write_text("gitdir: ..\n"),
    "a link to nowhere": lambda at: (at / ".git").symlink_to("/nowhere"),
    "a bare repository": lambda at: git(at, "init", "-q", "--bare", "."),
    "a repository": lambda at: git(at, "init", "-q", "."),
}


@pytest.mark.parametrize("kind", LOOKALIKES)
def test_what_git_takes_for_a_working_tree_is_one(kind: str, tmp_path: Path):
    place = tmp_path / "tree/sub"
    place.mkdir(parents=True)
    LOOKALIKES[kind](place.parent)
    asked = subprocess.run(["git", "rev-parse", "--is-inside-work-tree"], cwd=place, capture_output=True, text=True)
    expected = str(place.parent) if asked.stdout == "true\n" else None
    assert find_repository(str(place)) == expected


def test_worktrees_submodules_and_links_are_working_trees(repository: Path, tmp_path: Path):
    commit(repository)
    git(repository, "worktree", "add", "-q", str(tmp_path / "tree"))
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked/.git").symlink_to(repository / ".git")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/.git").write_text(f"gitdir: {os.path.relpath(repository / '.git', tmp_path / 'sub')}\n")
    for name in ("tree", "linked", "sub"):
        assert find_repository(str(tmp_path / name)) == str(tmp_path / name)


def test_a_folder_named_like_a_repository_does_not_hide_the_one_around_it(repository: Path):
    (repository / "sub/.git").mkdir(parents=True)
    assert find_repository(str(repository / "sub")) == str(repository)
    facts = git_facts(str(repository / "sub"))
    assert facts is not None and facts.root == str(repository)
