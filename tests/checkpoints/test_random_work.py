"""Turns, people and git do things at random; an undo leads back to the very tree there was, or changes nothing."""

from __future__ import annotations

import os
import random
import shlex
from pathlib import Path

import pytest

from checkpoint_bench import NAMES, Bench, look, random_step, shell
from spindle.protocol.ops import Undo


def scripts(rng: random.Random, *, ignores: bool = False) -> list[str]:
    """The commands of one turn."""
    steps = [[random_step(rng, ignores=ignores) for _ in range(rng.randint(1, 5))] for _ in range(rng.randint(1, 3))]
    return ["\n".join(f"({step})" for step in command) for command in steps]


@pytest.mark.parametrize("seed", range(12))
def test_back_is_the_tree_of_then_and_forward_the_tree_of_now(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    bench = Bench(tmp_path)
    states = [look(bench.root)]
    for _ in range(rng.randint(2, 4)):
        bench.turn(*scripts(rng))
        states.append(look(bench.root))
        if rng.random() < 0.3:
            bench.restart()
    back = rng.randint(1, len(bench.turns))
    assert not bench.undo(Undo(turns=back)).is_refused
    assert look(bench.root) == states[-1 - back]
    assert not bench.undo(Undo(redo=True)).is_refused
    assert look(bench.root) == states[-1]
    assert [name for name in os.listdir(bench.root) if name.startswith(".spindle")] == []


@pytest.mark.parametrize("seed", range(8))
def test_what_a_person_wrote_is_never_lost(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    bench = Bench(tmp_path)
    for _ in range(rng.randint(2, 4)):
        bench.turn(*scripts(rng, ignores=True))
        name = shlex.quote(rng.choice(NAMES))
        shell(bench.root, f"mkdir -p $(dirname {name}); echo person {rng.random()} > {name}")
    before = look(bench.root)
    back = rng.randint(1, len(bench.turns))
    refused = bench.undo(Undo(turns=back))
    if refused.is_refused:
        assert look(bench.root) == before
        kept = bench.undo(Undo(turns=back, keep_mine=True))
        after = look(bench.root)
        assert {name: after.get(name) for name in bench.names(kept)} == {
            name: before.get(name) for name in bench.names(kept)
        }


def test_a_person_between_two_turns_is_a_conflict_for_both_and_none_for_the_last(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.turn("echo one > a.txt")
    (bench.root / "a.txt").write_text("one\nperson\n")
    bench.turn("echo two >> a.txt")
    assert bench.names(bench.undo(Undo(turns=2))) == ["a.txt"]
    assert not bench.undo(Undo(turns=1)).is_refused
    assert (bench.root / "a.txt").read_text() == "one\nperson\n"


def test_a_person_between_two_commands_of_a_turn_is_a_conflict(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    key = bench.begin()
    for text in ("one", "two"):
        bench.recorder.open_window(key, [str(bench.root)])
        shell(bench.root, f"echo {text} >> a.txt")
        bench.recorder.close_window(key)
        with (bench.root / "a.txt").open("a") as file:
            file.write("person\n")
    before = look(bench.root)
    assert bench.names(bench.undo(Undo())) == ["a.txt"] and look(bench.root) == before


def test_a_file_in_the_place_of_a_folder_that_should_come_back_is_a_conflict(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.turn("rm -rf dir")
    (bench.root / "dir").write_text("a person's file\n")
    assert "dir/b.txt" in bench.names(bench.undo(Undo()))
    kept = bench.undo(Undo(keep_mine=True))
    assert (bench.root / "dir").read_text() == "a person's file\n"
    saved = {os.path.basename(one.path): one.saved_as for one in kept.plan.conflicts}
    assert saved["b.txt"] is not None and Path(saved["b.txt"]).read_text() == "beta\n"


def patched(bench: Bench, name: str, text: str | None, *, ends: bool = True) -> None:
    """A file tool writes or removes a file, in the turn that runs; `ends`: it is not killed right after."""
    path = bench.root / name
    bench.recorder.before_files(bench.key, [str(path)])
    if text is None:
        path.unlink()
    else:
        path.write_text(text)
    if ends:
        bench.recorder.after_files()


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize(
    ("first", "text", "then"),
    [
        ("echo command > a.txt", "patch\n", "echo command >> a.txt"),
        ("rm a.txt", "patch\n", "rm a.txt"),
        ("echo command > new.txt", None, "true"),
        ("true", "patch\n", "echo '*.txt' > .gitignore; echo command >> new.txt"),
        ("rm -rf dir", "patch\n", "mkdir -p dir; mv new.txt dir/b.txt"),
    ],
)
def test_patches_while_a_command_runs_go_back_with_what_it_does_before_and_after_them(
    tmp_path: Path, first: str, text: str | None, then: str, is_killed: bool
) -> None:
    bench = Bench(tmp_path)
    name = "new.txt" if "new.txt" in first + then else "a.txt"
    before = look(bench.root)
    bench.recorder.open_window(bench.begin(), [str(bench.root)])
    shell(bench.root, first)
    patched(bench, name, text, ends=not is_killed)
    if is_killed:
        bench.restart()
    else:
        shell(bench.root, then)
        bench.recorder.close_window(bench.key)
    after = look(bench.root)
    assert bench.undo(Undo()).plan.conflicts == [] and look(bench.root) == before
    assert bench.undo(Undo(redo=True)).plan.conflicts == [] and look(bench.root) == after


@pytest.mark.parametrize("name", ["a.txt", "new.txt"])
@pytest.mark.parametrize("first", ["true", "echo command >> a.txt; echo command > new.txt"])
@pytest.mark.parametrize("ends", ["before it is written", "after it is written"])
def test_a_patch_is_told_once_when_the_last_command_ends_while_it_is_written(
    tmp_path: Path, name: str, first: str, ends: str
) -> None:
    bench = Bench(tmp_path)
    before = look(bench.root)
    bench.recorder.open_window(bench.begin(), [str(bench.root)])
    shell(bench.root, first)
    bench.recorder.before_files(bench.key, [str(bench.root / name)])
    if ends == "before it is written":
        bench.recorder.close_window(bench.key)
    (bench.root / name).write_text("patch\n")
    if ends == "after it is written":
        bench.recorder.close_window(bench.key)
    bench.recorder.after_files()
    after = look(bench.root)
    assert bench.undo(Undo()).plan.conflicts == [] and look(bench.root) == before
    assert bench.undo(Undo(redo=True)).plan.conflicts == [] and look(bench.root) == after
