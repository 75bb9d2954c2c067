"""Places within a thread, its background commands, its repository, and the settings of its running turn."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app_server.client import Client
from app_server.conftest import Start
from fake_server import FakeServer, call, message, turn


@pytest.fixture
def client(start: Start) -> Client:
    running = start()
    running.initialize(experimentalApi=True)
    return running


def test_every_place_where_something_was_said_is_found(client: Client, server: FakeServer) -> None:
    server.script(turn(message("🙂 Needle, and needle again")), turn(message("nothing")))
    thread_id = client.start_thread()
    client.turn(thread_id, "find the needle " + "x" * 300)
    client.turn(thread_id, "other")
    found = client.result("thread/searchOccurrences", {"threadId": thread_id, "searchTerm": "NEEDLE"})
    first, second, third = found["data"]
    assert first["snippet"].startswith("find the needle xxx") and len(first["snippet"]) < 200
    assert (second["snippetMatchRange"], third["snippetMatchRange"]) == (
        {"start": 3, "end": 9},
        {"start": 15, "end": 21},
    ), "the smiling face counts two"
    assert first["turnId"] == second["turnId"] and first["itemId"] != second["itemId"] == third["itemId"]
    turns = client.result("thread/turns/list", {"threadId": thread_id, "cursor": first["turnCursor"], "limit": 1})
    assert turns["data"][0]["id"] == first["turnId"]
    part = client.result("thread/searchOccurrences", {"threadId": thread_id, "searchTerm": "needle", "limit": 2})
    rest = {"threadId": thread_id, "searchTerm": "needle", "cursor": part["nextCursor"]}
    assert client.result("thread/searchOccurrences", rest)["data"] == [third]
    empty = client.error("thread/searchOccurrences", {"threadId": thread_id, "searchTerm": " "})
    assert empty["message"] == "thread/searchOccurrences requires a non-empty searchTerm"


def test_items_of_a_turn_are_read_by_their_ids(client: Client) -> None:
    thread_id = client.start_thread()
    client.turn(thread_id, "hello")
    listed = client.result("thread/items/list", {"threadId": thread_id})["data"]
    turn_id, ids = listed[0]["turnId"], [entry["item"]["id"] for entry in listed]
    asked = {"threadId": thread_id, "turnId": turn_id, "itemIds": [*reversed(ids), "none"]}
    assert client.result("thread/items/read", asked)["data"] == listed
    assert client.result("thread/items/read", {**asked, "turnId": "none"}) == {"data": []}
    assert client.error("thread/items/read", {**asked, "itemIds": []})["message"] == "itemIds must contain 1 to 100 IDs"


def test_commands_in_the_background_are_listed_and_ended(client: Client, server: FakeServer, workspace: Path) -> None:
    server.script(
        turn(call("exec_command", {"cmd": "exec sleep 600", "yield_time_ms": 300}, "c1")),
        turn(call("exec_command", {"cmd": "exec sleep 601", "yield_time_ms": 300}, "c2")),
        turn(message("both run")),
    )
    thread_id = client.start_thread(cwd=str(workspace))
    client.turn(thread_id, "go")
    here = {"threadId": thread_id}
    one, two = client.result("thread/backgroundTerminals/list", here)["data"]
    assert (one["itemId"], two["itemId"], one["cwd"]) == ("c1", "c2", str(workspace))
    assert "sleep 600" in one["command"] and os.path.exists(f"/proc/{one['osPid']}") and one["rssKb"] > 0
    ended = client.result("thread/backgroundTerminals/terminate", {**here, "processId": one["processId"]})
    assert ended == {"terminated": True} and not os.path.exists(f"/proc/{one['osPid']}")
    again = client.result("thread/backgroundTerminals/terminate", {**here, "processId": one["processId"]})
    assert again == {"terminated": False}
    bad = client.error("thread/backgroundTerminals/terminate", {**here, "processId": "x"})
    assert bad["message"].startswith("invalid background terminal process id")
    assert client.result("thread/backgroundTerminals/clean", here) == {}
    assert client.result("thread/backgroundTerminals/list", here) == {"data": [], "nextCursor": None}
    assert not os.path.exists(f"/proc/{two['osPid']}")


def test_a_client_may_know_better_which_branch_a_thread_is_about(client: Client, start: Start) -> None:
    thread_id = client.start_thread()
    client.turn(thread_id, "hello")
    known = client.result("thread/read", {"threadId": thread_id})["thread"]["gitInfo"]
    here = {"threadId": thread_id}
    changed = client.result("thread/metadata/update", {**here, "gitInfo": {"branch": "b1", "sha": None}})["thread"]
    assert changed["gitInfo"] == {"sha": None, "branch": "b1", "originUrl": (known or {}).get("originUrl")}
    client.result("thread/metadata/update", {**here, "gitInfo": {"sha": "abc"}})
    other = start()
    other.initialize()
    for shown in (
        other.result("thread/read", here)["thread"],
        other.result("thread/list")["data"][0],
        client.result("thread/resume", here)["thread"],
    ):
        assert (shown["gitInfo"]["branch"], shown["gitInfo"]["sha"]) == ("b1", "abc")
    for params, says in (
        ({}, "thread metadata update must include at least one field"),
        ({"gitInfo": {}}, "gitInfo must include at least one field"),
        ({"gitInfo": {"branch": " "}}, "gitInfo.branch must not be empty"),
        ({"projectId": "p"}, "Spindle has no projects"),
    ):
        assert says in client.error("thread/metadata/update", {**here, **params})["message"]
    hidden = client.start_thread(ephemeral=True)
    refused = client.error("thread/metadata/update", {"threadId": hidden, "gitInfo": {"branch": "x"}})
    assert "not recorded" in refused["message"]


def test_settings_of_a_running_turn_change_with_its_next_request(
    client: Client, server: FakeServer, workspace: Path
) -> None:
    os.mkfifo(workspace / "gate")
    waiting = call("exec_command", {"cmd": "cat gate", "yield_time_ms": 30000}, "c1")
    server.script(turn(waiting), turn(message("done")), turn(message("later")))
    thread_id = client.start_thread(cwd=str(workspace), model="gpt-5.2-codex")
    turn_id = client.begin(thread_id, "go", effort="low")
    client.note("item/started", lambda params: params["item"]["type"] == "commandExecution")
    here = {"threadId": thread_id, "turnId": turn_id}
    assert client.result("turn/settings/update", {**here, "turnId": "other"}) == {"status": "targetUnavailable"}
    changed = client.result("turn/settings/update", {**here, "effort": "high", "model": "gpt-5.2"})
    assert changed == {"status": "applied"}
    refused = client.error("turn/settings/update", {**here, "sandboxPolicy": {"type": "dangerFullAccess"}})
    assert "sandboxPolicy" in refused["message"]
    (workspace / "gate").write_text("open")
    client.note("turn/completed")
    client.turn(thread_id, "again")
    sent = [(asked.json["model"], asked.json["reasoning"]["effort"]) for asked in server.turns_asked]
    assert sent == [("gpt-5.2-codex", "low"), ("gpt-5.2", "high"), ("gpt-5.2-codex", "low")]
    assert client.result("turn/settings/update", here) == {"status": "targetUnavailable"}
    first, second = (asked.json["input"] for asked in server.turns_asked[:2])
    assert second[: len(first)] == first
