"""A run that is stopped by a signal or from another process: soon, with nothing left, and it can go on."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from fake_server import Turn, call, message, turn
from fleet_runs import Held, Runs
from installed import finish, wait_for
from spindle.fleet.book import RunLock

SOON_S = 10.0


def hold(runs: Runs, *tasks: str) -> None:
    for task in tasks:
        runs.answers[task] = Held()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_soon_unrecorded_and_the_run_can_go_on(runs: Runs, number: signal.Signals) -> None:
    runs.tasks(count=6)
    hold(runs, "t002", "t003", "t004", "t005")
    driver = runs.start("--jobs", 2, "--workers", 2)
    wait_for(lambda: len(runs.server.turns_asked) == 4, "two that wait")
    began = time.monotonic()
    driver.send_signal(number)
    done = finish(driver)
    assert done.code == 3 and time.monotonic() - began < SOON_S
    assert f"stopped by {number.name}" in done.err and "--resume goes on" in done.err
    assert {*runs.statuses} == {"t000", "t001"}
    runs.nothing_left()
    ended = [line["outcome"] for line in runs.attempts(event="ended")]
    assert sorted(ended) == ["ok", "ok", "stopped", "stopped"]
    runs.answers.clear()
    assert runs.run("--resume").code == 0
    runs.exactly_once()


def test_a_command_of_the_model_that_hears_no_signal_does_not_keep_a_run_from_stopping(runs: Runs) -> None:
    runs.tasks("a")
    runs.answers["a"] = lambda: turn(call("exec_command", {"cmd": "trap '' TERM INT HUP; touch here; sleep 600"}, "c"))
    driver = runs.start()
    wait_for(lambda: [*(runs.cache / "spindle" / "attempts").rglob("here")], "a command that runs")
    began = time.monotonic()
    driver.send_signal(signal.SIGINT)
    assert finish(driver).code == 3 and time.monotonic() - began < SOON_S
    runs.nothing_left()


def test_a_second_ctrl_c_does_not_wait(runs: Runs) -> None:
    runs.tasks("a")
    hold(runs, "a")
    driver = runs.start()
    wait_for(lambda: runs.server.turns_asked, "a request")
    worker = runs.attempts("a", "started")[0]["pid"]
    os.kill(worker, signal.SIGSTOP)  # it does not hear that it is to end
    driver.send_signal(signal.SIGINT)
    wait_for(lambda: is_caught(driver.pid, signal.SIGINT), "the first one")
    driver.send_signal(signal.SIGINT)
    assert finish(driver, timeout=5).code == 130
    os.kill(worker, signal.SIGCONT)
    runs.nothing_left()


def is_caught(pid: int, number: signal.Signals) -> bool:
    """No such signal waits for the process any more."""
    status = Path(f"/proc/{pid}/status").read_text()
    pending = [int(line.split()[1], 16) for line in status.splitlines() if line.startswith(("SigPnd", "ShdPnd"))]
    return not any(mask >> (number - 1) & 1 for mask in pending)


def test_a_run_is_cancelled_from_another_process(runs: Runs) -> None:
    runs.tasks(count=3)
    hold(runs, "t001", "t002")
    driver = runs.start("--jobs", 2)
    wait_for(lambda: len(runs.server.turns_asked) == 3, "two that wait")
    done = runs.sub("cancel")
    assert done.code == 0, done.err
    assert driver.poll() is not None, "it has ended when the command returns"
    assert finish(driver).code == 3 and {*runs.statuses} == {"t000"}
    runs.nothing_left()
    assert not (runs.out / "cancel.jsonl").exists()
    again = runs.sub("cancel")
    assert again.code == 1 and "no driver is at work" in again.err


def test_single_tasks_are_cancelled_whether_they_run_wait_or_nobody_works(runs: Runs) -> None:
    runs.tasks("runs", "waits", "later", "done")
    hold(runs, "runs", "later")
    driver = runs.start("--jobs", 1)
    wait_for(lambda: runs.asked()["runs"] == 1, "one that runs")
    done = runs.sub("cancel", "waits")
    assert done.code == 0 and runs.statuses == {"waits": "cancelled"}, done.err
    done = runs.sub("cancel", "runs")
    assert done.code == 0 and "runs: cancelled" in done.out, done.err
    wait_for(lambda: runs.asked()["later"] == 1, "the next one")
    assert runs.statuses == {"runs": "cancelled", "waits": "cancelled"}
    driver.send_signal(signal.SIGINT)
    assert finish(driver).code == 3
    assert runs.sub("cancel", "later", "runs").code == 0
    assert runs.run("--resume").code == 1
    runs.exactly_once(status=None)
    assert runs.statuses == {"runs": "cancelled", "waits": "cancelled", "later": "cancelled", "done": "ok"}
    assert [runs.record(task)["attempts"] for task in ("runs", "waits", "later")] == [1, 0, 1]
    assert runs.record("runs")["error"] == {"kind": "cancelled", "message": "the task was cancelled"}
    assert runs.sub("cancel", "nobody").code == 2
    assert runs.asked() == {"runs": 1, "later": 1, "done": 1}


def test_what_an_attempt_had_spent_when_it_was_stopped_stays_spent(runs: Runs) -> None:
    runs.tasks("a")
    answers = [turn(call("exec_command", {"cmd": "true"}, "c"), usage={"input": 900, "output": 100})]
    hold(runs, "a")
    held = runs.answers["a"]
    runs.answers["a"] = lambda: answers.pop() if answers else held()
    driver = runs.start()
    wait_for(lambda: len(runs.server.turns_asked) == 2, "its second request")
    driver.send_signal(signal.SIGTERM)
    assert finish(driver).code == 3 and runs.results == []
    state = runs.status()
    assert state["cost_usd"] >= 1.0 and state["usage"]["input_tokens"] >= 900
    runs.answers.clear()
    assert runs.run("--resume").code == 0
    assert runs.record("a")["attempts"] == 2 and runs.record("a")["usage"]["input_tokens"] >= 1000


SMALL_FILES = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_a_record_that_cannot_be_written_is_told_and_nothing_is_lost(runs: Runs) -> None:
    runs.tasks(count=3)
    assert runs.run("--limit", 1).code == 0
    results = runs.out / "results.jsonl"
    line = results.read_bytes()
    results.write_bytes(line * ((1 << 20) // len(line)))  # no other line fits into a file of that size
    before = results.read_bytes()
    done = runs.run("--resume", wrap=[sys.executable, "-c", SMALL_FILES])
    assert done.code == 3 and "results.jsonl cannot be written" in done.err, done.err
    assert results.read_bytes() == before and "Traceback" not in done.err
    assert runs.run("--resume").code == 0
    assert runs.statuses == dict.fromkeys(runs.ids, "ok")
    assert not [*runs.out.glob("tasks/.*")]
    runs.nothing_left()


def test_a_run_ends_when_nobody_reads_its_events_any_more(runs: Runs) -> None:
    runs.tasks(count=2)
    hold(runs, "t001")
    driver = runs.start("--jobs", 1, "--json")
    assert driver.stdout is not None and b"fleet.started" in driver.stdout.readline()
    driver.stdout.close()
    assert driver.wait(30) == 3
    runs.nothing_left()
    runs.answers.clear()
    assert runs.run("--resume").code == 0
    runs.exactly_once()


def test_the_events_of_a_stopped_run_end_with_its_sum(runs: Runs) -> None:
    runs.tasks(count=2)
    hold(runs, "t001")
    driver = runs.start("--jobs", 1, "--json")
    wait_for(lambda: runs.asked()["t001"] == 1, "the second one")
    driver.send_signal(signal.SIGINT)
    done = finish(driver)
    events = [json.loads(line) for line in done.out.splitlines()]
    assert done.code == 3 and events[-1]["type"] == "fleet.done"
    assert events[-1]["recorded"] == 1 and events[-1]["by_status"] == {"ok": 1}


def test_a_cache_that_cannot_be_used_any_more_stops_the_run_and_spoils_no_task(runs: Runs) -> None:
    runs.tasks(count=3)
    attempts, away = runs.cache / "spindle" / "attempts", runs.cache / "away"

    def breaks() -> Turn:
        if not away.exists():
            attempts.rename(away)
            attempts.write_text("no folder")
        return turn(message("done"))

    runs.answers["t000"] = breaks
    done = runs.run("--jobs", "1", "--retries", "1")
    assert done.code == 3, done.err
    assert f"{attempts}" in done.err and "--resume goes on" in done.err
    assert "Traceback" not in done.err and not set(runs.statuses) - {"t000"}
    attempts.unlink()
    away.rename(attempts)
    runs.answers.clear()
    assert runs.run("--resume").code in (0, 1)
    assert runs.statuses["t001"] == runs.statuses["t002"] == "ok"
    runs.nothing_left()


def test_cancel_does_not_claim_a_task_that_was_done_meanwhile(runs: Runs) -> None:
    runs.tasks("a", "b")
    assert runs.run("--limit", 1).code == 0
    lock = RunLock(str(runs.out))  # as a driver that is at work
    cancel = runs.spindle.start("fleet", "cancel", str(runs.out), "a", "b")
    wait_for((runs.out / "cancel.jsonl").exists, "the question")
    with (runs.out / "results.jsonl").open("a") as file:
        file.write(json.dumps({**runs.record("a"), "id": "b"}) + "\n")
    done = finish(cancel)
    lock.release()
    assert done.code == 0 and done.out == "a: has a record already (ok)\nb: has a record already (ok)\n"
