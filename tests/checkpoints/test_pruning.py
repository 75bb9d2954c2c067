"""The store stays within its limits: the oldest goes first, what is needed stays, a deleted thread leaves nothing."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from checkpoint_bench import Bench, look, shell
from spindle.features.checkpoints.choosing import Nothing
from spindle.features.checkpoints.pruning import forget_thread, prune
from spindle.features.checkpoints.recorder import Options
from spindle.protocol.ops import Undo


def size_of(home: str) -> int:
    return sum(path.stat().st_size for path in Path(home, "spindle/checkpoints").rglob("*") if path.is_file())


def tidy(bench: Bench, now: float | None = None) -> None:
    at = bench.recorder._clock.now() if now is None else now
    prune(bench.recorder.store, bench.home, bench.options, at, in_use=[str(bench.root)])


def test_the_oldest_turns_go_first(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Options(max_bytes=400_000))
    states = []
    for _ in range(8):
        states.append(look(bench.root))
        bench.turn("head -c 60000 /dev/urandom > noise")
    tidy(bench)
    bench.recorder.close()
    assert size_of(bench.home) < 500_000
    bench.restart()
    bench.undo(Undo(turns=2))
    assert look(bench.root) == states[-2]
    with pytest.raises(Nothing, match="max_bytes"):
        bench.undoer().prepare(Undo(turns=8), bench.turns, ())


def test_what_is_too_old_goes(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.turn("echo 1 > a.txt")
    tidy(bench, bench.recorder._clock.now() + 31 * 86_400)
    with pytest.raises(Nothing, match="max_age_days"):
        bench.undoer().prepare(Undo(), bench.turns, ())


def test_what_is_needed_stays(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    before = look(bench.root)
    bench.turn("echo 1 > a.txt; rm bin.dat")
    key = bench.begin()
    bench.recorder.open_window(key, [str(bench.root)])
    shell(bench.root, "rm dir/b.txt")
    tidy(bench)
    bench.restart()  # the second turn was killed
    tidy(bench)
    bench.undo(Undo(turns=2))
    assert look(bench.root) == before


def test_a_deleted_thread_leaves_nothing_of_its_own(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.turn("head -c 300000 /dev/urandom > noise")
    bench.turn("rm noise")
    bench.turn("true")
    bench.recorder.close()
    before = size_of(bench.home)
    forget_thread(bench.home, "thread")
    assert size_of(bench.home) < before - 250_000
    assert not os.listdir(f"{bench.home}/spindle/checkpoints/threads")


def test_the_store_is_for_its_owner_alone(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.turn("echo 1 > a.txt")
    for path in Path(bench.home, "spindle/checkpoints").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    assert stat.S_IMODE(os.stat(f"{bench.home}/spindle/checkpoints").st_mode) == 0o700
