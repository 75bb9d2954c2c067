"""What a driver keeps on its own machine: files that it has claimed are safe, and nothing of a dead one stays."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from spindle.fleet.attempt.places import discard, make_place, sweep
from spindle.fleet.driver_folder import Arrived, DriverFolder


async def test_files_that_were_claimed_survive_whoever_sweeps_up_after_their_worker(tmp_path: Path) -> None:
    (tmp_path / "attempts").mkdir()
    folder = DriverFolder(str(tmp_path))
    place = make_place(str(tmp_path), "a")
    Path(place.files, "final.md").write_text("done\n")
    claimed = folder.claim(place.files, ["final.md"])
    os.close(place.lock)  # its worker is dead
    sweep(str(tmp_path))
    into = tmp_path / "into"
    assert await Arrived(claimed).take(str(into)) == []
    assert (into / "final.md").read_text() == "done\n" and not [*(tmp_path / "attempts").iterdir()]
    folder.remove()


def test_files_that_are_not_all_there_are_not_claimed(tmp_path: Path) -> None:
    (tmp_path / "attempts").mkdir()
    folder = DriverFolder(str(tmp_path))
    place = make_place(str(tmp_path), "a")
    Path(place.files, "final.md").write_text("done\n")
    assert folder.claim(place.files, ["final.md", "patch.diff"]) is None
    discard(place)
    assert folder.claim(place.files, []) is None  # swept already
    folder.remove()


def test_a_removal_that_was_cut_short_is_finished_by_the_next_sweep(tmp_path: Path) -> None:
    left = tmp_path / "attempts" / "a.gone" / "work"
    left.mkdir(parents=True)
    sweep(str(tmp_path))
    assert not [*(tmp_path / "attempts").iterdir()]


def test_what_a_killed_driver_left_is_removed_and_what_a_living_one_has_stays(tmp_path: Path) -> None:
    code = (
        "import os, sys; from spindle.fleet.driver_folder import DriverFolder\n"
        "folder = DriverFolder(sys.argv[1]); folder.make_token()\n"
        "folder.make_ray_folder({'RAY_TMPDIR': sys.argv[2]}); os.kill(os.getpid(), 9)"
    )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    subprocess.run([sys.executable, "-c", code, tmp_path, elsewhere])
    assert [*elsewhere.iterdir()] and [*(tmp_path / "drivers").iterdir()]
    living = DriverFolder(str(tmp_path))
    token = living.make_token()
    another = DriverFolder(str(tmp_path))
    assert not [*elsewhere.iterdir()] and os.path.exists(token)
    assert os.stat(token).st_mode & 0o777 == 0o600
    another.remove()
    living.remove()
    assert not [*(tmp_path / "drivers").iterdir()]


async def test_whatever_else_lies_beside_the_files_of_an_attempt_is_left_behind(tmp_path: Path) -> None:
    secret, left = tmp_path / "secret", tmp_path / "left"
    secret.write_text("mine\n")
    left.mkdir()
    (left / "final.md").write_text("done\n")
    (left / "odd.txt").write_text("odd\n")
    os.link(secret, left / "verify.log")
    os.symlink(secret, left / "setup.log")
    os.mkfifo(left / "events.jsonl")
    into = tmp_path / "into"
    assert await Arrived(str(left)).take(str(into)) == []
    assert sorted(os.listdir(into)) == ["final.md", "verify.log"]
    assert not os.path.samefile(into / "verify.log", secret)


def test_a_place_that_is_held_is_not_swept_away(tmp_path: Path) -> None:
    (tmp_path / "attempts").mkdir()
    place = make_place(str(tmp_path), "a")
    sweep(str(tmp_path))
    assert os.path.isdir(place.work)
    os.close(place.lock)
    sweep(str(tmp_path))
    assert not [*(tmp_path / "attempts").iterdir()]
