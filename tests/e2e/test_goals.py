"""`spindle exec` and `spindle proto` with a goal: turn after turn, and an exit code that says what came of it."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from e2e.proto_client import OpenProto
from fake_server import FakeServer, call, message, refuses, turn
from installed import Done, Spindle, finish, wait_for, whole_lines


def reports(status: str, call_id: str = "g1") -> Any:
    return turn(call("update_goal", {"status": status}, call_id))


def goals(run: Done) -> list[dict[str, Any]]:
    return [event["goal"] for event in run.events if event["type"] == "goal.updated"]


def asked(server: FakeServer) -> None:
    """Wait for the first request."""
    wait_for(lambda: server.turns_asked, "a request")


def words(server: FakeServer, number: int = -1) -> list[str]:
    items = server.turns_asked[number].json["input"]
    return [item["content"][-1]["text"] for item in items if item["type"] == "message"]


def test_a_goal_alone_is_worked_on_until_it_is_complete(spindle: Spindle, server: FakeServer) -> None:
    server.script(turn(message("half of it")), reports("complete"), turn(message("all of it")))
    run = spindle("exec", "--goal", "Count to ten.")
    assert (run.code, run.out) == (0, "all of it\n")
    assert "goal working on it: Count to ten." in run.err and "goal complete (330 tokens, " in run.err
    assert run.err.count("to go on:") == 1  # after the last turn, not after each
    assert "Count to ten." in words(server, 0)[-1]


def test_a_prompt_comes_first_and_the_goal_after_it(spindle: Spindle, server: FakeServer) -> None:
    server.script(turn(message("one, two")), reports("complete"), turn(message("ten")))
    run = spindle("exec", "--json", "--goal", "Count to ten.", "Begin slowly.")
    assert run.code == 0 and [goal["status"] for goal in goals(run)] == ["active", "complete", "complete"]
    assert goals(run)[-1]["tokensUsed"] == 330
    assert [event["type"] for event in run.events if event["type"].startswith("turn.")] == [
        *("turn.started", "turn.completed") * 2
    ]
    first = words(server, 0)
    assert first[-2] == "Begin slowly." and "Count to ten." in first[-1]


@pytest.mark.parametrize(
    ("steps", "status"),
    [
        ([reports("blocked"), turn(message("no key"))], "blocked"),
        ([refuses(400, {"error": {"message": "no"}})], "blocked"),
        ([refuses(429, {"error": {"type": "usage_limit_reached", "message": "no"}})], "usageLimited"),
    ],
)
def test_a_goal_that_is_not_reached_ends_with_one(
    spindle: Spindle, server: FakeServer, steps: list[Any], status: str
) -> None:
    server.script(*steps)
    run = spindle("exec", "--json", "--goal", "Count to ten.")
    assert run.code == 1 and goals(run)[-1]["status"] == status


def test_what_the_line_allows_holds_for_the_whole_run(spindle: Spindle, server: FakeServer) -> None:
    server.otherwise(turn(message("and so on")))
    run = spindle("exec", "--json", "--max-requests", "4", "--goal", "Count to ten.")
    assert run.code == 1 and len(server.turns_asked) == 4 and goals(run)[-1]["status"] == "budgetLimited"


def test_a_resumed_thread_goes_on_with_its_goal(spindle: Spindle, server: FakeServer) -> None:
    server.script(turn(message("one"), delay_s=30))
    running = spindle.start("exec", "--json", "--goal", "Count to ten.")
    asked(server)
    running.kill()
    finish(running)
    server.script(turn(message("one, two")), reports("complete"), turn(message("ten")))
    run = spindle("exec", "--json", "resume", "--last", "Faster.")
    assert run.code == 0 and goals(run)[0]["status"] == "active" and goals(run)[-1]["status"] == "complete"
    assert len(spindle.rollouts()) == 1


def test_a_thread_with_an_active_goal_is_resumed_without_a_word(spindle: Spindle, server: FakeServer) -> None:
    server.script(turn(message("one"), delay_s=30))
    running = spindle.start("exec", "--json", "--goal", "Count to ten.")
    asked(server)
    running.kill()
    finish(running)
    server.script(reports("complete"), turn(message("ten")))
    assert spindle("exec", "resume", "--last").out == "ten\n"
    over = spindle("exec", "resume", "--last")
    assert over.code == 1 and "No prompt provided via stdin." in over.err


def test_ctrl_c_pauses_the_goal(spindle: Spindle, server: FakeServer) -> None:
    server.script(turn(message("one"), delay_s=30))
    running = spindle.start("exec", "--json", "--goal", "Count to ten.")
    asked(server)
    running.send_signal(signal.SIGINT)
    done = finish(running)
    (rollout,) = spindle.rollouts()
    lines = [line["payload"] for line in whole_lines(rollout) if line["type"] == "event_msg"]
    recorded = [line for line in lines if line["type"] == "thread_goal_updated"]
    assert done.code == 1 and recorded[-1]["goal"]["status"] == "paused"
    server.script(turn(message("sure")))
    run = spindle("exec", "--json", "resume", "--last", "Something else.")
    assert run.code == 0 and len(run.items("agent_message")) == 1  # the pause lasts


def test_an_objective_of_bytes_that_are_no_text_is_taken_as_far_as_it_is_text(
    spindle: Spindle, server: FakeServer
) -> None:
    server.script(reports("complete"), turn(message("ten")))
    run = spindle("exec", "--goal", "Count\udcff to ten.")
    assert run.code == 0 and "goal working on it: Count? to ten." in run.err


def test_another_goal_takes_the_place_of_the_first(spindle: Spindle, server: FakeServer) -> None:
    server.script(reports("blocked"), turn(message("no")), reports("complete", "g2"), turn(message("yes")))
    spindle("exec", "--goal", "Count to ten.", "--json")
    run = spindle("exec", "--json", "resume", "--last", "--goal", "Count to five.")
    assert run.code == 0 and goals(run)[-1]["objective"] == "Count to five."
    assert goals(run)[-1]["tokensUsed"] == 220


def test_a_goal_that_cannot_be_is_refused_before_anything_is_asked(spindle: Spindle, server: FakeServer) -> None:
    for line, why in (
        (("--goal", " "), "must not be empty"),
        (("--goal", "x" * 4001), "at most 4,000 characters"),
        (("--goal", "x", "--output-schema", "s.json"), "does not go with --goal"),
        (("review", "--uncommitted", "--goal", "x"), "does not go with a review"),
    ):
        run = spindle("exec", *line)
        assert run.code == 2 and why in run.err
    assert server.requests == []


def test_a_thread_that_began_with_a_goal_is_listed_by_it(spindle: Spindle, server: FakeServer) -> None:
    server.script(reports("complete"), turn(message("ten")))
    spindle("exec", "--goal", "Count to ten.")
    listed = spindle("threads", "--json")
    assert "Count to ten." in listed.out


def test_proto_takes_the_ops_and_tells_of_the_goal(open_proto: OpenProto, server: FakeServer) -> None:
    server.script(turn(message("half")), reports("complete"), turn(message("all")))
    proto = open_proto()
    proto.send("g", "goal_set", objective="Count to ten.", token_budget=1000)
    told = proto.until("thread_goal_updated", sub_id="g")[-1]["msg"]
    assert set(told) == {"type", "thread_id", "turn_id", "goal"} and told["goal"]["tokenBudget"] == 1000
    while proto.until("thread_goal_updated")[-1]["msg"]["goal"]["status"] != "complete":
        pass
    proto.until("task_complete")
    proto.send("c", "goal_clear")
    assert proto.until("thread_goal_updated", sub_id="c")[-1]["msg"]["goal"] is None
