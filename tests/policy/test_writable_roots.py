"""Which paths a policy lets be written."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spindle.policy.deny import find_denied
from spindle.policy.sandbox import Boundary, Fence, boundary_of, protected_paths, writable_roots
from spindle.protocol.settings import PathRule, PermissionProfile, SandboxPolicy

BARE = SandboxPolicy(mode="workspace-write", exclude_slash_tmp=True, exclude_tmpdir_env_var=True)


def bounded(
    policy: SandboxPolicy, work: Path, env: dict[str, str] | None = None, fence: Fence | None = None
) -> Boundary:
    return boundary_of(policy, cwd=str(work), env=env or {}, home="", fence=fence)


def test_roots_stand_in_order_resolved_and_once(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    policy = SandboxPolicy(mode="workspace-write", writable_roots=("/opt", str(tmp_path / "link"), "relative"))
    env = {"TMPDIR": str(tmp_path / "tmp")}
    real = os.path.realpath(tmp_path)
    assert writable_roots(policy, str(tmp_path / "real"), env) == ("/opt", f"{real}/real", "/tmp", f"{real}/tmp")


@pytest.mark.parametrize("link", ["work/cache", "work/a/b", "start/cache"])
def test_a_link_that_a_command_could_have_made_adds_nothing_outside(tmp_path: Path, link: str) -> None:
    for name in ("work/a", "outside/b", "inside"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "start").symlink_to("work")
    path = tmp_path / link
    added = SandboxPolicy(mode="workspace-write", exclude_slash_tmp=True, writable_roots=(str(path), f"{path}-two"))
    real = os.path.realpath(tmp_path)
    work = f"{real}/work"
    assert set(writable_roots(added, work, {})) == {os.path.realpath(path), f"{os.path.realpath(path)}-two", work}
    path.symlink_to(f"{real}/outside")
    Path(f"{path}-two").symlink_to(f"{real}/outside/b")
    assert writable_roots(added, work, {}) == (work,)
    assert writable_roots(added, work, {"TMPDIR": str(path)}) == (work,)
    path.unlink()
    path.symlink_to(f"{work}/a")
    assert writable_roots(added, work, {}) == (f"{work}/a", work)


def test_a_link_that_lies_elsewhere_leads_to_a_root(tmp_path: Path) -> None:
    for name in ("work", "elsewhere/deep"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to("elsewhere")
    policy = SandboxPolicy(mode="workspace-write", exclude_slash_tmp=True, writable_roots=(f"{tmp_path}/link/deep",))
    real = os.path.realpath(tmp_path)
    assert writable_roots(policy, f"{real}/work", {}) == (f"{real}/elsewhere/deep", f"{real}/work")


@pytest.mark.parametrize("folder", ["/proc", "/proc/sys", "/sys/fs", "/dev", "/dev/pts"])
def test_what_belongs_to_the_kernel_is_no_root(folder: str) -> None:
    policy = SandboxPolicy(mode="workspace-write", writable_roots=(folder,), exclude_slash_tmp=True)
    assert writable_roots(policy, "/w", {"TMPDIR": folder}) == ("/w",)
    assert writable_roots(policy, "/dev/shm/w", {}) == ("/dev/shm/w",)


def test_only_workspace_write_has_roots(tmp_path: Path) -> None:
    assert writable_roots(SandboxPolicy(mode="read-only"), str(tmp_path), {}) == ()
    assert not bounded(SandboxPolicy(mode="read-only"), tmp_path).may_write(str(tmp_path / "x"))
    assert bounded(SandboxPolicy(mode="danger-full-access"), tmp_path).may_write("/etc/passwd")


AROUND = ["/", "//", "/w/..", "/srv", "/srv/work", "/srv/work/../..", "/proc/self/root", "/home", "/home/me"]


@pytest.mark.parametrize("tmpdir", AROUND)
@pytest.mark.parametrize("has_profile", [False, True], ids=["mode", "profile"])
def test_a_tmpdir_around_the_workspace_or_the_home_is_no_root(tmpdir: str, has_profile: bool) -> None:
    env = {"TMPDIR": tmpdir, "HOME": "/home/me"}
    policy = SandboxPolicy(mode="workspace-write", exclude_slash_tmp=True)
    if has_profile:
        rules = (PathRule(":root", "read"), PathRule(":workspace_roots", "write"), PathRule(":tmpdir", "write"))
        policy = SandboxPolicy(mode="workspace-write", permissions=PermissionProfile(name="x", rules=rules))
    assert writable_roots(policy, "/srv/work/project", env) == ("/srv/work/project",)


@pytest.mark.parametrize("tmpdir", ["/srv/work/project", "/home/me/tmp", "/srv/tmp", "/var/tmp", "/tmp"])
def test_any_other_tmpdir_is_a_root(tmpdir: str, monkeypatch: pytest.MonkeyPatch) -> None:
    env = {"TMPDIR": tmpdir, "HOME": "/home/me"}
    monkeypatch.setenv("HOME", "/home/me")  # the process has a home too, which may be a temporary folder
    policy = SandboxPolicy(mode="workspace-write", exclude_slash_tmp=True)
    for cwd in ("/srv/work/project", "/var/tmp/clone", "/tmp/clone"):
        assert writable_roots(policy, cwd, env) == tuple(dict.fromkeys((cwd, tmpdir)))


def test_a_relative_or_missing_tmpdir_is_no_root() -> None:
    policy = SandboxPolicy(mode="workspace-write", exclude_slash_tmp=True)
    assert writable_roots(policy, "/w", {"TMPDIR": "tmp"}) == writable_roots(policy, "/w", {}) == ("/w",)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def judge(path: str | Path, work: Path, env: dict[str, str] | None = None) -> bool:
    return bounded(BARE, work, env).may_write(str(path))


@pytest.mark.parametrize("name", ["a.txt", "new/deep/a.txt", "sub/.git", ".gitignore", ".github/x", "./sub/../a"])
def test_below_the_root_is_writable(name: str, work: Path) -> None:
    assert judge(name, work)
    assert judge(work / name, work)


@pytest.mark.parametrize(
    "name",
    [
        "../a",
        "../work-evil/a",
        "/etc/a",
        ".git",
        ".git/hooks/x",
        ".codex/config.toml",
        ".agents",
        ".GIT/x",
        ".Codex",
        ".vscode/settings.json",
        ".envrc",
        ".husky/pre-commit",
        ".VSCode/tasks.json",
    ],
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
        f"{real}/.vscode",
        f"{real}/.envrc",
        f"{real}/.husky",
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


def test_the_user_may_protect_other_paths_but_never_fewer_than_the_agents_own(work: Path) -> None:
    fence = Fence(protected=("ci/deploy.sh",))
    boundary = bounded(BARE, work, fence=fence)
    assert not boundary.may_write("ci/deploy.sh")
    assert boundary.may_write("ci/other.sh")
    assert boundary.may_write(".envrc")
    assert not boundary.may_write(".git/config")


def test_a_denied_file_cannot_be_read_by_any_of_its_names(work: Path) -> None:
    secret = work / "keys" / "id"
    secret.parent.mkdir()
    secret.write_text("s")
    os.link(secret, work / "twin")
    (work / "link").symlink_to("keys/id")
    (work / "open").write_text("o")
    os.link(work / "open", work / "open-twin")
    boundary = bounded(BARE, work, fence=Fence(deny_read=(str(work / "keys"), "**/*.pem")))
    for name in ("keys/id", "keys", "keys/new", "link", "../work/keys/id", f"/proc/self/root{work}/keys/id", "a/b.pem"):
        assert not boundary.may_read(name), name
        assert not boundary.may_write(name), name
    assert boundary.may_read("open-twin")
    hard = bounded(BARE, work, fence=Fence(deny_read=(str(secret),)))
    assert not hard.may_read("twin")
    assert hard.may_read("open-twin")


@pytest.mark.parametrize(
    ("pattern", "denied", "open_"),
    [
        ("*.pem", ["a.pem"], ["d/a.pem", "a.pem.txt", "apem"]),
        ("**/.env", [".env", "a/.env", "a/b/.env", "a/.env/x"], [".envrc", "env"]),
        ("d/?[ab]c", ["d/xac"], ["d/xcc", "d/ac"]),
        ("d/**", ["d/a", "d/a/b"], ["d", "dd/a"]),
        ("[!a]x", ["bx"], ["ax"]),
    ],
)
def test_globs_stay_within_a_component_unless_they_are_doubled(
    pattern: str, denied: list[str], open_: list[str], work: Path
) -> None:
    boundary = bounded(BARE, work, fence=Fence(deny_read=(pattern,)))
    assert [name for name in denied if boundary.may_read(name)] == []
    assert [name for name in open_ if not boundary.may_read(name)] == []


def test_a_denied_folder_behind_a_link_is_denied_where_it_really_is(work: Path) -> None:
    (work / "real").mkdir()
    (work / "real" / "key").write_text("k")
    (work / "ssh").symlink_to("real")
    assert not bounded(BARE, work, fence=Fence(deny_read=(str(work / "ssh"),))).may_read("real/key")


@pytest.mark.timeout(30)
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_pointer_to_something_that_is_no_file_is_not_waited_for(work: Path, make: Callable[[Path], None]) -> None:
    (work / "fake").mkdir()
    make(work / "fake/commondir")
    (work / ".git").write_text("gitdir: fake\n")
    assert os.path.realpath(work / "fake") in protected_paths(str(work))


def test_a_folder_that_cannot_be_looked_into_is_denied_as_a_whole(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that may write there could have closed it, and could open it again."""
    closed = work / "closed"
    (closed / "deep").mkdir(parents=True)

    def refuse(real: Callable[[str], Any], below: Path) -> Callable[[str], Any]:
        def call(path: str) -> Any:
            if str(path).startswith(str(below)):
                raise PermissionError(13, "Permission denied", str(path))
            return real(path)

        return call

    patterns = (f"{work}/**/*.pem",)
    monkeypatch.setattr(os, "scandir", refuse(os.scandir, closed / "deep"))
    assert find_denied(patterns) == [os.path.realpath(closed / "deep")]
    monkeypatch.setattr(os, "lstat", refuse(os.lstat, closed / "deep"))  # its parent lets nobody enter
    assert find_denied(patterns) == [os.path.realpath(closed / "deep")]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[core]\n\thooksPath = .githooks\n", [".githooks"]),
        ('[core] HOOKSPATH="a b/c" # x\n', ["a b/c"]),
        ("[include]\n\tpath = ../team.cfg ; ours\n", ["team.cfg"]),
        ('[includeIf "gitdir:~/x"]\npath=../x.cfg\n', ["x.cfg"]),
        ("[include]\n\tpath = ../missing.cfg\n", []),
        ("[core]\n\thooksPath = ~/hooks\n\thooksPath = /etc/hooks\n\thooksPath = .\n\thooksPath = ..\n", []),
        ("[core]\n\thooksPath = .git/hooks\n\thooksPath = .husky/_\n", []),
        ("[other]\n\thooksPath = x\n\tpath = y\n[core]\n\tpath = z\n", []),
    ],
)
def test_what_the_settings_of_a_repository_name_is_protected_like_the_repository(
    tmp_path: Path, text: str, named: list[str]
) -> None:
    root = os.path.realpath(tmp_path)
    (tmp_path / ".git").mkdir()
    usual = protected_paths(root)
    (tmp_path / ".git/config").write_text(text)
    for name in ("team.cfg", "x.cfg"):
        (tmp_path / name).touch()
    assert protected_paths(root) == (*usual, *(f"{root}/{name}" for name in named))


def test_what_only_looks_has_no_roots_unless_something_is_denied_or_hidden(tmp_path: Path) -> None:
    def looking(**more: Any) -> tuple[str, ...]:
        policy = SandboxPolicy(mode="workspace-write")
        whole = Boundary(policy=policy, cwd=str(tmp_path), roots=(str(tmp_path), "/tmp"), **more)
        return whole.for_looking().roots

    assert looking() == ()
    # Other names of what is closed are looked for below the roots, so they must stay known.
    for closed in ({"denied": ("/etc/shadow",)}, {"fence": Fence(hidden=("/srv",))}, {"is_let_out": True}):
        assert looking(**closed) == (str(tmp_path), "/tmp")
