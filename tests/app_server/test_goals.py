"""`thread/goal/…`: a client sets a goal, hears how the thread goes on by itself, and can stop it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app_server.client import Client
from app_server.conftest import Start
from fake_server import FakeServer, call, message, turn
from installed import wait_for


def reports(status: str, call_id: str = "g1") -> Any:
    return turn(call("update_goal", {"status": status}, call_id), response_id="r2")


def updated(client: Client, status: str, since: int = 0) -> Any:
    return client.note("thread/goal/updated", lambda params: params["goal"]["status"] == status, since)


def get(client: Client, thread_id: str) -> Any:
    return client.result("thread/goal/get", {"threadId": thread_id})["goal"]


def test_a_goal_on_an_idle_thread_starts_work_that_ends_with_it(client: Client, server: FakeServer) -> None:
    thread_id = client.start_thread()
    assert get(client, thread_id) is None
    server.script(turn(message("one")), reports("complete"), turn(message("two")))
    goal = client.result("thread/goal/set", {"threadId": thread_id, "objective": " Count. ", "tokenBudget": 9000})[
        "goal"
    ]
    moment = goal["createdAt"]
    assert goal == {
        "threadId": thread_id,
        "objective": "Count.",
        "status": "active",
        "tokenBudget": 9000,
        "tokensUsed": 0,
        "timeUsedSeconds": 0,
        "createdAt": moment,
        "updatedAt": moment,
    }
    assert client.note("thread/goal/updated") == {"threadId": thread_id, "turnId": None, "goal": goal}
    done = updated(client, "complete")
    client.note("turn/completed", lambda params: params["turn"]["id"] == done["turnId"])
    assert get(client, thread_id)["tokensUsed"] == 330
    turns = client.result("thread/turns/list", {"threadId": thread_id, "sortDirection": "asc"})["data"]
    assert [[item["type"] for item in one["items"]] for one in turns] == [["agentMessage"], ["agentMessage"]]


def test_a_client_pauses_resumes_and_clears(client: Client, server: FakeServer) -> None:
    thread_id = client.start_thread()
    server.script(turn(message("one"), delay_s=30), turn(message("two"), delay_s=30))
    client.result("thread/goal/set", {"threadId": thread_id, "objective": "Count."})
    begun = client.note("turn/started")["turn"]["id"]
    client.result("turn/interrupt", {"threadId": thread_id, "turnId": begun})
    assert get(client, thread_id)["status"] == "paused"
    since = len(client.seen)
    client.result("thread/goal/set", {"threadId": thread_id, "status": "active"})
    client.note("turn/started", since=since)
    changed = client.result("thread/goal/set", {"threadId": thread_id, "tokenBudget": 50, "status": "paused"})["goal"]
    assert (changed["objective"], changed["tokenBudget"], changed["status"]) == ("Count.", 50, "paused")
    unlimited = client.result("thread/goal/set", {"threadId": thread_id, "tokenBudget": None})["goal"]
    assert unlimited["tokenBudget"] is None and unlimited["status"] == "paused"
    assert client.result("thread/goal/clear", {"threadId": thread_id}) == {"cleared": True}
    assert client.note("thread/goal/cleared") == {"threadId": thread_id}
    assert client.result("thread/goal/clear", {"threadId": thread_id}) == {"cleared": False}
    assert get(client, thread_id) is None


@pytest.mark.parametrize(
    ("params", "why"),
    [
        ({"objective": "  "}, "must not be empty"),
        ({"objective": "x" * 4001}, "at most 4,000"),
        ({"objective": "x", "tokenBudget": 0}, "must be positive"),
        ({"objective": "x", "tokenBudget": "many"}, "tokenBudget"),
        ({"objective": "x", "status": "odd"}, "status"),
        ({"status": "paused"}, "no goal"),
    ],
)
def test_a_goal_that_cannot_be_is_refused(client: Client, server: FakeServer, params: Any, why: str) -> None:
    thread_id = client.start_thread()
    error = client.error("thread/goal/set", {"threadId": thread_id, **params})
    assert why in error["message"] and error["code"] == -32600
    assert get(client, thread_id) is None and server.turns_asked == []


def test_an_unknown_thread_has_no_goal(client: Client, server: FakeServer) -> None:
    nobody = {"threadId": "00000000-0000-7000-8000-000000000000"}
    for method, more in (("set", {"objective": "x"}), ("clear", {}), ("get", {})):
        assert "00000000-0000-7000-8000-000000000000" in client.error(f"thread/goal/{method}", nobody | more)["message"]


def test_a_resumed_thread_tells_its_goal_and_goes_on(start: Start, server: FakeServer) -> None:
    first = start()
    first.initialize()
    thread_id = first.start_thread()
    server.script(turn(message("one"), delay_s=30))
    first.result("thread/goal/set", {"threadId": thread_id, "objective": "Count."})
    wait_for(lambda: server.turns_asked, "a request")
    first.close()
    second = start()
    second.initialize()
    assert get(second, thread_id)["status"] == "active"  # of a thread that is not loaded, too
    server.script(reports("complete"), turn(message("two")))
    second.result("thread/resume", {"threadId": thread_id})
    told = second.note("thread/goal/updated")
    assert (told["turnId"], told["goal"]["objective"], told["goal"]["status"]) == (None, "Count.", "active")
    updated(second, "complete")
    second.note("turn/completed")
    fork = second.result("thread/fork", {"threadId": thread_id})["thread"]["id"]
    assert get(second, fork) is None


def test_what_a_person_says_meanwhile_joins_the_turn_of_the_goal(
    client: Client, server: FakeServer, workspace: Path
) -> None:
    thread_id = client.start_thread()
    server.script(
        turn(call("exec_command", {"cmd": "while ! test -e go; do sleep 0.02; done"}, "c1")),
        reports("complete"),
        turn(message("two")),
    )
    client.result("thread/goal/set", {"threadId": thread_id, "objective": "Count."})
    begun = client.note("turn/started")["turn"]["id"]
    client.note("item/started", lambda params: params["item"]["type"] == "commandExecution")
    assert client.begin(thread_id, "in French") == begun
    (workspace / "go").touch()
    updated(client, "complete")
    client.note("turn/completed")
    assert "in French" in str(server.turns_asked[1].json["input"])


def test_the_conversation_goes_back_before_a_turn_of_the_goal(client: Client, server: FakeServer) -> None:
    thread_id = client.start_thread()
    server.script(turn(message("hello"), response_id="r1"), reports("complete"))
    server.script(turn(message("done"), response_id="r3"))
    client.turn(thread_id, "hi")
    client.result("thread/goal/set", {"threadId": thread_id, "objective": "Count."})
    done = updated(client, "complete")
    client.note("turn/completed", lambda params: params["turn"]["id"] == done["turnId"])
    left = client.result("thread/revert", {"threadId": thread_id, "beforeTurnId": done["turnId"]})
    assert len(left["thread"]["turns"]) == 1
    client.turn(thread_id, "again")
    assert "Count." not in str(server.turns_asked[-1].json["input"])


@pytest.mark.parametrize("method", ["set", "get", "clear"])
def test_where_goals_are_switched_off_a_client_is_told_so_in_the_words_it_knows(start: Start, method: str) -> None:
    client = start("--disable", "goals")
    client.initialize()
    params = {"threadId": client.start_thread(), **({"objective": "x"} if method == "set" else {})}
    assert client.error(f"thread/goal/{method}", params)["message"] == "goals feature is disabled"
