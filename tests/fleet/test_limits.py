"""Money, rate, time and memory: limits that all workers share, through the command."""

from __future__ import annotations

import pytest

from fake_server import call, message, refuses, turn
from fleet_runs import ONE_DOLLAR, Runs


def test_at_most_one_request_of_each_worker_is_too_much(runs: Runs) -> None:
    runs.tasks(count=20)
    for task in runs.ids:
        runs.answers[task] = lambda: turn(message("ok"), usage=ONE_DOLLAR, delay_s=0.05)
    done = runs.run("--max-cost", 4, "--workers", 2, "--per-worker", 4)
    asked = sum(runs.asked().values())
    assert done.code == 3 and 3 <= asked <= 6, asked
    assert runs.status()["cost_usd"] == pytest.approx(asked)
    assert set(runs.statuses.values()) <= {"ok"} and len(runs.results) >= asked - 2
    runs.nothing_left()


def test_tokens_of_the_whole_run_are_limited_too(runs: Runs) -> None:
    runs.tasks(count=10)
    for task in runs.ids:
        runs.answers[task] = lambda: turn(message("ok"), usage=ONE_DOLLAR)
    done = runs.run("--max-tokens", 3000, "--workers", 1)
    assert done.code == 3 and "of 3000 tokens" in done.err
    assert sum(runs.asked().values()) in (3, 4)


def test_a_task_in_the_middle_of_its_work_ends_unrecorded_when_the_budget_is_used_up(runs: Runs) -> None:
    runs.tasks("a", "b")
    runs.answers["a"] = lambda: turn(call("exec_command", {"cmd": "true"}, "c1"), usage=ONE_DOLLAR)
    done = runs.run("--max-cost", 3, "--jobs", 1)
    assert done.code == 3 and runs.results == [] and runs.asked() in ({"a": 2}, {"a": 3})
    assert [line["outcome"] for line in runs.attempts(event="ended")] == ["stopped"]


def test_a_tasks_own_budget_covers_all_its_attempts_and_ends_only_that_task(runs: Runs) -> None:
    answers = [turn(call("exec_command", {"cmd": "true"}, "c1")), turn(call("exec_command", {"cmd": "true"}, "c2"))]
    runs.answers["a"] = lambda: answers.pop() if answers else refuses(500)
    runs.tasks(runs.task("a", max_requests=4), "b")
    assert runs.run("--jobs", 1).code == 1
    assert runs.statuses == {"a": "budget", "b": "ok"}
    assert runs.asked()["a"] == 4 and runs.record("a")["usage"]["requests"] == 4 and runs.record("a")["attempts"] >= 2


def test_requests_a_minute_hold_for_all_workers_together(runs: Runs) -> None:
    runs.tasks(count=7)
    assert runs.run("--rpm", 240, "--workers", 2, "--jobs", 7).code == 0
    times = [received.arrived_s for received in runs.server.turns_asked]
    for first in times:
        assert sum(first <= time < first + 1.0 for time in times) <= 9  # four at once, four a second, and a little
    assert times[-1] - times[0] >= 0.5


def test_a_server_that_says_not_now_is_left_alone_by_all(runs: Runs) -> None:
    runs.tasks(count=6)
    runs.server.script(refuses(429, headers={"retry-after": "2"}))
    assert runs.run("--workers", 2, "--jobs", 6, "--rpm", 60).code == 0
    runs.exactly_once()
    times = [received.arrived_s for received in runs.server.turns_asked]
    assert len(times) == 7 and times[1] - times[0] >= 1.9
    assert [line["status"] for line in runs.lines("spend.jsonl")].count(429) == 1


def test_an_attempt_that_takes_too_long_is_a_timeout_and_the_others_go_on(runs: Runs) -> None:
    runs.tasks("slow", runs.task("own", timeout=1), "fast")
    for task in ("slow", "own"):
        runs.answers[task] = lambda: turn(message("late"), delay_s=60)
    assert runs.run("--timeout", 2, "--jobs", 3).code == 1
    assert runs.statuses == {"slow": "timeout", "own": "timeout", "fast": "ok"}


def test_a_worker_that_is_too_large_is_replaced_between_tasks(runs: Runs) -> None:
    runs.tasks(count=3)
    assert runs.run("--jobs", 1, "-c", "spindle.fleet.worker_memory=1024").code == 0
    runs.exactly_once()
    assert len({line["pid"] for line in runs.attempts(event="started")}) == 3
    runs.nothing_left()


def test_a_very_slow_task_is_tried_twice_where_that_is_asked_for_and_recorded_once(runs: Runs) -> None:
    runs.tasks("slow", *(f"n{number}" for number in range(5)))
    asked: list[int] = []

    def once_slow():
        asked.append(1)
        return turn(message("first"), delay_s=600) if len(asked) == 1 else turn(message("second"))

    runs.answers["slow"] = once_slow
    done = runs.run("--jobs", 4, "--workers", 2, "--speculate")
    assert done.code == 0, done.err
    runs.exactly_once()
    record = runs.record("slow")
    assert record["final_message"] == "second" and record["attempts"] == 2
    assert sorted(line["outcome"] for line in runs.attempts("slow", "ended")) == ["ok", "stopped"]
    runs.nothing_left()


def test_failures_that_may_pass_are_tried_again_and_others_are_not(runs: Runs) -> None:
    answers = [refuses(503), refuses(500)]
    runs.answers["passes"] = lambda: answers.pop() if answers else turn(message("ok"))
    runs.answers["stays"] = lambda: refuses(503)
    runs.answers["refused"] = lambda: refuses(400, {"error": {"message": "no"}})
    runs.tasks("passes", "stays", "refused")
    assert runs.run("--retries", 2).code == 1
    found = {record["id"]: (record["status"], record["attempts"]) for record in runs.results}
    assert found == {"passes": ("ok", 3), "stays": ("model_error", 3), "refused": ("agent_failed", 1)}
    assert runs.record("passes")["usage"]["requests"] == 3


def test_no_retries_means_one_attempt(runs: Runs) -> None:
    runs.answers["a"] = lambda: refuses(503)
    runs.tasks("a")
    assert runs.run("--retries", 0).code == 1 and runs.record("a")["attempts"] == 1
