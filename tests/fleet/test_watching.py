"""What a run shows while it goes on, and what can be asked about it."""

from __future__ import annotations

import json
import os
import pty
import re

from fake_server import message, refuses, turn
from fleet_runs import Held, Runs
from installed import finish, wait_for


def test_events_are_json_lines_from_the_first_to_the_sum(runs: Runs) -> None:
    runs.answers["bad"] = lambda: refuses(400, {"error": {"message": "no"}})
    runs.tasks("a", "bad", runs.task("c", meta={"any": ["thing"]}))
    done = runs.run("--json")
    events = [json.loads(line) for line in done.out.splitlines()]
    kinds = [event["type"] for event in events]
    assert done.code == 1 and (kinds[0], kinds[-1]) == ("fleet.started", "fleet.done")
    assert (events[0]["total"], events[0]["pending"]) == (3, 3)
    records = {event["record"]["id"]: event["record"] for event in events if event["type"] == "task.done"}
    assert records == {record["id"]: record for record in runs.results}
    assert sorted(event["id"] for event in events if event["type"] == "task.started") == ["a", "bad", "c"]
    assert events[-1]["recorded"] == 3 and events[-1]["by_status"] == {"agent_failed": 1, "ok": 2}
    assert records["c"]["meta"] == {"any": ["thing"]} and done.err == ""
    assert set(kinds) <= {"fleet.started", "task.started", "task.done", "fleet.progress", "fleet.done"}


def test_what_is_announced_is_on_disk_already(runs: Runs) -> None:
    runs.tasks(count=3)
    driver = runs.start("--json", "--jobs", 1)
    assert driver.stdout is not None
    for line in driver.stdout:
        event = json.loads(line)
        if event["type"] == "task.done":
            assert event["record"] in runs.results
            assert (runs.out / "tasks" / event["record"]["id"] / "final.md").exists()
    assert finish(driver).code == 0


def test_the_record_has_every_field(runs: Runs) -> None:
    runs.tasks("a")
    assert runs.run().code == 0
    record = runs.record("a")
    assert [*record] == [
        *("v", "id", "status", "attempts", "thread_id", "model", "base_commit", "started_at", "ended_at", "duration_s"),
        *("queue_s", "usage", "cost_usd", "patch", "final_message", "output", "verify", "rollout", "error", "worker"),
        *("node", "meta"),
    ]
    assert record["patch"] is None and record["rollout"] == "tasks/a/rollout.jsonl" and record["node"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", record["started_at"])
    assert record["usage"] == {
        "input_tokens": 100,
        "cached_input_tokens": 0,
        "output_tokens": 10,
        "reasoning_output_tokens": 0,
        "requests": 1,
    }
    assert {path.name for path in (runs.out / "tasks/a").iterdir()} >= {"final.md", "rollout.jsonl"}
    assert {*os.listdir(runs.out)} == {
        *("fleet.json", "tasks.jsonl", "attempts.jsonl", "results.jsonl", "spend.jsonl", "lock", "tasks")
    }


def test_status_tells_of_a_run_that_goes_on_and_names_what_is_slow(runs: Runs) -> None:
    runs.tasks(count=4)
    held = runs.answers["t000"] = Held(turn(message("late"), delay_s=6))
    driver = runs.start("--jobs", 2, "--workers", 1)
    assert held.is_asked.wait(30)
    state = wait_for(lambda: (now := runs.status())["slow"] and now, "a slow task")
    assert state["alive"] and state["slow"] == ["t000"]
    assert (state["total"], state["recorded"], state["pending"], state["running"]) == (4, 3, 1, 1)
    assert "a driver is at work" in runs.sub("status").out and "slow: t000" in runs.sub("status").out
    assert finish(driver).code == 0
    after = runs.status()
    assert (after["alive"], after["running"], after["slow"]) == (False, 0, [])
    assert after["usage"]["requests"] == 4 and after["cost_usd"] > 0


def test_control_characters_of_tasks_never_reach_the_terminal(runs: Runs) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\u202eevil\r"
    runs.answers["a"] = lambda: refuses(400, {"error": {"message": evil}})
    runs.tasks(runs.task("a", meta=evil), "b")
    done = runs.run()
    assert done.code == 1 and "a: agent_failed" in done.err
    for shown in (done.err, runs.sub("results").out, runs.sub("status").out):
        assert not {"\x1b", "\x07", "\u202e", "\r"} & {*shown}, shown


def test_on_a_terminal_there_is_one_line_that_says_where_the_run_is(runs: Runs) -> None:
    runs.tasks(count=3)
    held = runs.answers["t001"] = Held(turn(message("late"), delay_s=2.5))
    ours, theirs = pty.openpty()
    driver = runs.start("--jobs", 3, stderr=theirs, env={**runs.spindle.environment, "TERM": "xterm"})
    os.close(theirs)
    assert held.is_asked.wait(30)
    seen = b""
    while True:
        try:
            seen += os.read(ours, 4096)
        except OSError:
            break
    os.close(ours)
    assert driver.wait(30) == 0
    text = seen.decode()
    assert re.search(r"\r\x1b\[K2/3  2 ok  0 failed  1 running  \$0\.22  220 tokens  \d req/min  ETA \d+ s", text), text
    assert text.rstrip().endswith("3 of 3 recorded (3 ok), $0.33")


def test_tasks_of_a_higher_priority_go_first_and_groups_take_turns(runs: Runs) -> None:
    runs.tasks(
        *(runs.task(f"a{number}", group="a") for number in range(3)),
        runs.task("b0", group="b"),
        runs.task("now", group="a", priority=5),
    )
    assert runs.run("--jobs", 1).code == 0
    assert [line["id"] for line in runs.attempts(event="started")] == ["now", "a0", "b0", "a1", "a2"]


def test_looking_at_a_folder_without_a_run_ends_with_a_sentence(runs: Runs) -> None:
    for name, words in (
        ("status", []),
        ("results", []),
        ("report", []),
        ("cancel", []),
        ("export", ["--format", "swebench"]),
    ):
        done = runs.sub(name, *words)
        assert done.code == 2 and "there is no such folder" in done.err, (name, done.err)


def test_a_worker_is_nothing_to_start_by_hand(runs: Runs) -> None:
    done = runs.spindle("fleet", "worker")
    assert done.code == 2 and "only `spindle fleet run` may start" in done.err
