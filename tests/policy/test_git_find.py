"""Git's own rules of finding a repository and of reading its settings; every case is tried with the real git."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from spindle.errors import SandboxUnavailable
from spindle.policy.git_config import Settings, entries
from spindle.policy.git_find import OddRepository, find, oddity
from spindle.policy.sandbox import Boundary, boundary_of
from spindle.process.sandbox import back_end_now
from spindle.protocol.settings import SandboxPolicy
from spindle.workspace.git import find_repository, git_facts

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
BARE = SandboxPolicy(mode="workspace-write", exclude_slash_tmp=True, exclude_tmpdir_env_var=True)


def git(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    env |= dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"), "x")
    env |= dict.fromkeys(("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"), "a@b")
    env["GIT_CEILING_DIRECTORIES"] = str(next(one.parent for one in (folder, *folder.parents) if one.name == "work"))
    return subprocess.run(["git", *words], cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def repository(folder: Path) -> Path:
    """The least that git takes for one."""
    for name in ("objects", "refs"):
        (folder / name).mkdir(parents=True)
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    return folder


def asked(folder: Path, what: str) -> str | None:
    done = git(folder, "rev-parse", f"--{what}")
    return os.path.realpath(folder / done.stdout.removesuffix("\n")) if done.returncode == 0 else None


def agree(folder: Path) -> bool:
    """Do we find what git finds? Its answer counts, also where it refuses."""
    theirs = (asked(folder, "git-dir"), asked(folder, "git-common-dir"))
    try:
        found = find(str(folder))
    except OddRepository:
        found = None
    ours = (os.path.realpath(found.git_dir), os.path.realpath(found.common_dir)) if found else (None, None)
    assert ours == theirs
    assert (find_repository(str(folder)) is not None) == (
        theirs[0] is not None and found is not None and found.tree is not None
    )
    return theirs[0] is not None


@pytest.mark.parametrize(
    ("content", "folder", "works"),
    [
        ("gitdir: g\n", "g", True),
        ("gitdir: g", "g", True),
        ("gitdir: g\r\n\n\r", "g", True),
        ("gitdir: g \n", "g ", True),
        ("gitdir: g \n", "g", False),
        ("gitdir:  g\n", " g", True),
        ("gitdir:  g\n", "g", False),
        ("gitdir: g\t\n", "g\t", True),
        ("gitdir: g\nmore\n", "g\nmore", True),
        ("gitdir: g\nmore\n", "g", False),
        ("gitdir: g\0more\n", "g", True),
        ("gitdir: a/../g\n", "g", False),
        ("gitdir: ./g/\n", "g", True),
        ("gitdir:g\n", "g", False),
        ("GITDIR: g\n", "g", False),
        (" gitdir: g\n", "g", False),
        ("gitdir: \n", "g", False),
        ("", "g", False),
        ("\n", "g", False),
    ],
)
def test_row5_a_pointer_is_read_as_git_reads_it(work: Path, content: str, folder: str, works: bool) -> None:
    repository(work / folder)
    (work / ".git").write_bytes(content.encode())
    assert agree(work) is works


@pytest.mark.parametrize(
    "content", ["c\n", "c", "c \n", " c\n", "c\nd\n", "c\r\n", "c\n\n", "c\0d", "\n", "./c/.", "../x"]
)
@pytest.mark.parametrize("entry", [".git", "bare"])
def test_row5_a_common_folder_is_read_as_git_reads_it(work: Path, content: str, entry: str) -> None:
    cwd = work if entry == ".git" else work / "bare"
    place = work / entry
    place.mkdir()
    (place / "HEAD").write_text("ref: refs/heads/main\n")
    (place / "commondir").write_bytes(content.encode())
    for name in ("c", "c ", " c", "c\nd", "c\r"):
        repository(place / name)
    repository(work / "x")
    agree(cwd)


@pytest.mark.parametrize(
    ("head", "works"),
    [
        ("ref: refs/heads/x", True),
        ("ref:refs/x", True),
        ("ref: \t\n refs/x", True),
        ("ref: heads/x", False),
        ("a" * 40, True),
        ("A" * 40 + "zzz", True),
        ("a" * 39, False),
        ("", False),
        ("x ref: refs/x", False),
    ],
)
def test_row4_a_folder_is_a_repository_where_git_says_so(work: Path, head: str, works: bool) -> None:
    repository(work / "sub")
    (work / "sub/HEAD").write_text(head)
    (work / "sub/deep").mkdir()
    for folder in (work / "sub", work / "sub/deep"):
        done = git(folder, "rev-parse", "--is-bare-repository")
        found = find(str(folder))
        assert (done.returncode == 0) is works is (found is not None)
        assert found is None or found.tree is None


def test_row4_objects_and_references_need_only_be_passable(work: Path) -> None:
    repository(work / "sub")
    shutil.rmtree(work / "sub/refs")
    assert not agree(work / "sub")
    (work / "sub/refs").write_text("")
    (work / "sub/refs").chmod(0o755)
    assert agree_bare(work / "sub")


def agree_bare(folder: Path) -> bool:
    return git(folder, "rev-parse", "--git-dir").returncode == 0 and find(str(folder)) is not None


def test_the_nearest_one_in_order_counts(work: Path) -> None:
    repository(work / ".git")
    below = work / "a/b"
    (below / ".git").mkdir(parents=True)
    assert agree(below) and find(str(below)).tree == os.path.realpath(work)  # pyright: ignore[reportOptionalMemberAccess]
    (below / ".git").rmdir()
    (below / ".git").symlink_to("nowhere")
    agree(below)
    (below / ".git").unlink()
    os.mkfifo(below / ".git")
    agree(below)


@pytest.mark.parametrize(
    "text",
    [
        "[a]\nk=v\n",
        '[a "B c"] K = "v w" x ; remark\n',
        '[a "q\\"\\\\q"]\nk = a\\\nb\n',
        "[A.B.c]\nk=1\n",
        "[a]k\n[b] l = \n",
        "\ufeff[a]\nk = 'v'  # r\n",
        '[a]\r\nk = "x # y" z\\t\\n\r\n',
        "# [x]\n; y\n[a]\n\tk = a   b\t\n",
        "[a][b]k=v",
        '[include]path=x\n[a "."]k=v\n',
        "[a]k=v\rw\n",
        '[a]k="v\nw"\n',
        "[a\nk=v\n",
        "[a]k=\\q\n",
        '[a "b]\nk=v\n',
        "[a]1=v\n",
        "[a]k v\n",
        "[a_b]k=v\n",
        "[a]\n k-l = v\n  k2=w",
    ],
)
def test_settings_are_read_as_git_reads_them(work: Path, text: str) -> None:
    (work / "f").write_bytes(text.encode())
    done = git(work, "config", "--file", "f", "--null", "--list")
    theirs = (
        None
        if done.returncode
        else [tuple(one.split("\n", 1)) if "\n" in one else (one, None) for one in done.stdout.split("\0")[:-1]]
    )
    try:
        ours = [(one.name, one.value) for one in entries(text)]
    except OddRepository:
        ours = None
    assert ours == theirs


def test_what_is_included_counts_whatever_the_condition(work: Path) -> None:
    (work / "config").write_text('[include]path=a\n[includeIf "gitdir:/nowhere/"]path=~/b\n')
    (work / "a").write_text("[include]path=d/c\n")
    (work / "b").write_text("[x]y=1\n")
    (work / "d").mkdir()
    (work / "d/c").write_text("[x]y=2\n[include]path=missing\n")
    settings = Settings.read([str(work / "config")], {"HOME": str(work)})
    assert [one.value for one in settings.values("x", "y")] == ["2", "1"]
    names = [os.path.relpath(file, work) for file in settings.files]
    assert names == ["config", "a", "d/c", "d/missing", "b"]
    (work / "d/c").write_text("[include]path=../config2\n")
    (work / "config2").write_text("[include]path=a\n")
    with pytest.raises(OddRepository):  # git does not follow a circle either
        Settings.read([str(work / "config")], {"HOME": str(work)})


def bounded(work: Path) -> Boundary:
    return boundary_of(BARE, cwd=str(work), env={}, home="")


ODD = [
    "gitdir: g \n",
    "gitdir:  g\n",
    "gitdir:g\n",
    "gitdir: g\nx\n",
    "gitdir: g\0x\n",
    "gitdir: g\t\n",
    "gitdir: g\r \n",
]


@pytest.mark.parametrize("content", ODD)
def test_row5_an_odd_pointer_makes_the_mode_refuse(work: Path, content: str) -> None:
    assert bounded(work).may_write("f")
    (work / ".git").write_bytes(content.encode())
    assert oddity(f"{work}/.git") is not None
    refuses(work)


@pytest.mark.parametrize("content", ["c \n", " c\n", "\n", "", "c\nd\n", "c\0\n"])
@pytest.mark.parametrize("is_pointer", [True, False])
def test_row5_an_odd_common_folder_makes_the_mode_refuse(work: Path, content: str, is_pointer: bool) -> None:
    place = repository(work / ("g" if is_pointer else ".git"))
    if is_pointer:
        (work / ".git").write_text("gitdir: g\n")
    assert bounded(work).may_write("f")
    (place / "commondir").write_bytes(content.encode())
    refuses(work)


def refuses(work: Path) -> None:
    boundary = bounded(work)
    for name in ("f", "g/config", "g /config", ".git"):
        assert not boundary.may_write(name)
    with pytest.raises(SandboxUnavailable, match="nothing was run"):
        back_end_now(boundary)


@pytest.mark.parametrize(
    "content", ["gitdir: g\n", "gitdir: g\r\n", "gitdir: g", "gitdir: a b/g\n", "gitdir: ä/g\n", "", "x\n"]
)
def test_row5_an_ordinary_pointer_refuses_nothing(work: Path, content: str) -> None:
    (work / ".git").write_bytes(content.encode())
    assert oddity(f"{work}/.git") is None
    boundary = bounded(work)
    assert boundary.may_write("f") and boundary.doubt() is None
    assert boundary.may_write("g/config") is (content[:9] != "gitdir: g")


@pytest.mark.parametrize("is_pointer", [True, False])
def test_row5_what_a_repository_shares_is_protected_wherever_it_lies(work: Path, is_pointer: bool) -> None:
    """`commondir` counts in a plain `.git` folder too."""
    place = work / ("g" if is_pointer else ".git")
    place.mkdir()
    if is_pointer:
        (work / ".git").write_text("gitdir: g\n")
    (place / "HEAD").write_text("ref: refs/heads/main\n")
    (place / "commondir").write_text("../store\n")
    repository(work / "store")
    assert agree(work)
    assert not bounded(work).may_write("store/hooks/pre-commit") and bounded(work).may_write("stores")


def test_row5_links_in_a_repository_lead_to_what_is_protected(work: Path) -> None:
    repository(work / ".git")
    (work / ".git/hooks").mkdir()
    (work / ".git/hooks/pre-commit").symlink_to("../../scripts/check")
    (work / ".git/config").symlink_to("../settings")
    (work / "settings").write_text("[include]path=../more\n")
    (work / "more").write_text("[core]hooksPath=h\n")
    for name in ("scripts/check", "settings", "more", "h/pre-push"):
        assert not bounded(work).may_write(name), name
    assert bounded(work).may_write("scripts/other")


def test_row5_a_link_on_the_way_of_a_pointer_cannot_be_turned(work: Path) -> None:
    repository(work / "real/g")
    (work / "link").symlink_to("real")
    (work / ".git").write_text("gitdir: link/g\n")
    boundary = bounded(work)
    assert f"{os.path.realpath(work)}/link" in boundary.protected()
    assert not boundary.may_write("real/g/config")


def test_facts_come_from_where_git_reads_them(work: Path) -> None:
    for name, branch in (("g", "trimmed"), ("g ", "real")):
        (repository(work / name) / "HEAD").write_text(f"ref: refs/heads/{branch}\n")
    (work / ".git").write_text("gitdir: g \n")
    facts = git_facts(str(work))
    assert facts is not None and facts.branch == "real"
