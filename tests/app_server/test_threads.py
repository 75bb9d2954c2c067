"""Recorded threads: opened, listed, read page by page, named, cut back, archived and deleted."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from app_server.client import Client, methods
from app_server.conftest import Start
from fake_server import FakeServer, message, turn


def test_a_new_thread_is_described_in_full(client: Client, workspace: Path, home: Path) -> None:
    (workspace / "AGENTS.md").write_text("be nice\n")
    opened = client.result("thread/start", {"approvalPolicy": "on-request", "sandbox": "workspace-write"})
    thread = opened.pop("thread")
    assert opened == {
        "model": "gpt-5.2-codex",
        "modelProvider": "fake",
        "serviceTier": None,
        "disabledPluginIds": [],
        "cwd": str(workspace),
        "runtimeWorkspaceRoots": [str(workspace)],
        "instructionSources": [str(workspace / "AGENTS.md")],
        "approvalPolicy": "on-request",
        "approvalsReviewer": "user",
        "sandbox": {
            "type": "workspaceWrite",
            "writableRoots": [],
            "networkAccess": False,
            "excludeTmpdirEnvVar": False,
            "excludeSlashTmp": False,
        },
        "activePermissionProfile": None,
        "reasoningEffort": None,
        "multiAgentMode": "explicitRequestOnly",
    }
    here = {"environmentId": "local", "cwd": str(workspace), "runtimeWorkspaceRoots": [str(workspace)]}
    assert thread["environments"] == [here] and thread["canAcceptDirectInput"] is True
    assert thread["status"] == {"type": "idle"} and thread["turns"] == [] and thread["preview"] == ""
    assert thread["id"] == thread["sessionId"] and thread["path"].endswith(f"{thread['id']}.jsonl")
    assert (thread["originator"], thread["source"], thread["ephemeral"]) == ("tester", "vscode", False)
    assert abs(thread["createdAt"] - thread["updatedAt"]) <= 1
    assert client.note("thread/started")["thread"] == thread
    assert "result" in client.seen[-2], "the news comes after the answer"


def test_what_the_client_says_goes_to_the_model_and_who_it_is_too(client: Client, server: FakeServer) -> None:
    thread_id = client.start_thread(
        model="gpt-5.1", baseInstructions="BASE", developerInstructions="DEV", config={"model_reasoning_effort": "high"}
    )
    client.turn(thread_id, "hi")
    request = server.requests[0]
    assert request.json["model"] == "gpt-5.1" and request.json["instructions"] == "BASE"
    assert request.json["reasoning"]["effort"] == "high" and "DEV" in request.body.decode()
    assert request.headers["originator"] == "tester"


def test_a_thread_goes_on_in_another_server(client: Client, start: Start, server: FakeServer) -> None:
    server.script(turn(message("first")), turn(message("second")))
    thread_id = client.start_thread()
    done, _ = client.turn(thread_id, "P1")
    client.close()
    other = start()
    other.initialize()
    asleep = other.result("thread/read", {"threadId": thread_id})["thread"]
    assert asleep["environments"] is None and asleep["canAcceptDirectInput"] is None
    opened = other.result("thread/resume", {"threadId": thread_id})
    (old,) = opened["thread"]["turns"]
    assert (old["id"], old["status"], old["itemsView"]) == (done["id"], "completed", "full")
    assert [item["type"] for item in old["items"]] == ["userMessage", "agentMessage"]
    assert opened["thread"]["preview"] == "P1" and opened["thread"]["name"] is None
    assert (opened["turnsBackwardsCursor"], opened["itemsBackwardsCursor"]) == (
        f"={old['id']}",
        f"={old['items'][-1]['id']}",
    )
    assert opened["collaborationMode"]["mode"] == "default" and opened["initialTurnsPage"] is None
    brief = other.result(
        "thread/resume",
        {
            "threadId": thread_id,
            "excludeTurns": True,
            "initialTurnsPage": {"limit": 1, "itemsView": "full", "sortDirection": None},
        },
    )
    assert brief["thread"]["turns"] == [] and brief["initialTurnsPage"]["data"] == [old]
    other.turn(thread_id, "P2")
    first, second = server.requests[0].json["input"], server.requests[1].json["input"]
    assert second[: len(first)] == first


def test_a_fork_is_a_thread_of_its_own_with_the_turns_it_keeps(client: Client, server: FakeServer) -> None:
    thread_id = client.start_thread()
    first, _ = client.turn(thread_id, "P1")
    client.turn(thread_id, "P2")
    fork = client.result("thread/fork", {"threadId": thread_id, "lastTurnId": first["id"]})["thread"]
    assert fork["id"] != thread_id and fork["forkedFromId"] == thread_id
    assert [old["items"][0]["content"][0]["text"] for old in fork["turns"]] == ["P1"]
    started = client.note("thread/started", lambda params: params["thread"]["id"] == fork["id"])
    assert started["thread"]["turns"] == []
    assert "has no turn" in client.error("thread/fork", {"threadId": thread_id, "lastTurnId": "nope"})["message"]
    client.turn(fork["id"], "PF")
    sent = server.requests[-1].body.decode()
    assert "PF" in sent and "P1" in sent and "P2" not in sent


def test_an_ephemeral_fork_knows_the_thread_and_leaves_no_record(
    client: Client, server: FakeServer, home: Path
) -> None:
    thread_id = client.start_thread()
    client.turn(thread_id, "P1")
    fork = client.result("thread/fork", {"threadId": thread_id, "ephemeral": True})["thread"]
    assert (fork["ephemeral"], fork["path"], fork["forkedFromId"]) == (True, None, thread_id)
    assert fork["id"] != thread_id and len(fork["turns"]) == 1
    client.turn(fork["id"], "PF")
    sent = server.requests[-1].body.decode()
    assert "P1" in sent and "PF" in sent
    (record,) = home.rglob("rollout-*.jsonl")
    assert thread_id in record.name and "PF" not in record.read_text()
    assert client.result("thread/list", {"sectionId": "mine"})["data"] == [], "there are no sections"


def test_threads_are_listed_page_by_page_and_by_what_they_are(client: Client, workspace: Path) -> None:
    threads = []
    for text in ("alpha words", "beta words", "gamma words"):
        threads.append(client.start_thread())
        client.turn(threads[-1], text)
    page = client.result("thread/list", {"limit": 2})
    assert [row["id"] for row in page["data"]] == threads[:0:-1]
    assert {row["status"]["type"] for row in page["data"]} == {"idle"}
    rest = client.result("thread/list", {"limit": 2, "cursor": page["nextCursor"]})
    assert [row["id"] for row in rest["data"]] == threads[:1] and rest["nextCursor"] is None
    assert [row["preview"] for row in client.result("thread/list", {"searchTerm": "beta"})["data"]] == ["beta words"]
    assert client.result("thread/list", {"sourceKinds": ["exec"]})["data"] == []
    assert client.result("thread/list", {"cwd": [str(workspace / "x")]})["data"] == []
    assert len(client.result("thread/list", {"cwd": [str(workspace), "/x"], "sortDirection": "asc"})["data"]) == 3
    assert client.error("thread/list", {"limit": 0})["code"] == -32602


def test_threads_of_other_programs_are_listed_when_asked_for(
    client: Client, spindle_cmd: list[str], environment: dict[str, str], workspace: Path
) -> None:
    subprocess.run([*spindle_cmd, "exec", "by exec"], cwd=workspace, env=environment, capture_output=True, check=True)
    assert client.result("thread/list", {})["data"] == []
    (found,) = client.result("thread/list", {"sourceKinds": ["exec"]})["data"]
    assert (found["preview"], found["source"], found["status"]) == ("by exec", "exec", {"type": "notLoaded"})


def test_requests_about_one_thread_are_done_in_order(client: Client, start: Start) -> None:
    thread_id = client.start_thread()
    client.turn(thread_id, "P1")
    client.close()
    other = start()
    other.initialize()
    resumed = other.send("thread/resume", {"threadId": thread_id})
    content = [{"type": "text", "text": "P2"}]
    started = other.send("turn/start", {"threadId": thread_id, "input": content})
    assert "result" in other.answer_to(resumed) and "result" in other.answer_to(started)
    assert other.note("turn/completed")["turn"]["status"] == "completed"


def test_turns_and_items_are_read_page_by_page(client: Client, server: FakeServer) -> None:
    server.script(turn(message("A1")), turn(message("A2")), turn(message("A3")))
    thread_id = client.start_thread()
    ids = [client.turn(thread_id, text)[0]["id"] for text in ("Q1", "Q2", "Q3")]
    page = client.result("thread/turns/list", {"threadId": thread_id, "limit": 2})
    assert [old["id"] for old in page["data"]] == [ids[2], ids[1]] and page["data"][0]["itemsView"] == "summary"
    rest = client.result("thread/turns/list", {"threadId": thread_id, "cursor": page["nextCursor"]})
    assert [old["id"] for old in rest["data"]] == [ids[0]] and rest["nextCursor"] is None
    back = {"threadId": thread_id, "cursor": rest["backwardsCursor"], "sortDirection": "asc", "itemsView": "notLoaded"}
    again = client.result("thread/turns/list", back)["data"]
    assert [old["id"] for old in again] == ids and all(old["items"] == [] for old in again)
    assert client.error("thread/turns/list", {"threadId": thread_id, "cursor": "=nope"})["code"] == -32602
    entries = client.result("thread/items/list", {"threadId": thread_id, "turnId": ids[1]})["data"]
    assert [(entry["turnId"], entry["item"]["type"]) for entry in entries] == [
        (ids[1], "userMessage"),
        (ids[1], "agentMessage"),
    ]


def test_a_thread_can_be_cut_back(client: Client, server: FakeServer) -> None:
    thread_id = client.start_thread()
    for text in ("P1", "P2"):
        client.turn(thread_id, text)
    left = client.result("thread/rollback", {"threadId": thread_id, "numTurns": 1})["thread"]["turns"]
    assert [old["items"][0]["content"][0]["text"] for old in left] == ["P1"]
    client.turn(thread_id, "P3")
    assert "P2" not in server.requests[-1].body.decode()
    assert client.error("thread/rollback", {"threadId": thread_id, "numTurns": 0})["code"] == -32602


def test_names_archives_and_the_end_of_a_thread(client: Client) -> None:
    thread_id = client.start_thread()
    client.turn(thread_id, "words")
    assert client.result("thread/name/set", {"threadId": thread_id, "name": " My thread "}) == {}
    assert client.note("thread/name/updated") == {"threadId": thread_id, "threadName": "My thread"}
    assert client.result("thread/read", {"threadId": thread_id})["thread"]["name"] == "My thread"
    assert client.result("thread/archive", {"threadId": thread_id}) == {}
    assert methods(client.seen)[-3:] == ["thread/status/changed", "thread/closed", "thread/archived"]
    assert client.error("thread/archive", {"threadId": thread_id})["message"].startswith("no rollout found")
    assert client.result("thread/list", {})["data"] == []
    assert [row["id"] for row in client.result("thread/list", {"archived": True})["data"]] == [thread_id]
    back = client.result("thread/unarchive", {"threadId": thread_id})["thread"]
    assert back["status"] == {"type": "notLoaded"} and back["preview"] == "words"
    assert client.note("thread/unarchived") == {"threadId": thread_id}
    assert client.error("thread/unarchive", {"threadId": thread_id})["message"] == (
        f"no archived rollout found for thread id {thread_id}"
    )
    assert client.result("thread/unsubscribe", {"threadId": thread_id}) == {"status": "notLoaded"}
    assert client.result("thread/delete", {"threadId": thread_id}) == {}
    assert client.note("thread/deleted") == {"threadId": thread_id}
    assert client.error("thread/read", {"threadId": thread_id})["message"].startswith("no rollout found")


@pytest.mark.parametrize(("method", "note"), [("archive", "archived"), ("delete", "deleted")])
def test_a_thread_in_which_nothing_was_said_can_be_put_away(client: Client, method: str, note: str) -> None:
    thread_id = client.start_thread()
    assert client.result(f"thread/{method}", {"threadId": thread_id}) == {}
    assert client.note(f"thread/{note}") == {"threadId": thread_id}
    assert client.result("thread/loaded/list", {})["data"] == []
    assert "no rollout found" in client.error(f"thread/{method}", {"threadId": thread_id})["message"]
    kept = client.start_thread(ephemeral=True)
    assert "no rollout found" in client.error(f"thread/{method}", {"threadId": kept})["message"]
    assert client.result("thread/loaded/list", {})["data"] == [kept]


def test_who_resumes_or_forks_a_thread_is_told_what_it_has_used(start: Start) -> None:
    client = start()
    client.initialize()
    thread_id = client.start_thread()
    client.result("thread/resume", {"threadId": thread_id})  # nothing was used yet
    turn_id = client.turn(thread_id, "words")[0]["id"]
    told = client.note("thread/tokenUsage/updated")
    client.result("thread/goal/set", {"threadId": thread_id, "objective": "the aim", "status": "paused"})
    client.close()
    again = start()
    again.initialize()
    for _ in ("not loaded", "loaded"):
        since = len(again.seen)
        again.result("thread/resume", {"threadId": thread_id, "excludeTurns": True})
        assert again.note("thread/tokenUsage/updated", since=since) == told
        goal = again.note("thread/goal/updated", since=since)
        assert (goal["threadId"], goal["goal"]["objective"]) == (thread_id, "the aim")
    since = len(again.seen)
    fork_id = again.result("thread/fork", {"threadId": thread_id})["thread"]["id"]
    assert again.note("thread/tokenUsage/updated", since=since) == {**told, "threadId": fork_id}
    assert told["turnId"] == turn_id and told["tokenUsage"]["total"]["totalTokens"] > 0
    again.note("thread/started", since=since)
    assert methods(again.seen).count("thread/tokenUsage/updated") == 3
    assert methods(again.seen).count("thread/goal/updated") == 2


def test_a_page_is_as_long_as_a_server_gives_at_most(client: Client) -> None:
    thread_id = client.start_thread()
    client.turn(thread_id, "one")
    client.turn(thread_id, "two")
    assert len(client.result("thread/turns/list", {"threadId": thread_id, "limit": 100_000})["data"]) == 2
    assert len(client.result("thread/list", {"limit": 100_000})["data"]) == 1
    assert client.error("thread/turns/list", {"threadId": thread_id, "limit": -1})["code"] == -32602
    assert client.error("thread/list", {"limit": -1})["code"] == -32602


def test_an_ephemeral_thread_leaves_no_file(client: Client, home: Path) -> None:
    opened = client.result("thread/start", {"ephemeral": True})["thread"]
    assert opened["ephemeral"] is True and opened["path"] is None
    client.turn(opened["id"], "words")
    assert not list(home.rglob("rollout-*"))


def test_models_skills_and_features_can_be_asked_for(client: Client, workspace: Path) -> None:
    skill = workspace / ".agents" / "skills" / "alpha" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: alpha\ndescription: D\n---\nbody\n")
    rows = client.result("model/list", {"limit": 1})
    assert rows["nextCursor"] and rows["data"][0]["supportedReasoningEfforts"][0].keys() == {
        "reasoningEffort",
        "description",
    }
    everything = client.result("model/list", {"includeHidden": True})["data"]
    assert [row["id"] for row in everything if row["isDefault"]] == ["gpt-5.2-codex"]
    (entry,) = client.result("skills/list", {"cwds": [str(workspace)]})["data"]
    assert [(s["name"], s["path"], s["scope"], s["enabled"]) for s in entry["skills"] if s["scope"] == "repo"] == [
        ("alpha", str(skill), "repo", True)
    ]
    features = client.result("experimentalFeature/list", {})["data"]
    assert {"name", "stage", "enabled", "defaultEnabled"} <= features[0].keys()


def test_a_thread_is_reverted_to_the_state_before_a_turn(client: Client, server: FakeServer) -> None:
    thread_id = client.start_thread()
    first, second, third = (client.turn(thread_id, text)[0]["id"] for text in ("P1", "P2", "P3"))
    since = len(client.seen)
    left = client.result("thread/revert", {"threadId": thread_id, "beforeTurnId": second})
    assert [turn["id"] for turn in left["thread"]["turns"]] == [first]
    assert client.note("thread/reverted", since=since) == {"threadId": thread_id}
    params = {"threadId": thread_id, "cursor": left["turnsBackwardsCursor"], "sortDirection": "desc"}
    assert [turn["id"] for turn in client.result("thread/turns/list", params)["data"]] == [first]
    params["cursor"] = left["itemsBackwardsCursor"]
    listed = client.result("thread/items/list", params)["data"]
    assert [entry["item"]["type"] for entry in listed] == ["agentMessage", "userMessage"]
    for gone in (third, "nope"):
        given = {"threadId": thread_id, "beforeTurnId": gone}
        assert f"has no turn {gone}" in client.error("thread/revert", given)["message"]
    client.turn(thread_id, "P4")
    sent = server.requests[-1].body.decode()
    assert "P1" in sent and "P4" in sent and "P2" not in sent and "P3" not in sent
    emptied = client.result("thread/revert", {"threadId": thread_id, "beforeTurnId": first})
    assert (emptied["thread"]["turns"], emptied["turnsBackwardsCursor"]) == ([], None)


def test_what_spindle_has_not_is_refused_in_a_sentence(client: Client) -> None:
    refused = (
        *("app/list", "plugin/install", "marketplace/add", "thread/realtime/start", "remoteControl/enable"),
        *("feedback/upload", "account/gatewayOAuth/login", "account/bedrock/setup", "account/gcp/setup"),
        *("accountSession/list", "userVerification/status", "windowsSandbox/readiness"),
        *("account/rateLimitResetCredit/consume", "account/workspaceMessages/read"),
    )
    for method in refused:
        error = client.error(method, {})
        assert error["code"] == -32600 and error["message"].startswith(f"{method} is not supported: Spindle ")
    error = client.error("no/such/method", {})
    assert error["code"] == -32600 and "unknown variant `no/such/method`" in error["message"]


def test_threads_are_searched_for_what_was_said(start: Start, server: FakeServer) -> None:
    server.script(turn(message("a blue elephant")), turn(message("nothing")))
    client = start()
    client.initialize(experimentalApi=True)
    wanted, other = client.start_thread(), client.start_thread()
    for thread_id in (wanted, other):
        client.turn(thread_id, "some prompt")
    (found,) = client.result("thread/search", {"searchTerm": "BLUE elephant"})["data"]
    assert (found["thread"]["id"], found["snippet"]) == (wanted, "a blue elephant")
    page = client.result("thread/search", {"searchTerm": "prompt", "limit": 1})
    rest = client.result("thread/search", {"searchTerm": "prompt", "limit": 1, "cursor": page["nextCursor"]})
    assert [entry["thread"]["id"] for entry in page["data"] + rest["data"]] == [other, wanted]
    assert client.error("thread/search", {"searchTerm": " "})["code"] == -32602


def test_searching_is_experimental(client: Client) -> None:
    assert "experimentalApi" in client.error("thread/search", {"searchTerm": "x"})["message"]
