"""A restoration that is killed leaves the old tree or the new one, and whoever comes next says which."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from checkpoint_bench import Bench, look, shell
from spindle.features.checkpoints.recorder import Options, Recorder
from spindle.features.checkpoints.restore import ChangedMeanwhile, NotRestored
from spindle.features.checkpoints.store import has_unfinished, intents_folder
from spindle.features.checkpoints.undoing import Undoer
from spindle.protocol.clock import SystemClock
from spindle.protocol.ops import Undo

WORK = """rm -rf dir; ln -s a.txt dir; echo changed > a.txt; chmod +x run.sh; rm bin.dat; mkdir -p new/deep
echo n > new/deep/f; rm link; mkdir link; echo inside > link/inner; rm untracked.txt"""


MINE = "a person's words\n"


def killed_at(number: int) -> Callable[[str], None]:
    """Kills the process before the step with this number."""
    steps = iter(range(1_000))

    def step(name: str) -> None:
        if next(steps) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    return step


def undo_in_a_child(bench: Bench, op: Undo, number: int) -> bool:
    """Undo in another process, which is killed at a step; true when it came to its end."""
    child = os.fork()
    if child == 0:
        try:
            bench.recorder = bench.new_recorder()
            bench.undo(op, killed_at(number))
            os._exit(0)
        except BaseException:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL)
    return status == 0


@pytest.mark.filterwarnings("ignore:This process")
def test_killed_at_every_step(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    old = look(bench.root)
    bench.turn(WORK)
    new = look(bench.root)
    number, outcomes = 0, []
    while True:
        bench.recorder.close()
        ended = undo_in_a_child(bench, Undo(), number)
        bench.recorder = bench.new_recorder()
        found = bench.undoer().finish_others()
        assert not has_unfinished(bench.home)
        now = look(bench.root)
        assert now in (old, new), number
        assert [name for name in os.listdir(bench.root) if name.startswith(".spindle")] == []
        if found:
            # None: it had not begun; else the paths that somebody else has changed meanwhile.
            assert (found[0][1] is None) == (now == new), number
        if now == old:
            assert not bench.undo(Undo(redo=True)).is_refused
            assert look(bench.root) == new
        outcomes.append((ended, now == old))
        if ended:
            break
        number += 1
    assert outcomes[0] == (False, False) and outcomes[-1] == (True, True) and number > 20
    assert (False, True) in outcomes, "some were killed in the middle and finished later"


@pytest.mark.filterwarnings("ignore:This process")
def test_a_file_that_a_person_changes_after_the_kill_is_left_alone(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.turn("echo one > a.txt; echo two > dir/b.txt; echo three > new.txt")
    steps: list[str] = []
    bench.undo(Undo(), steps.append)
    assert not bench.undo(Undo(redo=True)).is_refused
    bench.recorder.close()
    assert not undo_in_a_child(bench, Undo(), steps.index("move") + 1)
    (bench.root / "a.txt").write_text("a person's words\n")
    bench.recorder = bench.new_recorder()
    ((_, changed),) = bench.undoer().finish_others()
    assert changed == [str(bench.root / "a.txt")]
    assert (bench.root / "a.txt").read_text() == "a person's words\n"
    assert (bench.root / "dir/b.txt").read_text() == "beta\n" and not (bench.root / "new.txt").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_that_goes_back_keeps_its_owner(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    file = bench.root / "a.txt"
    was = file.read_bytes()
    os.chown(file, 54321, 54322)
    bench.turn("echo one > a.txt")
    assert not bench.undo(Undo()).is_refused
    assert file.read_bytes() == was
    assert (file.stat().st_uid, file.stat().st_gid) == (54321, 54322)


def test_a_restoration_that_fails_puts_everything_back(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.turn(WORK)
    new = look(bench.root)
    steps: list[str] = []
    bench.undo(Undo(), steps.append)
    assert not bench.undo(Undo(redo=True)).is_refused
    for number in range(len(steps)):
        if steps[number] in ("intent", "clean", "finish", "journal"):
            continue
        count = iter(range(1_000))

        def fail(name: str, count: object = count, number: int = number) -> None:
            if next(count) == number:  # type: ignore[call-overload]
                raise OSError(28, "No space left on device")

        with pytest.raises(NotRestored, match="nothing was changed"):
            bench.undo(Undo(), fail)
        assert look(bench.root) == new, steps[number]
        assert not has_unfinished(bench.home)
        assert [name for name in os.listdir(bench.root) if name.startswith(".spindle")] == []


def saving(path: Path, number: int, *, by_another_file: bool) -> Callable[[str], None]:
    """A person saves a file before the step with this number."""
    steps = iter(range(1_000))

    def step(name: str) -> None:
        if next(steps) == number:
            at = path.with_name("saving") if by_another_file else path
            at.write_text(MINE)
            at.replace(path)

    return step


@pytest.mark.parametrize("by_another_file", [False, True])
def test_what_a_person_saves_while_files_go_back_is_never_lost(tmp_path: Path, by_another_file: bool) -> None:
    bench = Bench(tmp_path)
    work = "echo 2 > a.txt; echo 2 > dir/b.txt; rm bin.dat; echo 2 > new.txt"
    bench.turn(work)
    steps: list[str] = []
    bench.undo(Undo(), steps.append)
    seen: dict[str, set[bool]] = {"a.txt": set(), "new.txt": set(), "bin.dat": set()}
    for name, refused in seen.items():
        for number in range(steps.index("stage"), steps.index("clean")):
            bench.turn(work)
            before = look(bench.root)
            try:
                bench.undo(Undo(), saving(bench.root / name, number, by_another_file=by_another_file))
            except ChangedMeanwhile as error:
                refused.add(True)
                assert name in str(error) and look(bench.root) == {**before, name: look(bench.root)[name]}
            else:
                refused.add(False)  # it was back already, and this came after it
                assert (bench.root / "dir/b.txt").read_text() == "beta\n"
            assert (bench.root / name).read_text() == MINE, (name, number)
            assert not has_unfinished(bench.home)
            shell(bench.root, "git checkout -q -- .; rm -f new.txt")
    assert all(refused == {True, False} for refused in seen.values())


def test_a_file_that_is_removed_and_saved_anew_while_files_go_back_is_never_lost(tmp_path: Path) -> None:
    """As editors do that do not write in place: for a moment nothing stands there."""
    bench = Bench(tmp_path)
    file = bench.root / "a.txt"
    steps: list[str] = []
    for back_at in range(1, 8):
        bench.turn("echo 2 > a.txt")
        count = iter(range(1_000))
        steps.clear()

        def step(name: str, back_at: int = back_at, count: Iterator[int] = count) -> None:
            steps.append(name)
            number = next(count)
            if number == 0:
                file.unlink()
            elif number == back_at:
                file.write_text(MINE)

        with contextlib.suppress(ChangedMeanwhile):
            bench.undo(Undo(), step)
        assert file.exists() == (len(steps) > back_at) and (not file.exists() or file.read_text() == MINE), back_at
        file.write_text("alpha\n")
    assert {"keep", "move"} <= set(steps)


def test_what_a_person_saves_stays_when_a_restoration_fails_after_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.turn("echo 2 > a.txt; rm bin.dat; echo 2 > new.txt; chmod +x dir/b.txt; mv run.sh zz")
    steps: list[str] = []
    bench.undo(Undo(), steps.append)
    assert not bench.undo(Undo(redo=True)).is_refused
    last = len(steps) - 1 - steps[::-1].index("move")
    count = iter(range(1_000))

    def fail(_: str) -> None:
        if next(count) == last:
            for name in ("a.txt", "bin.dat", "new.txt"):
                (bench.root / name).write_text("a person's words\n")
            raise OSError(28, "No space left on device")

    with pytest.raises(NotRestored):
        bench.undo(Undo(), fail)
    assert {(bench.root / name).read_text() for name in ("a.txt", "bin.dat", "new.txt")} == {"a person's words\n"}
    assert (bench.root / "zz").exists() and not (bench.root / "run.sh").exists()


def test_what_another_thread_has_finished_is_done_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.turn("echo 2 > a.txt; echo 2 > new.txt")
    bench.recorder.close()
    assert not undo_in_a_child(bench, Undo(), 8)
    other = Recorder(bench.home, "other", Options(), SystemClock())
    assert Undoer(other, SystemClock().uuid7, []).finish_others() == []
    other.close()
    assert (bench.root / "a.txt").read_text() == "alpha\n" and not (bench.root / "new.txt").exists()
    (bench.root / "new.txt").write_text("2\n")  # a person makes the same file again
    bench.recorder = bench.new_recorder()
    ((_, changed),) = bench.undoer().finish_others()
    assert changed == [] and (bench.root / "new.txt").read_text() == "2\n" and not has_unfinished(bench.home)


def test_a_journal_that_cannot_be_written_puts_everything_back(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.turn(WORK)
    new = look(bench.root)
    bench.recorder.journal.close()
    path = Path(bench.recorder.journal.path)
    lines = path.read_bytes()

    def loses_its_journal(step: str) -> None:
        if step == "journal":
            path.unlink()
            path.mkdir()

    with pytest.raises(NotRestored, match="nothing was changed"):
        bench.undo(Undo(), loses_its_journal)
    assert look(bench.root) == new and not has_unfinished(bench.home)
    path.rmdir()
    path.write_bytes(lines)
    bench.restart()
    assert bench.undo(Undo()).plan.conflicts == []


def test_a_store_that_fails_in_the_middle_leaves_nothing_beside_the_files(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.turn("echo 2 > a.txt; echo 2 > dir/b.txt")
    new = look(bench.root)
    stages: list[str] = []

    def loses_its_store(step: str) -> None:
        if step == "stage":
            stages.append(step)
            if len(stages) == 2:
                bench.recorder.store.close()

    with pytest.raises(sqlite3.Error):
        bench.undo(Undo(), loses_its_store)
    assert len(stages) == 2 and look(bench.root) == new and not has_unfinished(bench.home)


@pytest.mark.parametrize("path", ["journal", "intent"])
def test_what_no_process_of_ours_has_written_leads_nowhere(tmp_path: Path, path: str) -> None:
    bench = Bench(tmp_path)
    bench.turn("echo 2 > a.txt")
    new = look(bench.root)
    outside = tmp_path / "outside"
    outside.write_text("outside\n")
    kept, gone = ["f", "00" * 20, 420, "", 8], ["a"]
    odd: list[Any] = [["f", 5], ["q"], ["f", "x", "420"], [], "f", None, {}]
    if path == "journal":
        for number, image in enumerate(odd):
            there, here = [str(outside), image, gone], [str(outside), gone, image]
            for change in (there, here, ["outside", gone, kept], [5, gone, gone]):
                bench.recorder.journal.append({"t": "close", "w": f"{number}", "changes": [change]})
                bench.recorder.journal.append(
                    {"t": "files", "w": f"{number}", "turn": "turn-1", "n": 1, "at": 0, "before": [change[:2]]}
                )
        bench.undo(Undo())
        assert (bench.root / "a.txt").read_text() == "alpha\n"
    else:
        folder = Path(intents_folder(bench.home))
        folder.mkdir(parents=True)
        line = {"t": "undo", "id": "i"}
        acts = [[str(outside), image, gone, "", ""] for image in odd] + [["outside", gone, gone, "", ""]]
        acts += [[f"{outside}.x", gone, gone, name, ""] for name in (str(outside), "outside", 5)]
        whole: list[Any] = [["i", "thread", "exchanging", [act], line] for act in acts]
        whole += [["i", "thread", "exchanging", [], odd_line] for odd_line in ({}, 5, {"t": "x", "id": "i"})]
        for number, intent in enumerate([*whole, [], 5, {}]):
            (folder / f"{number}.json").write_text(json.dumps(intent))
        assert bench.undoer().finish_others() == [] and look(bench.root) == new
    assert outside.read_text() == "outside\n"


def test_a_killed_turn_is_undone_with_what_it_left(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    before = look(bench.root)
    key = bench.begin()
    bench.recorder.open_window(key, [str(bench.root)])
    shell(bench.root, "echo early > a.txt; rm bin.dat")
    left = look(bench.root)
    bench.restart()  # the process is gone, and nobody has closed the window
    prepared = bench.undo(Undo())
    assert prepared.undone.is_incomplete and look(bench.root) == before
    bench.undo(Undo(redo=True))
    assert look(bench.root) == left
