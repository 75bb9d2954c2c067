"""A repository that has git run its programs is not looked at without asking; every case is tried with the real git."""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from spindle.policy.commands import is_known_safe, safe_environment
from spindle.policy.git_drivers import git_may_run_programs, programs_named
from spindle.policy.words import split_script

SIGNED = (
    "tree {tree}\nauthor a <a@b> 1 +0000\ncommitter a <a@b> 1 +0000\n"
    "gpgsig -----BEGIN PGP SIGNATURE-----\n \n aaaa\n -----END PGP SIGNATURE-----\n\nm\n"
)


def git(folder: Path, *words: str, stdin: str | None = None) -> str:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    line = ["git", "-c", "user.name=x", "-c", "user.email=a@b", "-c", "core.fsmonitor=false", *words]
    return subprocess.run(
        line, cwd=folder, env=env, input=stdin, capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.fixture
def evil(tmp_path: Path) -> Path:
    program = tmp_path / "evil"
    program.write_text(f"#!/bin/sh\n: > {tmp_path}/ran\ncat\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "w"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main", ".")
    (folder / "f").write_text("1\n")
    git(folder, "add", "f")
    git(folder, "commit", "-qm", "a")
    (folder / "f").write_text("2\n")
    return folder


def runs_evil(script: str, cwd: Path) -> bool:
    """What happens when the line runs as one that only looks."""
    argv = ["bash", "-c", script]
    assert is_known_safe(argv)
    env = {"PATH": os.environ["PATH"], "HOME": str(cwd), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(
        argv, cwd=cwd, env=env | safe_environment(argv, env), stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    ran = cwd.parent / "ran"
    if ran.exists():
        ran.unlink()
        return True
    return False


def may_run(script: str, cwd: Path) -> bool:
    parts = split_script(script)
    assert parts is not None
    return git_may_run_programs([words for _, words in parts], str(cwd))


@pytest.mark.parametrize(
    ("settings", "attributes", "script"),
    [
        ("[diff]\nexternal={evil}\n", "", "git diff"),
        ("[DIFF] External = {evil}\n", "", "git diff"),
        ('[diff "x"]\ntextconv={evil}\n', "* diff=x\n", "git show"),
        ('[diff "x"]\ntextconv={evil}\n', "* diff=x\n", "git log -p"),
        ('[diff "x"]\ncommand={evil}\n', "* diff=x\n", "git diff"),
        ('[diff ""]\ncommand={evil}\n', "* diff=\n", "git diff"),
        ('[diff ""]\ntextconv={evil}\n', "* diff=\n", "git log -p"),
        ("[diff.]\ncommand={evil}\n", "* diff=\n", "git diff"),
        ('[filter "x"]\nclean={evil}\n', "* filter=x\n", "git diff"),
        ('[filter "x"]\nprocess={evil}\n', "* filter=x\n", "git diff"),
        ("[include]\npath=../more\n", "", "git diff"),
        ('[includeIf "gitdir:/"]\npath=../more\n', "", "git diff"),
    ],
)
def test_settings_that_name_a_program(tree: Path, evil: Path, settings: str, attributes: str, script: str) -> None:
    assert not runs_evil(script, tree) and not may_run(script, tree)
    (tree / ".gitattributes").write_text(attributes)
    (tree / "more").write_text(f"[diff]\nexternal={evil}\n")
    with (tree / ".git" / "config").open("a") as file:
        file.write(settings.replace("{evil}", str(evil)))
    assert runs_evil(script, tree)
    assert may_run(script, tree)
    (tree / "below").mkdir()
    assert may_run(script, tree / "below") and may_run(f"cd below; {script}", tree)
    assert may_run(f"cd w && {script}", tree.parent) and not may_run(script, tree.parent)


@pytest.mark.parametrize("program", ["[gpg]\nprogram", '[gpg "openpgp"]\nprogram'])
@pytest.mark.parametrize("script", ["git log", "git log --pretty=x", "git show"])
def test_signatures_are_checked_by_no_program_of_the_repository(
    tree: Path, evil: Path, program: str, script: str
) -> None:
    git(tree, "update-ref", "HEAD", git(tree, "hash-object", "-t", "commit", "-w", "--stdin", stdin=signed(tree)))
    with (tree / ".git" / "config").open("a") as file:
        file.write(f'{program}={evil}\n[format]\npretty="%G?"\n[pretty]\nx="%G?"\n')
    git(tree, "log")
    assert (tree.parent / "ran").exists()  # it is tried, and would work
    (tree.parent / "ran").unlink()
    assert not runs_evil(script, tree) and not may_run(script, tree)


def test_a_partial_clone_that_names_a_program(tree: Path, evil: Path) -> None:
    git(tree, "config", "remote.o.promisor", "true")
    git(tree, "config", "remote.o.url", "git@example.org:x/y")
    assert not may_run("git diff", tree)
    git(tree, "config", "remote.o.uploadpack", str(evil))
    assert may_run("git diff", tree)


@pytest.mark.parametrize("makes_lazy", ["promisor", "partialclonefilter"])
def test_row4_what_a_partial_clone_fetches_by_is_found_wherever_it_is_named(tree: Path, makes_lazy: str) -> None:
    """Old versions of git cannot be told not to fetch, so here they are not told."""
    git(tree, "config", "protocol.allow", "always")
    git(tree, "config", f"remote.o.{makes_lazy}", {"promisor": "true"}.get(makes_lazy, "blob:none"))
    assert not may_run("git show", tree)
    evil = f"ext::touch {tree.parent}/ran"
    for folder, text in (("remotes", f"URL: {evil}\n"), ("branches", f"{evil}\n")):
        (tree / ".git" / folder).mkdir(exist_ok=True)
        (tree / ".git" / folder / "o").write_text(text)
        missing = git(tree, "rev-parse", "HEAD:f")
        (tree / f".git/objects/{missing[:2]}/{missing[2:]}").unlink(missing_ok=True)
        subprocess.run(["git", "show"], cwd=tree, capture_output=True, check=False)
        assert (tree.parent / "ran").exists() and may_run("git show", tree)
        (tree.parent / "ran").unlink()
        (tree / ".git" / folder / "o").unlink()


def signed(tree: Path) -> str:
    return SIGNED.format(tree=git(tree, "write-tree"))


def test_a_repository_among_the_files_of_another(tree: Path, evil: Path) -> None:
    inner = tree / "sub"
    (inner / "refs" / "heads").mkdir(parents=True)
    (inner / "objects").mkdir()
    (inner / "HEAD").write_text("ref: refs/heads/main\n")
    (inner / "config").write_text(
        f"[core]\nrepositoryformatversion=0\nbare=false\nworktree=.\n[diff]\nexternal={evil}\n"
    )
    (inner / "f").write_text("1\n")
    git(inner, "add", "f")
    (inner / "f").write_text("2\n")
    assert runs_evil("cd sub && git diff", tree)
    assert may_run("cd sub && git diff", tree) and may_run("git diff", inner)
    assert not may_run("git diff", tree)


@pytest.mark.parametrize("version", ["2", "4"])
def test_a_submodule_that_names_a_program(tree: Path, evil: Path, version: str) -> None:
    inner = tree / "sub"
    inner.mkdir()
    git(inner, "init", "-q", "-b", "main", ".")
    (inner / "g").write_text("1\n")
    git(inner, "add", "g")
    git(inner, "commit", "-qm", "s")
    git(tree, "add", "sub")
    git(tree, "update-index", "--index-version", version)
    assert may_run("git status", tree) == (version == "4")  # of what cannot be read nothing is known
    (inner / ".gitattributes").write_text("* filter=x\n")
    git(inner, "config", "filter.x.clean", str(evil))
    (inner / "g").write_text("2\n")
    assert runs_evil("git status", tree)
    assert may_run("git status", tree)


def inner_repository(folder: Path, evil: Path) -> str:
    """With a filter of its own; its commit."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main", ".")
    (folder / "g").write_text("1\n")
    git(folder, "add", "g")
    git(folder, "commit", "-qm", "s")
    (folder / ".gitattributes").write_text("* filter=x\n")
    git(folder, "config", "filter.x.clean", str(evil))
    (folder / "g").write_text("2\n")
    return git(folder, "rev-parse", "HEAD")


def entry(mode: int, identity: str, name: str, *, length: int | None = None, is_not_there: bool = False) -> bytes:
    """An entry of an index. `length` is what it says of its name."""
    noted = len(name) if length is None else length
    flags = struct.pack(">H", noted | 0x4000) + b"\x40\0" if is_not_there else struct.pack(">H", noted)
    content = struct.pack(">10L", 0, 0, 0, 0, 0, 0, mode, 0, 0, 0) + bytes.fromhex(identity) + flags
    return (content + name.encode()).ljust((len(content) + noted + 8) & ~7, b"\0")


def write_index(tree: Path, *entries: bytes, version: int = 2, rest: bytes = b"") -> None:
    content = b"DIRC" + struct.pack(">LL", version, len(entries)) + b"".join(entries) + rest
    (tree / ".git/index").write_bytes(content + hashlib.sha1(content).digest())


@pytest.mark.parametrize("script", ["git status", "git diff"])
@pytest.mark.parametrize(
    ("mode", "folder", "name", "length"),
    [
        (0o160000, "sub", "sub", None),
        (0o160644, "sub", "sub", None),
        (0o1160000, "sub", "sub", None),
        (0o100160000, "sub", "sub", None),
        (0o160000, "subq", "subqzz", 3),  # with a diff it comes to nothing, as the names do not fit
        (0o160000, "../beside", "../beside", None),
        (0o160000, "../beside", "{tree}/../beside", None),
    ],
)
def test_row4_a_submodule_is_found_by_the_bits_that_git_looks_at(
    tree: Path, evil: Path, script: str, mode: int, folder: str, name: str, length: int | None
) -> None:
    identity = inner_repository(tree / folder, evil)
    rows = {"f": entry(0o100644, git(tree, "rev-parse", "HEAD:f"), "f")}
    write_index(tree, *rows.values())
    assert not may_run(script, tree)
    name = name.replace("{tree}", str(tree))
    rows[name] = entry(mode, identity, name, length=length)
    write_index(tree, *(rows[key] for key in sorted(rows)))
    assert (runs_evil(script, tree) or (length and script == "git diff")) and may_run(script, tree)


def test_row4_a_folder_that_the_index_only_stands_for_hides_no_submodule(tree: Path, evil: Path) -> None:
    (tree / "d").mkdir()
    (tree / "d/x").write_text("1\n")
    identity = inner_repository(tree.parent / "made", evil)
    git(tree, "add", "d/x")
    git(tree, "update-index", "--add", "--cacheinfo", f"160000,{identity},d/sub")
    git(tree, "commit", "-qm", "d")
    rows = entry(0o040000, git(tree, "rev-parse", "HEAD:d"), "d/", is_not_there=True)
    rows += entry(0o100644, git(tree, "rev-parse", "HEAD:f"), "f")
    shutil.rmtree(tree / "d")
    with (tree / ".git/config").open("a") as file:
        file.write("[core]\nsparseCheckout=true\nsparseCheckoutCone=true\n[index]\nsparse=true\n")
    (tree / ".git/info").mkdir(exist_ok=True)
    (tree / ".git/info/sparse-checkout").write_text("/*\n!/*/\n")
    content = b"DIRC" + struct.pack(">LL", 3, 2) + rows + b"sdir\0\0\0\0"
    (tree / ".git/index").write_bytes(content + hashlib.sha1(content).digest())
    assert not runs_evil("git status", tree) and not may_run("git status", tree)  # as it should be: nothing is there
    (tree / "d").mkdir()
    (tree.parent / "made").rename(tree / "d/sub")
    assert runs_evil("git status", tree) and may_run("git status", tree)


def test_row4_a_submodule_under_a_name_that_another_file_has(tree: Path, evil: Path) -> None:
    identity = inner_repository(tree / "sub", evil)
    git(tree, "update-index", "--add", "--cacheinfo", f"100644,{git(tree, 'rev-parse', 'HEAD:f')},sub")
    git(tree, "update-index", "--split-index")
    assert not may_run("git status", tree)
    git(tree, "update-index", "--cacheinfo", f"160000,{identity},sub")
    assert runs_evil("git status", tree) and may_run("git status", tree)


@pytest.mark.parametrize("kind", ["4", "split", "long", "later"])
def test_an_index_of_an_ordinary_kind_is_looked_at_without_a_question(tree: Path, tmp_path: Path, kind: str) -> None:
    if kind == "4":
        git(tree, "update-index", "--index-version", "4")
    elif kind == "split":
        git(tree, "update-index", "--split-index")
        (tree / "h").write_text("1\n")
        git(tree, "add", "h")
    elif kind == "later":
        (tree / "h").write_text("1\n")
        git(tree, "add", "-N", "h")
    else:
        tree = tmp_path / "long"
        tree.mkdir()
        git(tree, "init", "-q", "--object-format=sha256")
        for name in ("a", "b" * 200):
            (tree / name).write_text("1\n")
        git(tree, "add", ".")
    assert not may_run("git status", tree)
    (tree / ".git/index").write_bytes((tree / ".git/index").read_bytes()[:40])
    assert may_run("git status", tree)  # cut off: of what cannot be read nothing is known


@pytest.mark.parametrize(
    "name", ["config", "index", "refs", "objects", "commondir", ".git", "pointer", "cd", "workdir"]
)
def test_row4_a_name_that_leads_git_elsewhere_than_us_is_unclear(tree: Path, evil: Path, name: str) -> None:
    """`/proc/self/cwd` is the folder of whoever asks."""
    inner, script, here = tree / "sub", "cd sub && git diff", "/proc/self/cwd"
    inner_repository(inner, evil)
    folder, cwd = inner / ".git", tree
    if name in ("config", "index", "refs", "objects"):
        (folder / name).rename(inner / "moved")
        (folder / name).symlink_to(f"{here}/moved")
    elif name == "commondir":
        shutil.copytree(folder, inner / "moved")
        (folder / "commondir").write_text(f"{here}/moved\n")
    elif name in (".git", "pointer"):
        folder.rename(inner / "moved")
        if name == ".git":
            folder.symlink_to(f"{here}/moved")
        else:
            folder.write_text(f"gitdir: {here}/moved\n")
    elif name == "cd":
        script = f"cd {here}/sub && git diff"
    else:
        script, cwd = "git diff", Path(f"{here}/sub")
    if name != "workdir":
        assert runs_evil(script, tree) or name == "index"  # git diff may find the file's times unchanged
    assert may_run(script, cwd)


@pytest.mark.parametrize("kind", ["pipe", "terminal"])
def test_row4_settings_that_can_be_read_only_once_are_unclear(tree: Path, kind: str) -> None:
    settings = tree / ".git/config"
    settings.unlink()
    if kind == "pipe":
        os.mkfifo(settings)
    else:
        settings.symlink_to("/dev/stdin")
    assert may_run("git diff", tree)


def test_settings_of_the_null_device_and_links_to_files_are_no_question(tree: Path) -> None:
    (tree / ".git/config").rename(tree.parent / "elsewhere")
    (tree / ".git/config").symlink_to("../../elsewhere")
    assert not may_run("git diff", tree)
    (tree / ".git/config").unlink()
    (tree / ".git/config").symlink_to("/dev/null")
    assert not may_run("git diff", tree)


def test_a_worktree_and_a_pointer(tree: Path, evil: Path) -> None:
    git(tree, "worktree", "add", "-q", "../other")
    other = tree.parent / "other"
    assert not may_run("git diff", other)
    git(tree, "config", "diff.external", str(evil))
    (other / "f").write_text("3\n")
    (tree.parent / "other" / "f").write_text("33\n")
    assert runs_evil("git diff", other) and may_run("git diff", other)
    (other / ".git").write_text("nonsense\n")
    assert may_run("git diff", other)


@pytest.mark.parametrize(
    "script", ["cd && git diff", "cd - && git diff", "cd x* && git diff", "cd ~ && git diff", "cd -P x && git diff"]
)
def test_a_folder_that_cannot_be_told(tree: Path, script: str) -> None:
    assert may_run(script, tree)


def test_ordinary_repositories_are_looked_at_without_a_question(tree: Path) -> None:
    git(tree, "remote", "add", "origin", "git@github.com:a/clean.git")
    git(tree, "config", "branch.main.remote", "origin")
    git(tree, "config", "core.autocrlf", "input")
    git(tree, "config", "user.email", "process@external.command")
    for script in ("git status", "cd .. && cd w && git log", "git diff; cd /; git status", "cd missing || git show"):
        assert not may_run(script, tree)


def test_row4_a_merge_that_is_done_anew_runs_the_driver_for_it(tree: Path, evil: Path) -> None:
    git(tree, "checkout", "-q", "--", "f")
    git(tree, "checkout", "-q", "-b", "side")
    (tree / "f").write_text("1\n2\n")
    git(tree, "commit", "-qam", "b")
    git(tree, "checkout", "-q", "main")
    (tree / "f").write_text("0\n1\n")
    git(tree, "commit", "-qam", "c")
    git(tree, "merge", "-q", "-s", "ours", "side", "-m", "m")
    (tree / ".gitattributes").write_text("f merge=x\n")
    git(tree, "config", "merge.x.driver", f"{evil} </dev/null")
    for script in ("git log --remerge-diff", "git show --remerge-diff", "git log -p --diff-merges=remerge"):
        assert runs_evil(script, tree) and may_run(script, tree)
    assert not runs_evil("git log -p", tree) and not may_run("git log -p", tree)
    git(tree, "config", "log.diffMerges", "remerge")
    assert runs_evil("git log -m -p", tree) and may_run("git log -m -p", tree)


def test_row4_a_head_and_the_name_of_a_folder_are_a_repository(tree: Path, evil: Path) -> None:
    git(tree, "config", "user.name", "x")
    shutil.copytree(tree / ".git", tree / "store")
    (tree / "sub").mkdir()
    for name in ("HEAD", "index"):
        shutil.copy(tree / ".git" / name, tree / "sub" / name)
    (tree / "sub/commondir").write_text("../store\n")
    with (tree / "store/config").open("a") as file:
        file.write(f'[diff "x"]textconv={evil}\n')
    (tree / "store/info").mkdir(exist_ok=True)
    (tree / "store/info/attributes").write_text("* diff=x\n")
    assert runs_evil("cd sub && git show", tree)
    assert may_run("cd sub && git show", tree) and may_run("git show", tree / "sub") and not may_run("git show", tree)


def test_row4_a_shell_goes_by_names_and_the_system_by_links(tree: Path, evil: Path) -> None:
    inner = tree / "x"
    inner.mkdir()
    git(inner, "init", "-q", "-b", "main", ".")
    (inner / "g").write_text("1\n")
    git(inner, "add", "g")
    (inner / "g").write_text("2\n")
    git(inner, "config", "diff.external", str(evil))
    (tree / "far/deep").mkdir(parents=True)
    (tree / "far/x").mkdir()
    (tree / "l").symlink_to("far/deep")
    assert runs_evil("cd l/../x && git diff", tree) and may_run("cd l/../x && git diff", tree)
    (tree / "l").unlink()
    (tree / "far/deep").rmdir()
    (tree / "l").symlink_to("x")
    # Started in a folder that was reached by a link, the shell's `..` is where the link lies.
    (tree / "far/back").symlink_to("../x")
    words = [["cd", ".."], ["cd", "x"], ["git", "diff"]]
    assert programs_named(words, (f"{tree}/l", os.path.realpath(tree / "l")), {})


def test_row4_a_pointer_with_a_blank_leads_elsewhere(tree: Path, evil: Path) -> None:
    (tree / "sub").mkdir()
    for name in ("g", "g "):
        shutil.copytree(tree / ".git", tree / "sub" / name)
    git(tree / "sub", "--git-dir=g ", "config", "diff.external", str(evil))
    (tree / "sub/.git").write_text("gitdir: g \n")
    (tree / "sub/f").write_text("3\n")
    assert runs_evil("cd sub && git diff", tree) and may_run("cd sub && git diff", tree)


def test_a_folder_list_for_cd_is_not_known(tree: Path) -> None:
    words = [["cd", "below"], ["git", "diff"]]
    assert programs_named(words, (str(tree),), {"CDPATH": "/somewhere"}) and not programs_named(words, (str(tree),), {})
