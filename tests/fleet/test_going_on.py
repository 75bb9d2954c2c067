"""A run that is resumed: what is recorded stays, what is missing is done, and options are remembered."""

from __future__ import annotations

import json
import signal

import pytest

from fake_server import message, refuses, turn
from fleet_runs import ONE_DOLLAR, Held, Runs
from installed import finish, wait_for


def test_a_folder_with_a_run_is_not_used_for_another_by_accident(runs: Runs) -> None:
    runs.tasks(count=2)
    assert runs.run().code == 0
    before = (runs.out / "results.jsonl").read_bytes()
    done = runs.run()
    assert done.code == 2 and "--resume" in done.err
    assert (runs.out / "results.jsonl").read_bytes() == before


def test_options_are_remembered_and_the_part_is_not(runs: Runs) -> None:
    runs.tasks(count=5)
    assert runs.run("--jobs", 1, "--timeout", 77, "--limit", 2, "-m", "gpt-5.1-codex").code == 0
    facts = json.loads((runs.out / "fleet.json").read_text())
    assert facts["options"] == {"jobs": 1, "timeout": 77.0, "model": "gpt-5.1-codex"}
    assert (facts["v"], facts["engine"], facts["total"]) == (1, "local", 5) and len(facts["tasks_sha256"]) == 64
    assert runs.run("--resume", "--timeout", 78, tasks=False).code == 0
    runs.exactly_once()
    assert {record["model"] for record in runs.results} == {"gpt-5.1-codex"}
    assert json.loads((runs.out / "fleet.json").read_text())["options"]["timeout"] == 78.0
    assert max(runs.asked().values()) == 1


def test_a_list_given_again_may_add_tasks(runs: Runs) -> None:
    runs.tasks("a", "b")
    assert runs.run().code == 0
    runs.tasks("b", "c", "a")
    assert runs.run("--resume").code == 0
    runs.exactly_once()
    assert [task["id"] for task in runs.lines("tasks.jsonl")] == ["a", "b", "c"]
    assert runs.asked() == {"a": 1, "b": 1, "c": 1} and runs.status()["total"] == 3


@pytest.mark.parametrize("change", [{"prompt": "TASK:a other"}, {"timeout": 5}, {"meta": {"x": 1}}, {"priority": 3}])
def test_a_task_that_is_another_one_under_a_known_id_is_refused(runs: Runs, change: dict[str, object]) -> None:
    runs.tasks("a", "b")
    assert runs.run("--limit", 1).code == 0
    runs.tasks(runs.task("a", **change), "b", "new")
    done = runs.run("--resume")
    assert done.code == 2 and "'a' is another one" in done.err
    assert [task["id"] for task in runs.lines("tasks.jsonl")] == ["a", "b"] and len(runs.results) == 1


def test_an_added_id_that_differs_in_case_alone_is_refused(runs: Runs) -> None:
    runs.tasks("a")
    assert runs.run().code == 0
    runs.tasks("A")
    assert runs.run("--resume").code == 2


def test_parts_of_a_list_are_shards_patterns_and_beginnings(runs: Runs) -> None:
    runs.tasks("a1", "b1", "a2", "b2", "a3")
    assert runs.run("--shard", "2/2").code == 0
    assert {*runs.statuses} == {"b1", "b2"}
    assert runs.run("--resume", "--select", "a*", "--limit", 2).code == 0
    assert {*runs.statuses} == {"b1", "b2", "a1", "a2"}
    assert runs.run("--resume").code == 0
    runs.exactly_once()


def test_retry_does_recorded_tasks_again_and_the_last_line_counts(runs: Runs) -> None:
    runs.answers["bad"] = lambda: refuses(400, {"error": {"message": "no"}})
    runs.tasks("good", "bad")
    assert runs.run().code == 1
    assert runs.run("--resume").code == 1 and runs.asked() == {"good": 1, "bad": 1}
    del runs.answers["bad"]
    assert runs.run("--resume", "--retry", "agent_failed,timeout").code == 0
    lines = [record for record in runs.results if record["id"] == "bad"]
    assert [(line["status"], line["attempts"], line.get("supersedes")) for line in lines] == [
        ("agent_failed", 1, None),
        ("ok", 2, True),
    ]
    assert lines[1]["usage"]["requests"] == 2, "what it used before counts"
    assert runs.status()["by_status"] == {"ok": 2} and runs.status()["recorded"] == 2
    shown = [json.loads(line) for line in runs.sub("results", "--json").out.splitlines()]
    assert [(record["id"], record["status"]) for record in shown] == [("good", "ok"), ("bad", "ok")]
    assert (runs.out / "tasks/bad/final.md").read_text() == "said bad\n"
    assert runs.run("--resume").code == 0 and sum(runs.asked().values()) == 3


def test_a_torn_last_line_is_cut_off_and_only_that(runs: Runs) -> None:
    runs.tasks(count=4)
    assert runs.run("--jobs", 1).code == 0
    for name in ("results.jsonl", "attempts.jsonl", "spend.jsonl"):
        path = runs.out / name
        path.write_bytes(path.read_bytes()[:-7])
    whole = (runs.out / "results.jsonl").read_bytes().rpartition(b"\n")[0]
    asked = len(runs.server.turns_asked)
    assert runs.run("--resume").code == 0
    runs.exactly_once()
    assert (runs.out / "results.jsonl").read_bytes().startswith(whole + b"\n")
    assert runs.asked(asked) == {"t003": 1} and runs.record("t003")["attempts"] == 2


def test_a_broken_line_in_the_middle_is_named_and_nothing_is_changed(runs: Runs) -> None:
    runs.tasks(count=2)
    assert runs.run("--jobs", 1).code == 0
    path = runs.out / "results.jsonl"
    path.write_bytes(b"{broken}\n" + path.read_bytes())
    before = path.read_bytes()
    done = runs.run("--resume")
    assert done.code == 2 and "results.jsonl, line 1" in done.err and path.read_bytes() == before


def test_a_second_driver_is_refused_and_the_first_goes_on(runs: Runs) -> None:
    runs.tasks(count=3)
    held = runs.answers["t001"] = Held()
    first = runs.start("--jobs", 3)
    assert held.is_asked.wait(30)
    done = runs.run("--resume")
    assert done.code == 2 and "another driver works in" in done.err
    assert runs.status()["alive"] and first.poll() is None
    first.send_signal(signal.SIGINT)
    assert finish(first).code == 3 and not runs.status()["alive"] and max(runs.asked().values()) == 1
    runs.answers.clear()
    assert runs.run("--resume").code == 0
    runs.exactly_once()


def test_a_budget_counts_what_earlier_parts_spent(runs: Runs) -> None:
    runs.tasks(count=8)
    for task in runs.ids:
        runs.answers[task] = lambda: turn(message("ok"), usage=ONE_DOLLAR)
    done = runs.run("--max-cost", 3, "--workers", 1)
    assert done.code == 3 and "the budget of the run is used up" in done.err
    spent = sum(runs.asked().values())
    assert 2 <= spent <= 4
    assert runs.run("--resume", "--max-cost", 3).code == 3 and sum(runs.asked().values()) == spent
    assert runs.run("--resume", "--max-cost", 50).code == 0
    runs.exactly_once()
    assert runs.status()["cost_usd"] == pytest.approx(sum(runs.asked().values()))


def test_what_is_recorded_and_what_is_pending_always_add_up(runs: Runs) -> None:
    runs.tasks(count=6)
    held = runs.answers["t003"] = Held(turn(message("late"), delay_s=1))
    running = runs.start("--jobs", 2)
    assert held.is_asked.wait(30)
    while running.poll() is None:
        state = runs.status()
        assert state["recorded"] + state["pending"] == state["total"] == 6
        assert sum(state["by_status"].values()) == state["recorded"]
    assert finish(running).code == 0
    wait_for(lambda: runs.status()["recorded"] == 6, "all recorded")
