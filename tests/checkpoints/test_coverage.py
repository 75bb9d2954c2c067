"""What is covered: everything git does not ignore, and what it tracks all the same; what is noticed, and how."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from checkpoint_bench import Bench, look, shell
from spindle.features.checkpoints.recorder import Options
from spindle.features.checkpoints.rules import tracked_paths
from spindle.protocol.ops import Undo
from spindle.workspace import folder_watch


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def changed(bench: Bench) -> list[str]:
    """The files that the last turn is known to have changed."""
    number = len(bench.turns)
    steps = [step for step in bench.recorder.journal.read().steps if step.turn.number == number]
    paths = {change.path for step in steps for change in step.changes if not change.is_about_folder}
    return sorted(os.path.relpath(path, bench.root) for path in paths)


def test_ignored_files_are_left_alone_and_tracked_ones_are_not(bench: Bench) -> None:
    shell(
        bench.root,
        "printf '*.log\\nbuild/\\n' > .gitignore; echo l > x.log; mkdir build; echo t > build/tracked;"
        "echo o > build/other;"
        "git add -A; git add -f build/tracked; git commit -qm x",
    )
    bench.turn("echo 2 > x.log; echo 2 > build/tracked; echo 2 > build/other; echo 2 > a.txt")
    assert changed(bench) == ["a.txt", "build/tracked"]
    bench.undo(Undo())
    assert (bench.root / "build/tracked").read_text() == "t\n" and (bench.root / "x.log").read_text() == "2\n"


def test_files_that_come_into_view_are_not_taken_for_new_ones(bench: Bench) -> None:
    shell(bench.root, "echo '.env' > .gitignore; echo secret > .env; git add -A; git commit -qm x")
    bench.turn("rm .gitignore; echo new > new.txt")
    assert changed(bench) == [".gitignore", "new.txt"]
    bench.undo(Undo())
    assert (bench.root / ".env").read_text() == "secret\n" and (bench.root / ".gitignore").exists()


def test_the_rules_of_the_repository_itself_count(bench: Bench) -> None:
    (bench.root / ".git/info").mkdir(exist_ok=True)
    (bench.root / ".git/info/exclude").write_text("*.tmp\n")
    bench.turn("echo 1 > x.tmp; echo 1 > x.txt")
    assert changed(bench) == ["x.txt"]


def test_outside_of_a_repository_everything_is_covered(bench: Bench) -> None:
    shell(bench.root, "rm -rf .git; echo '*.log' > .gitignore")
    bench.turn("echo 1 > x.log")
    assert changed(bench) == ["x.log"]


def test_git_itself_is_not_covered_at_any_depth(bench: Bench) -> None:
    bench.turn("git commit -qam x --allow-empty; git init -q nested; echo 1 > nested/f")
    assert changed(bench) == ["nested/f"]


@pytest.mark.parametrize("is_watched", [True, False])
def test_changes_that_leave_size_and_time_as_they_were_are_seen(
    bench: Bench, is_watched: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_watched:
        monkeypatch.setattr("spindle.features.checkpoints.tree.make_watch", lambda: None)
    bench.turn("true")
    bench.turn("cp -p a.txt keep; printf 'ALPHA\\n' > a.txt; touch -r keep a.txt; rm keep")
    assert changed(bench) == ["a.txt"]
    bench.undo(Undo())
    assert (bench.root / "a.txt").read_text() == "alpha\n"


def test_a_file_with_two_names_changes_under_both(bench: Bench) -> None:
    shell(bench.root, "ln a.txt dir/other")
    bench.turn("true")
    bench.turn("echo more >> dir/other")
    assert changed(bench) == ["a.txt", "dir/other"]


def test_folders_that_were_there_stay_and_those_that_a_turn_made_go(bench: Bench) -> None:
    (bench.root / "empty").mkdir()
    bench.turn("echo 1 > empty/f; mkdir -p made/by; echo 1 > made/by/turn; rm -r dir")
    bench.undo(Undo())
    assert (bench.root / "empty").is_dir() and not (bench.root / "made").exists()
    assert (bench.root / "dir/b.txt").exists()


def test_a_folder_that_a_person_uses_meanwhile_stays(bench: Bench) -> None:
    bench.turn("mkdir made; echo 1 > made/f")
    (bench.root / "made/mine").write_text("mine")
    assert not bench.undo(Undo()).is_refused
    assert [path.name for path in (bench.root / "made").iterdir()] == ["mine"]


def test_names_that_are_no_text(bench: Bench) -> None:
    before = look(bench.root)
    bench.turn("printf x > $'bad\\xff.txt'; ln -s $'to\\xfe' $'l\\xfd'")
    assert not bench.undo(Undo()).is_refused and look(bench.root) == before
    bench.undo(Undo(redo=True))
    assert b"bad\xff.txt" in os.listdir(os.fsencode(bench.root))


def test_links_are_never_followed(bench: Bench, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text("outside\n")
    bench.turn(f"rm -rf dir; ln -s {outside} dir; echo changed > dir/f")
    assert changed(bench) == ["dir", "dir/b.txt"]
    bench.undo(Undo())
    assert (bench.root / "dir/b.txt").read_text() == "beta\n" and (outside / "f").read_text() == "changed\n"


def test_where_not_all_folders_can_be_watched_everything_is_looked_at(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_watch, "MOST_FOLDERS", 1)
    before = look(bench.root)
    bench.turn("true")
    bench.turn("echo deep > dir/b.txt")
    assert changed(bench) == ["dir/b.txt"]
    bench.undo(Undo())
    assert look(bench.root) == before


def test_without_room_the_smallest_files_are_kept(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Options(max_bytes=20_000))
    (bench.root / "big").write_bytes(os.urandom(15_000))
    bench.turn("echo 1 >> big; echo 2 >> a.txt")
    prepared = bench.undo(Undo())
    assert [Path(one.path).name for one in prepared.plan.skipped] == ["big"]
    assert (bench.root / "a.txt").read_text() == "alpha\n"


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_the_index_of_git_is_read_in_every_form(bench: Bench, version: str) -> None:
    shell(bench.root, f"mkdir -p 'd e/f'; echo 1 > 'd e/f/ü'; git add -A; git update-index --index-version {version}")
    assert tracked_paths(str(bench.root)) == sorted(
        ["a.txt", "bin.dat", "d e/f/ü", "dir/b.txt", "link", "run.sh", "untracked.txt"]
    )


@pytest.mark.parametrize("between", [[], ["rm second", "echo 1 > sub/other", "ln sub/first second"]])
def test_what_is_written_through_a_second_name_that_a_command_made_is_noticed_under_the_first(
    bench: Bench, between: list[str]
) -> None:
    shell(bench.root, "mkdir sub; echo 1 > sub/first; git add -A; git commit -qm x")
    bench.turn("ln sub/first second; echo 2 >> second")
    assert changed(bench) == ["second", "sub/first"]
    for command in between:
        bench.turn(command)
    bench.turn("echo 3 >> second")
    assert changed(bench) == ["second", "sub/first"]
    bench.undo(Undo(turns=2 + len(between)))
    assert (bench.root / "sub/first").read_text() == "1\n" and not (bench.root / "second").exists()


def test_a_file_that_is_far_too_large_is_not_read_to_be_told_from_others(bench: Bench) -> None:
    bench.turn("truncate -s 1T huge; echo 2 > a.txt")
    shell(bench.root, "truncate -s 1T a.txt")  # a person has done the same
    prepared = bench.undo(Undo())
    assert bench.names(prepared) == ["a.txt"]
    assert [os.path.basename(one.path) for one in prepared.plan.skipped] == ["huge"]
    shell(bench.root, "echo 2 > a.txt")
    bench.undo(Undo())
    assert (bench.root / "huge").exists() and (bench.root / "a.txt").read_text() != "2\n"
