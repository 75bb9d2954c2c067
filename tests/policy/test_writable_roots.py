"""Which paths a policy lets be written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spindle.policy.sandbox import is_writable, protected_paths, writable_roots
from spindle.protocol.settings import SandboxPolicy

BARE = SandboxPolicy(mode="workspace-write", exclude_slash_tmp=True, exclude_tmpdir_env_var=True)


def test_roots_stand_in_order_resolved_and_once(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    policy = SandboxPolicy(mode="workspace-write", writable_roots=("/opt", str(tmp_path / "link"), "relative"))
    env = {"TMPDIR": str(tmp_path / "tmp")}
    real = os.path.realpath(tmp_path)
    assert writable_roots(policy, str(tmp_path / "real"), env) == ("/opt", f"{real}/real", "/tmp", f"{real}/tmp")


@pytest.mark.parametrize("folder", ["/proc", "/proc/sys", "/sys/fs", "/dev", "/dev/pts"])
def test_what_belongs_to_the_kernel_is_no_root(folder: str) -> None:
    policy = SandboxPolicy(mode="workspace-write", writable_roots=(folder,), exclude_slash_tmp=True)
    assert writable_roots(policy, "/w", {"TMPDIR": folder}) == ("/w",)
    assert writable_roots(policy, "/dev/shm/w", {}) == ("/dev/shm/w",)


def test_only_workspace_write_has_roots(tmp_path: Path) -> None:
    assert writable_roots(SandboxPolicy(mode="read-only"), str(tmp_path), {}) == ()
    assert not is_writable(str(tmp_path / "x"), SandboxPolicy(mode="read-only"), str(tmp_path), {})
    assert is_writable("/etc/passwd", SandboxPolicy(mode="danger-full-access"), str(tmp_path), {})


def test_a_relative_or_missing_tmpdir_is_no_root() -> None:
    policy = SandboxPolicy(mode="workspace-write", exclude_slash_tmp=True)
    assert writable_roots(policy, "/w", {"TMPDIR": "tmp"}) == writable_roots(policy, "/w", {}) == ("/w",)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def judge(path: str | Path, work: Path, env: dict[str, str] | None = None) -> bool:
    return is_writable(str(path), BARE, str(work), env or {})


@pytest.mark.parametrize("name", ["a.txt", "new/deep/a.txt", "sub/.git", ".gitignore", ".github/x", "./sub/../a"])
def test_below_the_root_is_writable(name: str, work: Path) -> None:
    assert judge(name, work)
    assert judge(work / name, work)


@pytest.mark.parametrize(
    "name",
    ["../a", "../work-evil/a", "/etc/a", ".git", ".git/hooks/x", ".codex/config.toml", ".agents", ".GIT/x", ".Codex"],
)
def test_outside_and_protected_names_are_not(name: str, work: Path) -> None:
    assert not judge(name, work)


def test_links_count_as_what_they_lead_to(work: Path) -> None:
    (work / "out").symlink_to("/etc")
    (work / "hooks").symlink_to(".git/hooks")
    (work / "in").symlink_to("sub")
    assert not judge("out/passwd", work)
    assert not judge("hooks/pre-commit", work)
    assert judge("in/a", work)


def test_the_folders_behind_a_git_pointer_are_protected(work: Path) -> None:
    gitdir = work / "store" / "worktrees" / "w"
    gitdir.mkdir(parents=True)
    (gitdir / "commondir").write_text("../..\n")
    (work / ".git").write_text("gitdir: store/worktrees/w\n")
    real = os.path.realpath(work)
    assert protected_paths(real) == (
        f"{real}/.git",
        f"{real}/.codex",
        f"{real}/.agents",
        f"{real}/store/worktrees/w",
        f"{real}/store",
    )
    assert not judge("store/config", work)
    assert not judge("store/worktrees/w/HEAD", work)
    assert judge("other/config", work)


def test_the_agents_own_home_is_never_writable(work: Path) -> None:
    env = {"CODEX_HOME": str(work / "home"), "HOME": str(work)}
    assert not judge("home/config.toml", work, env)
    assert not judge(".codex/x", work, {"HOME": str(work)})
    inside = SandboxPolicy(mode="workspace-write", writable_roots=(str(work / "home" / "x"),), exclude_slash_tmp=True)
    assert writable_roots(inside, str(work), env) == (os.path.realpath(work),)
