"""Folders as the model is shown them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spindle.context.truncate import Truncation
from spindle.errors import ToolError
from spindle.policy.sandbox import Fence
from spindle.protocol.settings import SandboxPolicy
from spindle.tools import specs
from spindle.tools.list_dir import list_folder
from tools.bench import Bench


async def listing(bench: Bench, path: Path | str | None = None, **given: object) -> list[str]:
    """The lines after the first, which names the folder."""
    where = str(path or bench.folder)
    first, *rest = (await bench.run(specs.list_dir(), {"dir_path": where, **given})).split("\n")
    assert first == f"Absolute path: {where}"
    return rest


async def refusal(bench: Bench, **given: object) -> str:
    with pytest.raises(ToolError) as caught:
        await bench.run(specs.list_dir(), {"dir_path": str(bench.folder), **given})
    return str(caught.value)


def make(folder: Path, *names: str) -> None:
    for name in names:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.mkdir() if name.endswith("/") else target.write_text("x\n")


async def test_entries_are_sorted_indented_and_marked_by_kind(bench: Bench):
    make(bench.folder, "b.txt", "a/one.txt", "a/deep/two.txt", "a/deep/under/three.txt", "empty/")
    (bench.folder / "link").symlink_to("b.txt")
    (bench.folder / "a" / "out").symlink_to("/etc")
    os.mkfifo(bench.folder / "pipe")
    assert await listing(bench) == [
        "a/",
        "  deep/",
        "  one.txt",
        "  out@",
        "b.txt",
        "empty/",
        "link@",
        "pipe?",
    ]
    assert (await listing(bench, depth=1)) == ["a/", "b.txt", "empty/", "link@", "pipe?"]
    assert (await listing(bench, depth=9))[:5] == ["a/", "  deep/", "    two.txt", "    under/", "      three.txt"]


async def test_children_stand_directly_below_their_folder_whatever_its_neighbours_are_called(bench: Bench):
    make(bench.folder, "src/main.py", "src-gen/x.py", "src.txt")
    assert await listing(bench) == ["src/", "  main.py", "src-gen/", "  x.py", "src.txt"]


async def test_a_folder_is_read_page_by_page(bench: Bench):
    make(bench.folder, *(f"f{number:02}" for number in range(60)))
    names = [f"f{number:02}" for number in range(60)]
    assert await listing(bench) == [*names[:25], "More than 25 entries found"]
    assert await listing(bench, offset=26) == [*names[25:50], "More than 25 entries found"]
    assert await listing(bench, offset=51) == names[50:]
    assert await listing(bench, offset="59", limit=2.0) == names[58:]


async def test_a_page_ends_with_the_models_budget(bench: Bench):
    make(bench.folder, *(f"{'n' * 90}{number:03}" for number in range(200)))
    bench.truncation = Truncation(mode="tokens", limit=500)
    page = await listing(bench, limit=200)
    assert page[-1] == f"More than {len(page) - 1} entries found" and 5 < len(page) < 25
    assert (await listing(bench, limit=200, offset=len(page)))[0] == f"{'n' * 90}{len(page) - 1:03}"


async def test_what_is_in_ignored_folders_is_left_out_unless_the_folder_is_named(bench: Bench):
    make(bench.folder, ".git/HEAD", "node_modules/x/index.js", "src/a.py", "src/gen/b.py", "kept/build/c")
    (bench.folder / ".gitignore").write_text("# comment\nnode_modules/\n/src/gen\n**/build\n!kept/build\n")
    assert await listing(bench, depth=3) == [
        ".git/",
        ".gitignore",
        "kept/",
        "  build/",
        "    c",
        "node_modules/",
        "src/",
        "  a.py",
        "  gen/",
    ]
    assert await listing(bench, bench.folder / "node_modules") == ["x/", "  index.js"]
    assert await listing(bench, bench.folder / "src") == ["a.py", "gen/"]


async def test_a_link_to_a_folder_is_shown_and_followed_only_when_named(bench: Bench):
    outside = bench.folder.parent / "outside"
    make(outside, "f")
    (bench.folder / "link").symlink_to(outside)
    assert await listing(bench) == ["link@"]
    assert await listing(bench, bench.folder / "link") == ["f"]


async def test_odd_names_take_one_line_each(bench: Bench):
    (bench.folder / "new\nline").write_text("")
    (bench.folder / "tab\there\u202e").write_text("")
    Path(os.fsdecode(os.fsencode(bench.folder) + b"/caf\xe9")).write_text("")
    assert await listing(bench) == ["caf\ufffd", "new\\u{A}line", "tab\\u{9}here\\u{202E}"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"offset": 0}, "offset must be a 1-indexed entry number"),
        ({"limit": 0}, "limit must be greater than zero"),
        ({"depth": 0}, "depth must be greater than zero"),
        ({"offset": 3}, "offset exceeds directory entry count: there are 1 entries"),
        ({"dir_path": "/no/such"}, "failed to read directory /no/such: No such file or directory (os error 2)"),
        ({"dir_path": "/etc/passwd"}, "/etc/passwd is not a folder"),
        ({"dir_path": "/a\0b"}, "dir_path must not contain a null character"),
        ({"dir_path": "/proc/self"}, "/proc/self belongs to the system's processes, which only commands may look at"),
    ],
)
async def test_what_cannot_be_listed_is_said_in_one_sentence(bench: Bench, given: dict[str, object], message: str):
    make(bench.folder, "f")
    assert await refusal(bench, **given) == message


async def test_a_relative_path_is_refused_with_the_absolute_one(bench: Bench):
    assert await refusal(bench, dir_path="sub") == (
        f"dir_path must be an absolute path; from the working directory that would be {bench.folder}/sub"
    )


async def test_an_empty_folder_has_only_a_name(bench: Bench):
    assert await listing(bench) == []


async def test_folders_that_may_not_be_read_are_named_but_not_entered(bench: Bench):
    bench.sandbox, bench.fence = SandboxPolicy(mode="read-only"), Fence(deny_read=("secret",))
    make(bench.folder, "secret/key", "open/f")
    (bench.folder / "way").symlink_to("secret")
    assert await listing(bench) == ["open/", "  f", "secret/", "way@"]
    for path in ("secret", "way", "secret/deeper"):
        assert await refusal(bench, dir_path=f"{bench.folder}/{path}") == (
            f"reading {bench.folder}/{path} is denied by the user's settings"
        )


def test_a_page_of_a_deep_tree_holds_no_more_folders_open_than_it_is_deep(tmp_path: Path):
    make(tmp_path, *(f"a{number}/b/c/d/e/f" for number in range(30)))
    before = len(os.listdir("/proc/self/fd"))
    assert list_folder(str(tmp_path), limit=40, depth=9).endswith("More than 40 entries found")
    assert len(os.listdir("/proc/self/fd")) == before


def test_ignore_files_that_are_no_files_are_not_waited_for(tmp_path: Path):
    make(tmp_path, ".git/", "a/f", "b/g")
    os.mkfifo(tmp_path / ".gitignore")
    (tmp_path / "a" / ".gitignore").symlink_to("/etc/passwd")
    assert list_folder(str(tmp_path)).split("\n")[1:] == [
        ".git/",
        ".gitignore?",
        "a/",
        "  .gitignore@",
        "  f",
        "b/",
        "  g",
    ]
