"""Files found by what is in them: with ripgrep, and without."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from spindle.context.truncate import Truncation
from spindle.errors import ToolError
from spindle.policy.sandbox import Fence
from spindle.process.table import ProcessTable
from spindle.protocol.clock import SystemClock
from spindle.protocol.settings import SandboxPolicy
from spindle.tools import grep_files, specs
from spindle.tools.grep_files import find_files, ripgrep
from spindle.tools.patterns import with_portable_groups
from spindle.workspace.shell import Shell
from tools.bench import Bench

OWN = ""
PROGRAMS = [
    pytest.param(OWN, id="own"),
    pytest.param(ripgrep(), id="ripgrep", marks=pytest.mark.skipif(not ripgrep(), reason="there is no ripgrep")),
]


def make(folder: Path, files: dict[str, str | bytes]) -> None:
    """Files, each a second newer than the one before."""
    for number, (name, content) in enumerate(files.items()):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content if isinstance(content, bytes) else content.encode())
        os.utime(target, (1_000_000 + number, 1_000_000 + number))


async def search(bench: Bench, program: str, pattern: str, include: str | None = None, path: str = "") -> list[str]:
    root = f"{bench.folder}/{path}".rstrip("/")
    found = await find_files(
        pattern, root, include=include, processes=bench.table, boundary=bench.context().boundary, program=program
    )
    return [os.path.relpath(path, bench.folder) for path in found]


async def grep(bench: Bench, pattern: str, **given: object) -> str:
    return await bench.run(specs.grep_files(), {"pattern": pattern, **given})


async def refusal(bench: Bench, pattern: str, **given: object) -> str:
    with pytest.raises(ToolError) as caught:
        await grep(bench, pattern, **given)
    return str(caught.value)


async def test_paths_come_newest_first_and_can_be_read_as_they_stand(bench: Bench):
    make(bench.folder, {"old.py": "def run(): pass\n", "none.py": "pass\n", "sub/new.py": "x\ndef run(): pass\n"})
    folder = bench.folder
    assert await grep(bench, r"def \w+\(") == f"{folder}/sub/new.py\n{folder}/old.py"
    assert await grep(bench, "def run", limit=1) == f"{folder}/sub/new.py"
    assert await grep(bench, "def run", path="sub") == f"{folder}/sub/new.py"
    assert await grep(bench, "def run", path=str(folder / "old.py")) == f"{folder}/old.py"
    assert await grep(bench, "def run", include="o*.py") == f"{folder}/old.py"
    assert await grep(bench, "def walk") == "No matches found."


async def test_paths_are_below_the_folder_as_it_was_named(bench: Bench):
    make(bench.folder, {"real/f": "x\n"})
    (bench.folder / "link").symlink_to("real")
    assert await grep(bench, "x", path="link") == f"{bench.folder}/link/f"


TREE: dict[str, str | bytes] = {
    "a.py": "needle\n",
    "b.ts": "one\nneedle two\n",
    "c.tsx": "needle\n",
    ".hidden/d.py": "needle\n",
    ".dot.py": "needle\n",
    "sub/e.py": "needle\n",
    "sub/deep/f.py": "needle\n",
    "ignored/g.py": "needle\n",
    "sub/h.log": "needle\n",
    "sub/keep.log": "needle\n",
    "binary": b"needle\0needle\n",
    "latin": b"caf\xe9 needle\n",
    "crlf.txt": b"needle\r\n",
    "blank name/i .py": "needle\n",
    "split.txt": "nee\ndle\n",
    ".gitignore": "ignored/\n*.log\n!keep.log\n",
    "sub/.ignore": "deep\n",
}
SEEN = {"a.py", "b.ts", "c.tsx", "sub/e.py", "sub/keep.log", "latin", "crlf.txt", "blank name/i .py"}


@pytest.mark.parametrize("program", PROGRAMS)
async def test_ignored_hidden_and_binary_files_are_skipped(bench: Bench, program: str):
    make(bench.folder, {**TREE, ".git/HEAD": "needle\n"})
    assert set(await search(bench, program, "needle")) == SEEN
    assert await search(bench, program, "needle", path="ignored") == ["ignored/g.py"]
    assert await search(bench, program, "needle", path=".dot.py") == [".dot.py"]


@pytest.mark.parametrize("program", PROGRAMS)
async def test_a_gitignore_counts_only_in_a_repository(bench: Bench, program: str):
    make(bench.folder, TREE)
    assert set(await search(bench, program, "needle")) == SEEN | {"ignored/g.py", "sub/h.log"}


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(
    ("include", "found"),
    [
        ("*.{ts,tsx}", {"b.ts", "c.tsx"}),
        ("sub/*.py", {"sub/e.py"}),
        ("**/*.py", {"a.py", "sub/e.py", "blank name/i .py", ".dot.py"}),
        ("!*.py", {"b.ts", "c.tsx", "sub/keep.log", "latin", "crlf.txt"}),
        ("/a.py", {"a.py"}),
        ("[ab].*", {"a.py", "b.ts"}),
        ("*.log", {"sub/h.log", "sub/keep.log"}),
    ],
)
async def test_an_include_glob_chooses_files(bench: Bench, program: str, include: str, found: set[str]):
    make(bench.folder, {**TREE, ".git/HEAD": ""})
    assert set(await search(bench, program, "needle", include)) == found


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        (r"^needle two$", ["b.ts"]),
        (r"^needle$", []),
        (r"two$", ["b.ts"]),
        (r"(?i)NEEDLE\s+TWO", ["b.ts"]),
        (r"nee\s*dle\b.*two", ["b.ts"]),
        (r"(?<word>le )two", ["b.ts"]),
        (r"-needle", []),
        (r"one|--pre=x", ["b.ts"]),
    ],
)
async def test_a_match_is_within_a_line(bench: Bench, program: str, pattern: str, found: list[str]):
    make(bench.folder, {"b.ts": "one\nneedle two\n", "c.txt": "nee\ndle\ntwo nee\n"})
    assert await search(bench, program, pattern) == found


@pytest.mark.parametrize("program", PROGRAMS)
async def test_hostile_trees_lead_nowhere(bench: Bench, program: str):
    outside = bench.folder.parent / "outside"
    make(outside, {"secret": "needle\n"})
    make(bench.folder, {"f": "needle\n", "new\nline": "needle\n", ".git/HEAD": ""})
    (bench.folder / "link").symlink_to(outside)
    (bench.folder / "file_link").symlink_to(outside / "secret")
    (bench.folder / "loop").symlink_to(".")
    os.mkfifo(bench.folder / "pipe")
    os.mkfifo(bench.folder / ".gitignore")
    Path(os.fsdecode(os.fsencode(bench.folder) + b"/caf\xe9")).write_text("needle\n")
    assert set(await search(bench, program, "needle")) == {"f", "new\nline", "caf\udce9"}


async def test_odd_names_take_one_line_each(bench: Bench):
    make(bench.folder, {"new\nline": "needle\n"})
    assert await grep(bench, "needle") == f"{bench.folder}/new\\u{{A}}line"


@pytest.mark.parametrize("program", PROGRAMS)
async def test_a_wrong_expression_is_explained(bench: Bench, program: str):
    make(bench.folder, {"f": "needle\n"})
    with pytest.raises(ToolError, match="the search failed: "):
        await search(bench, program, "(unclosed")


async def test_an_expression_that_takes_forever_is_ended(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(grep_files, "LIMIT_S", 0.5)
    make(bench.folder, {"f": "a" * 60 + "b\n"})
    with pytest.raises(ToolError, match="ended after"):
        await search(bench, OWN, "^(a+)+$")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"pattern": "  "}, "pattern must not be empty"),
        ({"limit": 0}, "limit must be greater than zero"),
        ({"include": "a\0"}, "arguments must not contain null characters"),
        ({"path": "/no/such"}, "unable to access /no/such: No such file or directory (os error 2)"),
        ({"path": "/dev/zero"}, "/dev/zero is neither a folder nor a regular file"),
        ({"path": "/proc/self"}, "/proc/self belongs to the system's processes, which only commands may look at"),
    ],
)
async def test_what_cannot_be_searched_is_said_in_one_sentence(bench: Bench, given: dict[str, object], message: str):
    assert await refusal(bench, **{"pattern": "x", **given}) == message  # pyright: ignore[reportArgumentType]


async def test_a_page_ends_with_the_models_budget(bench: Bench):
    make(bench.folder, {f"{number:03}{'n' * 60}": "needle\n" for number in range(50)})
    bench.truncation = Truncation(mode="bytes", limit=1_500)
    *paths, last = (await grep(bench, "needle")).split("\n")
    assert last == f"More than {len(paths)} files found" and len("\n".join(paths)) <= 1_500


@pytest.mark.parametrize("sandbox", ["read-only", "workspace-write"])
async def test_denied_files_are_not_searched_under_any_name(
    bench: Bench, sandbox: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("spindle.policy.deny.MAX_FOLDERS", 1 << 30)  # however much others have in /tmp
    bench.sandbox = SandboxPolicy(mode=sandbox)  # pyright: ignore[reportArgumentType]
    bench.fence = Fence(deny_read=("secret*",))
    make(bench.folder, {"secret.txt": "needle\n", "secrets/f": "needle\n", "open.txt": "needle\n"})
    os.link(bench.folder / "secret.txt", bench.folder / "hard")
    assert await grep(bench, "needle") == f"{bench.folder}/open.txt"
    assert await refusal(bench, "needle", path="secrets") == (
        f"reading {bench.folder}/secrets is denied by the user's settings"
    )


async def test_the_search_runs_in_the_sandbox_and_needs_nothing_of_the_workspace(bench: Bench):
    bench.sandbox = SandboxPolicy(mode="workspace-write")
    make(
        bench.folder, {"f.txt": "needle\n", "re.py": "raise SystemExit('hijacked')", "rg": "#!/bin/sh\necho hijacked\n"}
    )
    (bench.folder / "rg").chmod(0o755)
    for program in {OWN, ripgrep()}:
        assert await search(bench, program, "needle") == ["f.txt"]


@pytest.mark.parametrize("program", PROGRAMS)
async def test_files_that_may_not_be_read_are_left_out_also_without_a_sandbox(bench: Bench, program: str):
    make(bench.folder, {"secret.txt": "needle\n", "open.txt": "needle\n"})
    found = await find_files(
        "needle",
        str(bench.folder),
        include=None,
        processes=bench.table,
        boundary=None,
        may_read=lambda path: not path.endswith("secret.txt"),
        program=program,
    )
    assert found == [f"{bench.folder}/open.txt"]


async def test_a_hostile_ripgrep_is_held_by_the_sandbox(bench: Bench):
    bench.sandbox = SandboxPolicy(mode="read-only")
    fake = bench.folder / "rg"
    fake.write_text(f"#!/bin/sh\nprintf '/etc/passwd\\0%s\\0' {bench.folder}/f.txt\ntouch {bench.folder}/broken_out\n")
    fake.chmod(0o755)
    make(bench.folder, {"f.txt": ""})
    assert await search(bench, str(fake), "needle") == ["f.txt"]
    assert not (bench.folder / "broken_out").exists()


@pytest.mark.skipif(not ripgrep(), reason="there is no ripgrep")
async def test_settings_of_the_user_for_ripgrep_change_nothing(bench: Bench, tmp_path: Path):
    (tmp_path / "rc").write_text("--invert-match\n")
    make(bench.folder, {"f.txt": "needle\n"})
    environment = {"PATH": "/usr/bin:/bin", "RIPGREP_CONFIG_PATH": str(tmp_path / "rc")}
    table = ProcessTable(
        clock=SystemClock(), shell=Shell("bash", "/bin/bash"), environment=environment, home=str(tmp_path)
    )
    try:
        found = await find_files("needle", str(bench.folder), include=None, processes=table, boundary=None)
    finally:
        await table.aclose()
    assert found == [f"{bench.folder}/f.txt"]


OLD_RIPGREP = """#!/bin/sh
for word; do
    case $word in *'(?<'*) echo 'regex parse error: unrecognized flag' >&2; exit 2 ;; esac
done
case $* in *'(?P<word>le )'*) printf '%s\\0' "$PWD/b.ts" ;; *) exit 1 ;; esac
"""


async def test_an_older_ripgrep_of_the_system_is_not_preferred_and_understands_named_groups(bench: Bench):
    make(bench.folder, {"b.ts": "needle two\n"})
    old = bench.folder.parent / "rg"
    old.write_text(OLD_RIPGREP)
    old.chmod(0o755)
    ours = Path(sys.executable).with_name("rg")
    assert ripgrep([str(old)]) == str(ours if ours.exists() else old)
    assert await search(bench, str(old), "(?<word>le )two") == ["b.ts"]


@pytest.mark.parametrize(
    ("written", "portable"),
    [
        ("(?<a>x)(?<b>y)", "(?P<a>x)(?P<b>y)"),
        ("(?P<a>x)", "(?P<a>x)"),
        (r"\(?<a", r"\(?<a"),
        (r"\\(?<a>x)", r"\\(?P<a>x)"),
        ("(?<=a)(?<!b)c", "(?<=a)(?<!b)c"),
        ("[(?<a]", "[(?<a]"),
        ("[](?<a](?<b>c)", "[](?<a](?P<b>c)"),
        ("[^](?<a](?<b>c)", "[^](?<a](?P<b>c)"),
        ("[a[(?<b](?<c](?<d>e)", "[a[(?<b](?<c](?P<d>e)"),
        (r"[\](?<a](?<b>c)", r"[\](?<a](?P<b>c)"),
        ("](?<a>b)", "](?P<a>b)"),
        ("(?<a\n", "(?P<a\n"),
        ("\\", "\\"),
    ],
)
def test_named_groups_are_written_as_every_engine_knows_them(written: str, portable: str):
    assert with_portable_groups(written) == portable


@pytest.mark.parametrize("program", PROGRAMS)
async def test_a_match_deep_in_a_large_file_is_found(bench: Bench, program: str):
    make(bench.folder, {"large": b"hay\n" * 500_000 + b"needle\n" + b"hay\n" * 500_000, "other": b"hay\n" * 1000})
    assert await search(bench, program, "^needle$") == ["large"]
