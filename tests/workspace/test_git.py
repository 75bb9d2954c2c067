"""Facts about a repository, compared with what git itself says, and repositories that git would not make."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from repository import make_repository
from spindle.workspace.git import GitFacts, find_root, git_facts, strip_credentials


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
    assert facts is not None and facts.commit_hash == expected
    assert facts.branch is None or facts.branch.isprintable()


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
