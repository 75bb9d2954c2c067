"""Drivers and workers that die: every task is recorded once, and one that kills its worker takes no other with it."""

from __future__ import annotations

import os
import random
import re
import signal
import time
from pathlib import Path

import pytest

from fake_server import message, turn
from fleet_runs import Held, Runs, is_running, kill
from installed import finish, wait_for


def test_what_ran_in_a_worker_that_died_is_run_again(runs: Runs) -> None:
    runs.tasks(count=8)
    held = runs.answers["t000"] = Held(turn(message("ok"), delay_s=0.7))
    driver = runs.start("--jobs", 4, "--workers", 2)
    assert held.is_asked.wait(30)
    kill(runs.attempts("t000", "started")[0]["pid"])
    done = finish(driver)
    assert done.code == 0, done.err
    assert re.search(r"worker w\d+ is lost: its process was killed.*; \d attempts? with it", done.err), done.err
    runs.exactly_once()
    lost = [line for line in runs.attempts(event="ended") if line["outcome"] == "lost"]
    assert "t000" in {line["id"] for line in lost} and "was killed" in lost[0]["reason"]
    assert all(runs.record(line["id"])["attempts"] == 2 for line in lost)
    runs.nothing_left()


def test_a_worker_that_dies_while_it_starts_does_not_end_the_run(runs: Runs, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\n"
        "if sys.orig_argv[-2:] == ['fleet', 'worker']:\n"
        "    try:\n"
        f"        os.mkdir({str(tmp_path / 'died')!r})\n"
        "    except FileExistsError:\n"
        "        pass\n"
        "    else:\n"
        "        os.kill(os.getpid(), 9)\n"
    )
    runs.spindle.environment["PYTHONPATH"] = str(tmp_path)
    runs.tasks(count=3)
    done = runs.run("--jobs", 2, "--workers", 2)
    assert done.code == 0 and "was killed" in done.err and "it is tried again" in done.err, done.err
    assert (tmp_path / "died").exists()
    runs.exactly_once()


def test_suspects_run_alone_and_only_the_one_that_kills_its_worker_is_quarantined(runs: Runs) -> None:
    runs.tasks("poison", *(f"n{number}" for number in range(6)))
    for task in runs.ids:
        runs.answers[task] = lambda: turn(message("ok"), delay_s=0.5)
    driver = runs.start("--jobs", 4, "--workers", 1, "--retries", 1)
    killed: set[int] = set()
    while driver.poll() is None:
        for line in runs.attempts("poison", "started"):
            if line["attempt"] not in killed:
                killed.add(line["attempt"])
                kill(line["pid"])
        time.sleep(0.01)
    assert finish(driver).code == 1
    runs.exactly_once(status=None)
    assert runs.statuses.pop("poison") == "quarantined"
    assert {status for task, status in runs.statuses.items() if task != "poison"} == {"ok"}
    record = runs.record("poison")
    assert "its worker died every time it ran alone" in record["error"]["message"]
    assert record["attempts"] == len(runs.attempts("poison", "started")) <= 3
    alone = {line["worker"] for line in runs.attempts("poison", "started")[1:]}
    assert not [line for line in runs.attempts(event="started") if line["worker"] in alone and line["id"] == "n5"]
    runs.nothing_left()


def test_workers_and_workspaces_go_with_a_driver_that_is_killed(runs: Runs) -> None:
    runs.tasks(count=4)
    for task in runs.ids:
        runs.answers[task] = Held()
    driver = runs.start("--jobs", 4, "--workers", 2)
    wait_for(lambda: len(runs.server.turns_asked) == 4, "four requests")
    kill(driver.pid)
    driver.wait()
    runs.nothing_left()
    assert runs.status()["running"] == 0 and runs.status()["pending"] == 4
    runs.answers.clear()
    assert runs.run("--resume").code == 0
    runs.exactly_once()
    lost = [line for line in runs.attempts(event="ended") if line["outcome"] == "lost"]
    assert {line["id"] for line in lost} == {*runs.ids} and lost[0]["reason"] == "its driver was gone"
    assert {record["attempts"] for record in runs.results} == {2}


def test_a_worker_that_is_stuck_when_its_driver_dies_ends_all_the_same(runs: Runs) -> None:
    runs.tasks("a")
    held = runs.answers["a"] = Held()
    driver = runs.start()
    assert held.is_asked.wait(30)
    pid = runs.attempts("a", "started")[0]["pid"]
    os.kill(pid, signal.SIGSTOP)
    kill(driver.pid)
    driver.wait()
    os.kill(pid, signal.SIGCONT)
    wait_for(lambda: not is_running(pid), "the end of the worker", timeout=10)


def test_files_of_a_record_that_was_never_written_are_taken_back(runs: Runs) -> None:
    """What a driver leaves that is killed between the rename of files and the line of the record."""
    runs.tasks("new", "old", "kept")
    assert runs.run("--jobs", 1).code == 0
    tasks = runs.out / "tasks"
    (tasks / ".new-new@1").mkdir()
    (tasks / "old").rename(tasks / ".old-old@2")  # its second attempt has no record
    (tasks / "old").mkdir()
    (tasks / "old/final.md").write_text("half done\n")
    (tasks / ".old-kept@1").mkdir()  # the record of its first attempt is there
    lines = (runs.out / "results.jsonl").read_text().splitlines(keepends=True)
    (runs.out / "results.jsonl").write_text("".join(line for line in lines if '"id":"new"' not in line))
    assert runs.run("--resume").code == 0
    runs.exactly_once()
    assert {path.name: (path / "final.md").read_text() for path in tasks.iterdir()} == {
        "new": "said new\n",
        "old": "said old\n",
        "kept": "said kept\n",
    }


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_each_task_is_recorded_once_whenever_drivers_and_workers_are_killed(runs: Runs, seed: int) -> None:
    dice = random.Random(seed)
    runs.tasks(count=16)
    for task in runs.ids:
        runs.answers[task] = lambda: turn(message("ok"), delay_s=dice.uniform(0.0, 0.3))
    options: tuple[object, ...] = ("--jobs", 4, "--workers", 2, "--retries", 9)
    done: dict[str, int] = {}
    for life in range(4):
        asked = len(runs.server.turns_asked)
        driver = runs.start(*options, *(["--resume"] if life else []))
        deadline = time.monotonic() + dice.uniform(0.6, 2.5)
        while time.monotonic() < deadline and driver.poll() is None:
            time.sleep(dice.uniform(0.05, 0.4))
            started = runs.attempts(event="started")
            if started and dice.random() < 0.4:
                kill(dice.choice(started[-4:])["pid"])
        kill(driver.pid)
        driver.wait()
        assert not done.keys() & runs.asked(asked).keys(), "recorded tasks were run again"
        ids = [record["id"] for record in runs.results]
        assert len(ids) == len({*ids})
        done = dict.fromkeys(ids, 1)
    result = runs.run(*options, "--resume")
    assert result.code == 0, result.err
    runs.exactly_once()
    for record in runs.results:
        assert record["attempts"] == len(runs.attempts(record["id"], "started"))
        assert (runs.out / "tasks" / record["id"] / "final.md").read_text() == "ok\n"
    assert not [*runs.out.glob("tasks/.*")]
    runs.nothing_left()
