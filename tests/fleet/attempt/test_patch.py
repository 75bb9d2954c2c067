"""The patch of an attempt applies to a clean checkout of its base, whatever the agent did to the work tree."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fleet_attempts import Fleet, commit, git, make_repo, runs

COMMIT = "git -c user.name=a -c user.email=b commit -qm x"


def names_below(folder: Path) -> list[str]:
    found = (path for path in folder.rglob("*") if ".git" not in path.relative_to(folder).parts)
    return sorted(str(path.relative_to(folder)) for path in found if not path.is_dir() or path.is_symlink())


async def test_untracked_binary_deleted_linked_and_moded_files_are_in_the_patch_and_ignored_ones_are_not(
    fleet: Fleet, tmp_path: Path
) -> None:
    files = {".gitignore": "*.log\n", "old.txt": "x\n", "keep.txt": "k\n", "run.sh": "true\n"}
    repo = make_repo(tmp_path / "many", files)
    script = (
        "printf '\\000\\001\\002' > bin.dat; rm old.txt; echo n > 'new file.txt'; echo l > x.log; ln -s keep.txt link; "
        "chmod +x run.sh; : > empty; printf 'no newline' > keep.txt; mkdir -p d/e; echo f > d/e/f"
    )
    fleet.server.script(*runs(script))
    outcome = await fleet.run(repo=str(repo))
    there = fleet.applied(outcome, repo)
    wanted = [".gitignore", "bin.dat", "d/e/f", "empty", "keep.txt", "link", "new file.txt", "run.sh"]
    assert names_below(there) == wanted
    assert (there / "bin.dat").read_bytes() == b"\0\1\2"
    assert os.readlink(there / "link") == "keep.txt"
    assert os.access(there / "run.sh", os.X_OK)
    assert (there / "keep.txt").read_text() == "no newline"
    assert outcome.patch is not None
    assert (outcome.patch.files, outcome.patch.skipped) == (8, [])
    assert outcome.patch.bytes == len(fleet.file(outcome, "patch.diff"))


async def test_what_set_up_alone_made_is_left_out(fleet: Fleet) -> None:
    setup = (
        "echo s > from-setup.txt; echo s > both.txt; echo changed >> README.md; rm src/a.py; mkdir -p m; echo x > m/x"
    )
    fleet.server.script(*runs("echo agent >> both.txt; echo a > agent.txt; echo y > m/y"))
    outcome = await fleet.run(setup=setup)
    there = fleet.applied(outcome)
    assert names_below(there) == ["README.md", "agent.txt", "both.txt", "m/y", "src/a.py"]
    assert (there / "both.txt").read_text() == "s\nagent\n"
    assert (there / "README.md").read_text() == "hello\n"


async def test_work_in_a_folder_that_set_up_put_in_the_place_of_a_file_is_not_lost(fleet: Fleet) -> None:
    fleet.server.script(*runs("echo y > README.md/y"))
    outcome = await fleet.run(setup="rm README.md; mkdir README.md; echo x > README.md/x")
    assert names_below(fleet.applied(outcome)) == ["README.md/y", "src/a.py"]


async def test_odd_names_survive(fleet: Fleet) -> None:
    odd = [
        b"new\nline",
        b'quo"te',
        b"tab\there",
        b"back\\slash",
        b"\xff\xfe not utf-8",
        "ümlaut".encode(),
        b"-dash",
        b":(top)x",
    ]
    script = "python3 - <<'E'\nimport os\n" + "".join(f"open({name!r}, 'wb').write(b'x\\n')\n" for name in odd) + "E"
    fleet.server.script(*runs(script))
    outcome = await fleet.run()
    there = fleet.applied(outcome)
    assert set(odd) <= set(os.listdir(os.fsencode(there)))


async def test_a_nested_repository_is_named_and_its_programs_do_not_run(fleet: Fleet, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    script = (
        "mkdir -p sub/full sub/bare; cd sub/full; git init -q .; echo x > f; git add f; "
        f"{COMMIT}; "
        f"git config core.fsmonitor 'touch {canary}; false'; cd ../bare; git init -q .; echo y > f; "
        "cd ../..; echo z > z"
    )
    fleet.server.script(*runs(script))
    outcome = await fleet.run()
    assert outcome.ended == "ok", outcome.error
    assert outcome.patch is not None and outcome.patch.skipped == ["sub/bare", "sub/full"]
    assert names_below(fleet.applied(outcome)) == ["README.md", "src/a.py", "z"]
    assert not canary.exists()


FULL = {"sandbox": "danger-full-access"}


@pytest.mark.parametrize(
    "script",
    [
        f"echo 1 > new; git add -A; {COMMIT}",
        f"echo 1 > new; git checkout -qb other; git add -A; {COMMIT}; git checkout -q --detach HEAD~0",
        "echo 1 > new; rm -rf .git",
        f"echo 1 > new; rm -rf .git; git init -q .; git add -A; {COMMIT}",
        "echo 1 > new; echo new > .git/info/exclude; git config core.excludesFile /dev/stdin",
        "echo 1 > new; rm -rf .git; ln -s /tmp .git",
        "echo 1 > new; rm -rf .git; echo 'gitdir: /nonexistent' > .git",
        "echo 1 > new; git update-index --assume-unchanged README.md; rm .git/index; printf garbage > .git/index",
    ],
    ids=["commit", "branch", "removed", "replaced", "excluded", "link", "pointer", "index"],
)
async def test_whatever_becomes_of_the_git_folder_the_patch_is_from_base_to_the_work_tree(
    fleet: Fleet, script: str
) -> None:
    fleet.terms = FULL
    fleet.server.script(*runs(script))
    outcome = await fleet.run()
    assert outcome.ended == "ok", outcome.error
    assert names_below(fleet.applied(outcome)) == ["README.md", "new", "src/a.py"]


async def test_programs_that_the_agent_puts_into_the_settings_do_not_run(fleet: Fleet, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    noting = f"touch {canary}; cat"
    script = f"""
echo '* filter=c diff=d merge=m' > .gitattributes
for key in core.fsmonitor filter.c.clean filter.c.smudge filter.c.process diff.external diff.d.command diff.d.textconv \
    core.pager core.hooksPath core.editor core.sshCommand core.alternateRefsCommand uploadpack.packObjectsHook; do
  git config $key '{noting}'
done
git config filter.c.required true
mkdir -p .git/hooks
for hook in post-checkout post-index-change pre-commit reference-transaction; do
  printf '#!/bin/sh\\n{noting}\\n' > .git/hooks/$hook; chmod +x .git/hooks/$hook
done
echo 1 > new; rm -f {canary}
"""
    fleet.terms = FULL
    fleet.server.script(*runs(script))
    outcome = await fleet.run(verify="test -f new")
    assert outcome.ended == "ok", outcome.error
    assert not canary.exists()
    assert names_below(fleet.applied(outcome)) == [".gitattributes", "README.md", "new", "src/a.py"]


ATTRIBUTES = {
    "crlf": ("*.txt eol=crlf\n", b"one\r\ntwo\r\n"),
    "text": ("*.txt text\n", b"one\ntwo\n"),
    "auto": ("* text=auto\n", b"one\ntwo\n"),
    "not text": ("*.txt -text\n", b"one\r\ntwo\n"),
    "utf-16": ("*.txt working-tree-encoding=UTF-16LE eol=lf\n", "one\ntwo\n".encode("utf-16-le")),
    "filter": ("*.txt filter=lfs diff=lfs merge=lfs -text\n", b"one\ntwo\n"),
    "ident": ("*.txt ident\n", b"$Id$\none\n"),
    "binary": ("*.txt binary\n", b"one\ntwo\n"),
    "no diff": ("*.txt -diff\n", b"one\ntwo\n"),
}


@pytest.mark.parametrize("kind", ATTRIBUTES)
async def test_attributes_of_the_repository_do_not_keep_a_patch_from_applying(
    fleet: Fleet, tmp_path: Path, kind: str
) -> None:
    attributes, content = ATTRIBUTES[kind]
    repo = make_repo(tmp_path / "attributes", {".gitattributes": attributes, "a.txt": content, "b.txt": content})
    end = "printf 't\\0h\\0r\\0e\\0e\\0\\n\\0'" if kind == "utf-16" else "printf 'three\\r\\n'"
    fleet.server.script(*runs(f"{end} >> a.txt; cp a.txt c.txt"))
    outcome = await fleet.run(repo=str(repo))
    assert outcome.ended == "ok", outcome.error
    assert outcome.patch is not None and outcome.patch.files == 2
    there = fleet.applied(outcome, repo)
    assert (there / "c.txt").read_bytes() == (there / "a.txt").read_bytes()
    assert b"t\0h\0r\0e\0e\0" in (there / "a.txt").read_bytes() or b"three" in (there / "a.txt").read_bytes()


async def test_files_with_line_ends_that_the_attributes_forbid_are_not_changed_by_looking_at_them(
    fleet: Fleet, tmp_path: Path
) -> None:
    repo = make_repo(tmp_path / "crlf", {"a.txt": b"one\r\n", "b.txt": b"one\r\n"})
    (repo / ".gitattributes").write_text("*.txt text\n")
    git("add", ".gitattributes", cwd=repo)
    git("commit", "-qm", "attributes alone", cwd=repo)
    fleet.server.script(*runs("echo new > c.md"))
    outcome = await fleet.run(repo=str(repo))
    assert outcome.patch is not None and outcome.patch.files == 1


async def test_attributes_of_the_agent_that_do_not_fit_the_files_lose_nothing(fleet: Fleet) -> None:
    script = "echo '*.md working-tree-encoding=UTF-16' > .gitattributes; echo changed > README.md; echo n > n.md"
    fleet.server.script(*runs(script))
    outcome = await fleet.run()
    assert outcome.ended == "ok", outcome.error
    assert b"+changed" in fleet.file(outcome, "patch.diff") and b"n.md" in fleet.file(outcome, "patch.diff")


async def test_files_that_are_too_large_are_named(fleet: Fleet) -> None:
    fleet.server.script(*runs("truncate -s 70M huge.bin; head -c 35000000 /dev/urandom > large.bin; echo s > small"))
    outcome = await fleet.run()
    assert outcome.ended == "ok", outcome.error
    assert outcome.patch is not None and outcome.patch.skipped == ["huge.bin", "large.bin"]
    assert names_below(fleet.applied(outcome)) == ["README.md", "small", "src/a.py"]


async def test_submodules_are_neither_fetched_nor_changed(fleet: Fleet, tmp_path: Path) -> None:
    inner = make_repo(tmp_path / "inner")
    outer = make_repo(tmp_path / "outer")
    git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "lib", cwd=outer)
    commit(outer)
    fleet.server.script(*runs("ls lib > seen; echo x > lib/put-there"))
    outcome = await fleet.run(repo=str(outer))
    assert outcome.ended == "ok", outcome.error
    assert outcome.patch is not None and outcome.patch.skipped == ["lib"]
    patch = fleet.file(outcome, "patch.diff")
    assert b"seen" in patch and b"README" not in patch and b"lib" not in patch


async def test_an_empty_patch_with_something_skipped_says_so(fleet: Fleet) -> None:
    fleet.server.script(*runs("mkdir sub; cd sub; git init -q .; echo x > f"))
    outcome = await fleet.run()
    assert outcome.patch is not None
    assert (outcome.patch.files, outcome.patch.skipped, outcome.patch.bytes) == (0, ["sub"], 0)
