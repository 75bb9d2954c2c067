"""Notes that outlive a thread."""

from __future__ import annotations

import fcntl
import os
import stat
import threading
from pathlib import Path

import pytest

from spindle.errors import ToolError
from spindle.features.memory import ProjectNotes
from spindle.policy.secrets import Secrets
from spindle.tools.memory import Memory
from spindle.tools.memory_folder import FILE_BYTES, FILES, MemoryFolder, Note, project_folder
from spindle.tools.router import ToolChoice, build_tools
from tools.bench import Bench


@pytest.fixture
def notes(tmp_path: Path) -> MemoryFolder:
    return MemoryFolder(str(tmp_path / "home" / "spindle" / "memory" / "project"))


def refusal(notes: MemoryFolder, function: str, *given: object) -> str:
    with pytest.raises(ToolError) as caught:
        getattr(notes, function)(*given)
    return str(caught.value)


async def tell(bench: Bench, command: str, **given: object) -> str:
    return await bench.run(Memory(str(bench.folder.parent / "notes")), {"command": command, **given})


async def test_the_model_lists_reads_writes_and_forgets(bench: Bench):
    assert await tell(bench, "view") == "There are no notes here."
    assert await tell(bench, "create", path="build.md", text="# How to build\nmake all\n") == "Wrote build.md"
    assert await tell(bench, "create", path="team/style.md", text="Tabs") == "Wrote team/style.md"
    assert await tell(bench, "view") == "- build.md: How to build (24 bytes)\n- team/style.md: Tabs (4 bytes)"
    assert await tell(bench, "view", path="team") == "- team/style.md: Tabs (4 bytes)"
    assert await tell(bench, "view", path="build.md") == "L1: # How to build\nL2: make all"
    assert await tell(bench, "view", path="build.md", offset=2, limit=1) == "L2: make all"
    assert await tell(bench, "str_replace", path="build.md", old_text="all", text="-j8") == "Changed build.md"
    assert await tell(bench, "insert", path="build.md", line=1, text="First:") == "Changed build.md"
    assert await tell(bench, "view", path="build.md") == "L1: # How to build\nL2: First:\nL3: make -j8"
    assert await tell(bench, "rename", path="team/style.md", new_path="style.md") == "Renamed team/style.md to style.md"
    assert await tell(bench, "delete", path="build.md") == "Deleted build.md"
    assert await tell(bench, "view") == "- style.md: Tabs (4 bytes)"


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({"command": "create", "path": "a.md"}, "text"),
        ({"command": "str_replace", "path": "a.md", "text": ""}, "old_text"),
        ({"command": "insert", "path": "a.md", "text": "x"}, "line"),
        ({"command": "rename", "path": "a.md"}, "new_path"),
        ({"path": "a.md"}, "command"),
    ],
)
async def test_a_missing_argument_is_named(bench: Bench, given: dict[str, object], missing: str):
    with pytest.raises(ToolError) as caught:
        await bench.run(Memory(str(bench.folder.parent / "notes")), given)
    assert str(caught.value) == f"failed to parse function arguments: missing field `{missing}`"


async def test_no_note_keeps_a_secret_we_know(bench: Bench):
    bench.table.secrets = Secrets(mask="known", own=lambda: [("MY_KEY", "k3y-0123456789abcdef")])
    await tell(bench, "create", path="a.md", text="the key is k3y-0123456789abcdef\n")
    assert "k3y-0123" not in (bench.folder.parent / "notes" / "a.md").read_text()


def test_a_note_is_for_its_owner_only_whatever_the_umask(notes: MemoryFolder):
    old = os.umask(0)
    try:
        notes.create("a.md", "x")
    finally:
        os.umask(old)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (Path(notes.root), Path(notes.root) / "a.md")}
    assert modes == {"project": 0o700, "a.md": 0o600}


@pytest.mark.parametrize(
    "path",
    [
        *(
            "../evil.md",
            "a/../../evil.md",
            "/etc/evil.md",
            "a//b.md",
            "./a.md",
            ".hidden.md",
            ".lock",
            "a/.git/x.md",
            "",
        ),
        *(
            "a\nb.md",
            "a b.md",
            "nul\0.md",
            "~/x.md",
            "a\\b.md",
            "ä.md",
            "a/b/c/d/e.md",
            "n" * 90 + ".md",
            "%2e%2e/x.md",
        ),
    ],
)
@pytest.mark.parametrize("function", ["create", "str_replace", "insert", "delete", "rename"])
def test_no_path_leads_out_of_the_folder(notes: MemoryFolder, function: str, path: str):
    given = {"create": ["x"], "str_replace": ["a", "b"], "insert": [0, "x"], "delete": [], "rename": ["b.md"]}[function]
    assert "cannot name a note" in refusal(notes, function, path, *given)
    notes.create("b.md", "x")
    assert "cannot name a note" in refusal(notes, "rename", "b.md", path)
    home = Path(notes.root).parent.parent.parent
    assert sorted(file.name for file in home.rglob("*") if file.is_file()) == [".lock", "b.md"]


def test_a_name_that_is_no_markdown_file_is_refused(notes: MemoryFolder):
    assert refusal(notes, "create", "run.sh", "x") == "a note is a Markdown file: its name must end in .md"


def test_links_and_pipes_in_the_folder_are_neither_read_nor_written_through(notes: MemoryFolder, tmp_path: Path):
    notes.create("good.md", "fine")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "f.md").write_text("secret")
    root = Path(notes.root)
    (root / "file.md").symlink_to(tmp_path / "secret" / "f.md")
    (root / "folder").symlink_to(tmp_path / "secret")
    os.mkfifo(root / "pipe.md")
    assert notes.notes() == [Note("good.md", "fine", 4)]
    for path in ("file.md", "folder/f.md", "pipe.md"):
        for function, given in (("create", ["x"]), ("str_replace", ["secret", "x"]), ("delete", []), ("view", [])):
            assert refusal(notes, function, path, *given)
    assert (tmp_path / "secret" / "f.md").read_text() == "secret"


def test_a_passage_must_occur_exactly_once(notes: MemoryFolder):
    notes.create("a.md", "one two two\n")
    assert refusal(notes, "str_replace", "a.md", "three", "x") == (
        "the text to replace does not occur in a.md; give a passage that occurs exactly once"
    )
    assert "occurs 2 times" in refusal(notes, "str_replace", "a.md", "two", "x")
    assert "does not occur" in refusal(notes, "str_replace", "a.md", "", "x")
    notes.str_replace("a.md", "one ", "")
    assert notes.view("a.md") == "L1: two two"


def test_lines_are_inserted_below_the_given_one(notes: MemoryFolder):
    notes.create("a.md", "one\ntwo")
    notes.insert("a.md", 0, "zero\n")
    notes.insert("a.md", 3, "three")
    assert (Path(notes.root) / "a.md").read_text() == "zero\none\ntwo\nthree\n"
    assert refusal(notes, "insert", "a.md", 5, "x") == (
        "a.md has 4 lines; insert below one of them, or below 0 for the top"
    )
    assert "has 4 lines" in refusal(notes, "insert", "a.md", -1, "x")


def test_a_rename_replaces_nothing(notes: MemoryFolder):
    notes.create("a.md", "a")
    notes.create("b.md", "b")
    assert refusal(notes, "rename", "a.md", "b.md") == "there is a note b.md already"
    assert [note.title for note in notes.notes()] == ["a", "b"]


def test_a_note_that_is_not_there_is_named(notes: MemoryFolder):
    assert refusal(notes, "delete", "a.md") == "the note a.md cannot be used: No such file or directory (os error 2)"
    assert refusal(notes, "str_replace", "a.md", "x", "y").startswith("the note a.md cannot be used: ")


def test_empty_folders_go_with_their_last_note(notes: MemoryFolder):
    notes.create("a/b/c.md", "x")
    notes.delete("a/b/c.md")
    assert [name for name in os.listdir(notes.root) if name != ".lock"] == []


@pytest.mark.slow
def test_notes_are_bounded(notes: MemoryFolder):
    notes.create("full.md", "x" * FILE_BYTES)
    assert refusal(notes, "create", "more.md", "x" * (FILE_BYTES + 1)) == (
        f"a note may have {FILE_BYTES} bytes, this one would have {FILE_BYTES + 1}; keep it short"
    )
    assert "a note may have" in refusal(notes, "insert", "full.md", 0, "x")
    for number in range(FILES - 1):
        notes.create(f"n{number}.md", "x")
    assert "delete or merge some" in refusal(notes, "create", "one-more.md", "x")
    notes.create("full.md", "replaced")


def test_the_index_has_names_and_first_lines_and_nothing_hidden(notes: MemoryFolder):
    assert notes.index() is None
    notes.create("b.md", "\n\n## Traps \u202eevil\u200b\nsecond line\n")
    notes.create("a/x.md", "y" * 300)
    notes.create("empty.md", "")
    assert notes.index() == f"- a/x.md: {'y' * 100}\n- b.md: Traps \\u{{202E}}evil\\u{{200B}}\n- empty.md"


def test_a_long_index_says_how_much_is_missing(notes: MemoryFolder):
    for number in range(80):
        notes.create(f"n{number:02}.md", "t" * 90)
    lines = (notes.index() or "").split("\n")
    assert lines[-1] == f"- and {81 - len(lines)} more; the memory tool lists all of them"
    assert len("\n".join(lines)) < 4_200 and lines[0].startswith("- n00.md: ttt")


def test_each_project_has_a_folder_of_its_own(tmp_path: Path):
    for name in ("one/app", "two/app", "odd name ü"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to("one/app")
    home = str(tmp_path / "home")
    one, two, odd = (project_folder(home, str(tmp_path / name)) for name in ("one/app", "two/app", "odd name ü"))
    assert one != two and project_folder(home, str(tmp_path / "link")) == one
    assert os.path.dirname(one) == f"{home}/spindle/memory" and os.path.basename(one).startswith("app-")
    assert os.path.basename(odd).startswith("odd-name---") and os.path.basename(odd).isascii()
    assert os.path.basename(project_folder(home, "/")).startswith("root-")


def test_two_agents_lose_no_word_of_each_other(notes: MemoryFolder):
    notes.create("a.md", "start\n")

    def add(who: int) -> None:
        for number in range(25):
            MemoryFolder(notes.root).insert("a.md", 1, f"{who}-{number}")

    threads = [threading.Thread(target=add, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len((Path(notes.root) / "a.md").read_text().split()) == 101


def test_a_lock_that_is_never_released_is_not_waited_for_forever(notes: MemoryFolder):
    notes.create("a.md", "x")
    with open(f"{notes.root}/.lock") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        hasty = MemoryFolder(notes.root, lock_wait_s=0.1)
        assert refusal(hasty, "delete", "a.md") == "the notes are in use by another program; try again later"
    notes.delete("a.md")


def test_the_tool_is_listed_where_there_is_a_folder_for_notes():
    listed = [spec.get("name") for spec in build_tools(ToolChoice(of_features=ProjectNotes("/h/notes").tools())).specs]
    assert listed[-2:] == ["view_image", "memory"]
    assert "memory" not in [spec.get("name") for spec in build_tools(ToolChoice()).specs]
