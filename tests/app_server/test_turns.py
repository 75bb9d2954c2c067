"""Turns through the installed command: what is told of them, in which order, and who answers."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from app_server.client import Client, items, methods
from app_server.conftest import Start
from fake_server import FakeServer, call, custom_call, message, reasoning, refuses, turn

ESCALATED = {"sandbox_permissions": "require_escalated", "justification": "need it"}
APPROVE = "item/commandExecution/requestApproval"
PATCH = "*** Begin Patch\n*** Add File: {}\n+x\n*** End Patch\n"


def test_a_turn_is_told_in_the_order_that_clients_expect(client: Client, server: FakeServer) -> None:
    usage = {"input": 50, "output": 5}
    server.script(turn(reasoning("think"), message("Hello there", deltas=2, phase="final_answer"), usage=usage))
    thread_id = client.start_thread()
    done, seen = client.turn(thread_id, "hi", clientUserMessageId="mine-1")
    told = [name for name in methods(seen) if "Delta" not in name and "delta" not in name and "Part" not in name]
    assert told == [
        "thread/status/changed",
        "turn/started",
        *["item/started", "item/completed"] * 3,
        "thread/tokenUsage/updated",
        "thread/status/changed",
        "turn/completed",
    ]
    assert "method" not in seen[0], "the answer to the request comes first"
    (said,) = items(seen, "userMessage")
    assert said["content"] == [{"type": "text", "text": "hi", "text_elements": []}]
    assert said["clientId"] == "mine-1" and said["startedAtMs"] <= said["completedAtMs"]
    (thought,) = items(seen, "reasoning")
    assert thought["summary"] == ["think"]
    (begun,) = items(seen, "agentMessage", "item/started")
    (answer,) = items(seen, "agentMessage")
    assert begun["text"] == "" and (answer["text"], answer["phase"]) == ("Hello there", "final_answer")
    deltas = [m["params"] for m in seen if m.get("method") == "item/agentMessage/delta"]
    assert "".join(delta["delta"] for delta in deltas) == "Hello there"
    assert {delta["itemId"] for delta in deltas} == {answer["id"]}
    assert done["status"] == "completed" and done["items"] == [answer] and done["itemsView"] == "summary"
    assert done["durationMs"] >= 0 and done["rootTurnId"] == done["id"]
    counted = client.note("thread/tokenUsage/updated")
    assert counted["turnId"] == done["id"] and counted["tokenUsage"]["last"]["inputTokens"] == 50
    assert all(isinstance(m["emittedAtMs"], int) for m in seen if "method" in m and "id" not in m)


def test_an_approved_command_runs_after_the_question(start: Start, server: FakeServer, tmp_path: Path) -> None:
    out = tmp_path / "approved"
    server.script(turn(call("exec_command", {"cmd": f"echo ok > {out}", **ESCALATED}, "c1")), turn(message("done")))
    client = start()
    client.initialize()
    client.answers[APPROVE] = lambda params: {"decision": "accept"}
    thread_id = client.start_thread(approvalPolicy="on-request", sandbox="workspace-write")
    done, seen = client.turn(thread_id, "go")
    assert out.read_text() == "ok\n" and done["status"] == "completed"
    (asked,) = [m for m in seen if m.get("method") == APPROVE]
    assert asked["id"] == 0
    question = asked["params"]
    assert (question["threadId"], question["turnId"], question["itemId"]) == (thread_id, done["id"], "c1")
    assert question["reason"] == "need it" and str(out) in question["command"]
    assert question["availableDecisions"][:2] == ["accept", "acceptForSession"]
    assert question["availableDecisions"][-2:] == ["decline", "cancel"]
    told = methods(seen)
    asked_at = told.index(APPROVE)
    assert told[asked_at - 2 : asked_at + 3] == [
        "thread/status/changed",
        "item/started",
        APPROVE,
        "serverRequest/resolved",
        "thread/status/changed",
    ]
    assert client.note("serverRequest/resolved") == {"threadId": thread_id, "requestId": 0}
    flags = [m["params"]["status"].get("activeFlags") for m in seen if m.get("method") == "thread/status/changed"]
    assert flags == [[], ["waitingOnApproval"], [], None]
    assert len(items(seen, "commandExecution", "item/started")) == 1
    (ran,) = items(seen, "commandExecution")
    assert (ran["status"], ran["exitCode"], ran["aggregatedOutput"]) == ("completed", 0, None)


@pytest.mark.parametrize(("decision", "status"), [("decline", "completed"), ("cancel", "interrupted")])
def test_a_declined_command_is_told_as_declined(
    start: Start, server: FakeServer, tmp_path: Path, decision: str, status: str
) -> None:
    out = tmp_path / "declined"
    server.script(turn(call("exec_command", {"cmd": f"echo ok > {out}", **ESCALATED}, "c1")), turn(message("well")))
    client = start()
    client.initialize()
    client.answers[APPROVE] = lambda params: {"decision": decision}
    done, seen = client.turn(client.start_thread(approvalPolicy="on-request", sandbox="workspace-write"), "go")
    assert not out.exists() and done["status"] == status
    (refused,) = items(seen, "commandExecution")
    assert refused["status"] == "declined" and refused["exitCode"] is None


def test_a_question_hides_nothing_from_the_person(start: Start, server: FakeServer) -> None:
    step = turn(call("exec_command", {"cmd": "echo a\n: \u202eb\x1b]0;x\x07\u200b", **ESCALATED}, "c1"))
    server.script(step, turn(message("well")))
    client = start()
    client.initialize()
    client.answers[APPROVE] = lambda params: {"decision": "decline"}
    _, seen = client.turn(client.start_thread(approvalPolicy="on-request", sandbox="workspace-write"), "go")
    (asked,) = [m for m in seen if m.get("method") == APPROVE]
    shown = "echo a\n: " + r"\u{202E}b\u{1B}]0;x\u{7}\u{200B}"
    assert asked["params"]["command"].endswith(f" -lc '{shown}'")


def test_an_answer_that_is_none_counts_as_no(start: Start, server: FakeServer, tmp_path: Path) -> None:
    out = tmp_path / "out"
    step = turn(call("exec_command", {"cmd": f"echo ok > {out}", **ESCALATED}, "c1"))
    server.script(step, turn(message("a")), step, turn(message("b")))
    client = start()
    client.initialize()
    thread_id = client.start_thread(approvalPolicy="on-request", sandbox="workspace-write")
    client.answers[APPROVE] = lambda params: {"decision": ["accept"], "verdict": "accept"}
    done, _ = client.turn(thread_id, "go")
    assert done["status"] == "completed" and not out.exists()
    del client.answers[APPROVE]
    since = len(client.seen)
    turn_id = client.begin(thread_id, "go")
    asked = client.wait(lambda m: m.get("method") == APPROVE, since)
    client.write({"id": asked["id"], "error": {"code": -32601, "message": "no such method"}})
    assert client.note("turn/completed", lambda p: p["turn"]["id"] == turn_id)["turn"]["status"] == "completed"
    assert not out.exists()


def test_who_stops_following_a_thread_declines_what_it_was_asked(
    start: Start, server: FakeServer, tmp_path: Path, home: Path
) -> None:
    out = tmp_path / "out"
    server.script(turn(call("exec_command", {"cmd": f"echo ok > {out}", **ESCALATED}, "c1")), turn(message("well")))
    client = start()
    client.initialize()
    thread_id = client.start_thread(approvalPolicy="on-request", sandbox="workspace-write")
    client.begin(thread_id, "go")
    client.wait(lambda m: m.get("method") == APPROVE)
    assert client.result("thread/unsubscribe", {"threadId": thread_id}) == {"status": "unsubscribed"}
    assert client.result("thread/unsubscribe", {"threadId": thread_id}) == {"status": "notSubscribed"}
    since = len(client.seen)
    resumed = client.result("thread/resume", {"threadId": thread_id})
    if resumed["thread"]["status"]["type"] != "idle":
        client.note("turn/completed", since=since)
    assert not out.exists()
    assert len(server.requests) == 2, "the model was told and went on"


def test_a_question_ends_with_its_turn(start: Start, server: FakeServer, tmp_path: Path) -> None:
    out = tmp_path / "out"
    server.script(turn(call("exec_command", {"cmd": f"echo ok > {out}", **ESCALATED}, "c1")), turn(message("fresh")))
    client = start()
    client.initialize()
    thread_id = client.start_thread(approvalPolicy="on-request", sandbox="workspace-write")
    turn_id = client.begin(thread_id, "go")
    asked = client.wait(lambda m: m.get("method") == APPROVE)
    client.result("turn/interrupt", {"threadId": thread_id, "turnId": turn_id})
    client.note("turn/completed")
    told = methods(client.seen)
    assert told.index("serverRequest/resolved") < told.index("turn/completed")
    client.write({"id": asked["id"], "result": {"decision": "accept"}})  # too late
    assert client.turn(thread_id, "again")[0]["status"] == "completed" and not out.exists()


def test_a_client_that_dies_while_it_is_asked_leaves_nothing_running(
    start: Start, server: FakeServer, tmp_path: Path, home: Path
) -> None:
    out = tmp_path / "out"
    server.script(turn(call("exec_command", {"cmd": f"echo ok > {out}", **ESCALATED}, "c1")))
    client = start()
    client.initialize()
    client.begin(client.start_thread(approvalPolicy="on-request", sandbox="workspace-write"), "go")
    client.wait(lambda m: m.get("method") == APPROVE)
    assert client.close() == 0
    assert not out.exists()
    (record,) = home.rglob("rollout-*.jsonl")
    assert '"turn_aborted"' in record.read_text()


def test_a_patch_outside_is_asked_about_and_shown(start: Start, server: FakeServer, workspace: Path) -> None:
    server.script(turn(custom_call("apply_patch", PATCH.format("p.txt"), "c1")), turn(message("done")))
    client = start()
    client.initialize()
    client.answers["item/fileChange/requestApproval"] = lambda params: {"decision": "accept"}
    done, seen = client.turn(client.start_thread(approvalPolicy="on-request", sandbox="read-only"), "go")
    assert (workspace / "p.txt").read_text() == "x\n" and done["status"] == "completed"
    (change,) = items(seen, "fileChange")
    assert change["status"] == "completed"
    assert change["changes"] == [{"path": str(workspace / "p.txt"), "kind": {"type": "add"}, "diff": "x\n"}]
    assert "+x" in client.note("turn/diff/updated")["diff"]


def test_a_command_is_described_and_its_output_comes_as_it_is_made(client: Client, server: FakeServer) -> None:
    server.script(turn(call("exec_command", {"cmd": "ls /nowhere-to-be-found"}, "c1")), turn(message("done")))
    _, seen = client.turn(client.start_thread(), "go")
    (begun,) = items(seen, "commandExecution", "item/started")
    assert begun["commandActions"] == [
        {"type": "listFiles", "command": "ls /nowhere-to-be-found", "path": "/nowhere-to-be-found"}
    ]
    assert begun["source"] == "unifiedExecStartup" and begun["status"] == "inProgress"
    (ran,) = items(seen, "commandExecution")
    assert ran["status"] == "failed" and ran["exitCode"] == 2 and ran["durationMs"] >= 0
    output = "".join(m["params"]["delta"] for m in seen if m.get("method") == "item/commandExecution/outputDelta")
    assert output == ran["aggregatedOutput"] and "nowhere-to-be-found" in output


def test_what_a_turn_did_is_there_when_the_thread_is_read_and_resumed(
    start: Start, server: FakeServer, workspace: Path
) -> None:
    server.script(
        turn(
            call("exec_command", {"cmd": "echo hello"}, "c1"),
            custom_call("apply_patch", PATCH.format("p.txt"), "c2"),
            call("update_plan", {"plan": [{"step": "one", "status": "completed"}]}, "c3"),
            call("exec_command", {"cmd": "ls p.txt > seen", "shell": "/bin/sh", "login": False}, "c4"),
            call("exec_command", {"cmd": "cat nowhere"}, "c5"),
        ),
        turn(message("done")),
    )
    client = start()
    client.initialize()
    thread_id = client.start_thread(approvalPolicy="never", sandbox="workspace-write")
    _, seen = client.turn(thread_id, "go")
    told = {item["id"]: item for item in items(seen, "commandExecution")}
    reads = [client.result("thread/read", {"threadId": thread_id, "includeTurns": True})]
    client.close()
    again = start()
    again.initialize()
    reads += [
        again.result("thread/read", {"threadId": thread_id, "includeTurns": True}),
        again.result("thread/resume", {"threadId": thread_id}),
    ]
    for (read,) in (one["thread"]["turns"] for one in reads):
        assert [item["type"] for item in read["items"]] == [
            "userMessage",
            "commandExecution",
            "fileChange",
            "commandExecution",
            "commandExecution",
            "agentMessage",
        ]
        _, greeting, patched, silent, failing, _ = read["items"]
        names = ("command", "cwd", "source", "status", "commandActions", "aggregatedOutput", "exitCode")
        for ran in (greeting, silent, failing):
            assert [ran[name] for name in names] == [told[ran["id"]][name] for name in names]
        assert greeting["aggregatedOutput"] == "hello\n" and greeting["cwd"] == str(workspace)
        assert silent["aggregatedOutput"] is None and failing["commandActions"][0]["type"] == "read"
        assert (patched["id"], patched["status"]) == ("c2", "completed")
        assert patched["changes"] == [{"path": str(workspace / "p.txt"), "kind": {"type": "add"}, "diff": "x\n"}]


def test_commands_are_read_as_they_ran_whatever_the_words_of_their_outputs(client: Client, server: FakeServer) -> None:
    """`shell` answers this model in JSON; and a folder that is not there is named, with all that its name says."""
    odd = "/x\nWall time: " + "9" * 330 + " seconds\nExit code: " + "9" * 30 + "\n"
    server.script(
        turn(
            call("shell", {"command": ["sh", "-c", "echo hello; exit 3"]}, "c1"),
            call("exec_command", {"cmd": "true", "workdir": odd}, "c2"),
        ),
        turn(message("done")),
    )
    thread_id = client.start_thread(approvalPolicy="never", sandbox="danger-full-access", model="unheard-of")
    _, seen = client.turn(thread_id, "go")
    told = {item["id"]: item for item in items(seen, "commandExecution")}
    (read,) = client.result("thread/read", {"threadId": thread_id, "includeTurns": True})["thread"]["turns"]
    ran = {item["id"]: item for item in read["items"] if item["type"] == "commandExecution"}
    for name in ("command", "cwd", "source", "status", "aggregatedOutput"):
        assert {key: item[name] for key, item in ran.items()} == {key: item[name] for key, item in told.items()}, name
    assert (ran["c1"]["aggregatedOutput"], ran["c1"]["exitCode"], ran["c2"]["exitCode"]) == ("hello\n", 3, None)


def test_what_an_input_mentions_is_there_when_the_thread_is_read(
    start: Start, server: FakeServer, workspace: Path
) -> None:
    client = start()
    client.initialize()
    thread_id = client.start_thread()
    mentions = [{"type": "skill", "name": "demo", "path": str(workspace / "SKILL.md")}]
    mentions += [{"type": "mention", "name": "a page", "path": "app://page"}]
    said = {"threadId": thread_id, "input": [*_text("look"), *mentions], "clientUserMessageId": "mine-2"}
    client.result("turn/start", said)
    client.note("turn/completed")
    (live,) = items(client.seen, "userMessage")
    assert live["content"][1:] == mentions
    reads = [client.result("thread/read", {"threadId": thread_id, "includeTurns": True})]
    client.close()
    again = start()
    again.initialize()
    reads.append(again.result("thread/resume", {"threadId": thread_id}))
    for read in reads:
        item = read["thread"]["turns"][0]["items"][0]
        assert (item["content"], item["clientId"]) == (live["content"], "mine-2")


def test_a_turn_may_have_a_tier_of_its_own_and_say_where_it_comes_from(
    start: Start, server: FakeServer, home: Path
) -> None:
    client = start()
    client.initialize()
    thread_id = client.start_thread(serviceTier="flex")
    where = {"turnTrigger": "automation", "parentTurnId": "p-1", "rootTurnId": "r-1"}
    content = {"threadId": thread_id, "input": _text("one")}
    begun = client.result("turn/start", {**content, "serviceTierForTurn": "default", **where})["turn"]
    done = client.note("turn/completed")["turn"]
    client.turn(thread_id, "two", serviceTierForTurn="priority")
    own, _ = client.turn(thread_id, "three")
    assert [asked.json.get("service_tier") for asked in server.turns_asked] == [None, "priority", "flex"]
    assert "thread/settings/updated" not in methods(client.seen)
    assert {begun["rootTurnId"], client.note("turn/started")["turn"]["rootTurnId"], done["rootTurnId"]} == {"r-1"}
    client.close()
    (record,) = home.rglob("rollout-*.jsonl")
    assert '"turn_attribution":{"turn_trigger":"automation","parent_turn_id":"p-1","root_turn_id":"r-1"}' in (
        record.read_text()
    )
    again = start()
    again.initialize()
    first, _, third = again.result("thread/resume", {"threadId": thread_id})["thread"]["turns"]
    assert (first["rootTurnId"], third["rootTurnId"]) == ("r-1", own["id"])


def test_a_command_that_runs_is_read_as_going_on(start: Start, server: FakeServer) -> None:
    server.script(turn(call("exec_command", {"cmd": "sleep 300", "yield_time_ms": 30000}, "c1")), turn(message("done")))
    client = start()
    client.initialize()
    thread_id = client.start_thread(approvalPolicy="never")
    client.result("turn/start", {"threadId": thread_id, "input": [{"type": "text", "text": "go"}]})
    client.note("item/started", lambda params: params["item"]["type"] == "commandExecution")
    (read,) = client.result("thread/read", {"threadId": thread_id, "includeTurns": True})["thread"]["turns"]
    assert [(item["type"], item.get("status")) for item in read["items"]][-1] == ("commandExecution", "inProgress")


def test_a_failed_turn_ends_with_its_error_and_the_next_one_works(client: Client, server: FakeServer) -> None:
    server.script(refuses(400, {"error": {"message": "field-xyz is wrong"}}), turn(message("better")))
    thread_id = client.start_thread()
    done, seen = client.turn(thread_id, "hi")
    assert done["status"] == "failed" and "field-xyz is wrong" in done["error"]["message"]
    assert done["error"]["codexErrorInfo"] == "badRequest"
    (error,) = [m["params"] for m in seen if m.get("method") == "error"]
    assert error["willRetry"] is False and error["error"] == done["error"]
    statuses = [m["params"]["status"]["type"] for m in seen if m.get("method") == "thread/status/changed"]
    assert statuses == ["active", "systemError"]
    read = client.result("thread/read", {"threadId": thread_id, "includeTurns": True})["thread"]
    assert read["status"] == {"type": "systemError"}
    assert [t["status"] for t in read["turns"]] == ["failed"] and read["turns"][0]["error"] == done["error"]
    assert client.turn(thread_id, "again")[0]["status"] == "completed"


def test_a_used_up_budget_fails_the_turn_and_says_which(client: Client, server: FakeServer) -> None:
    server.script(turn(call("exec_command", {"cmd": "echo hi"}, "c1")), turn(message("better")))
    thread_id = client.start_thread(config={"spindle.budget.max_requests": 1})
    done, _ = client.turn(thread_id, "hi")
    assert done["status"] == "failed" and done["error"]["codexErrorInfo"] == "other"
    assert done["error"]["message"].startswith("Budget reached: max_requests = 1 (1 used) in this turn.")
    assert done["error"]["budget"] == {"scope": "turn", "limit": "max_requests", "max": 1, "used": 1}
    assert client.turn(thread_id, "again")[0]["status"] == "completed"


def test_a_retry_is_told_as_an_error_that_passes(client: Client, server: FakeServer) -> None:
    server.script(turn(message("never", deltas=3), drop_after=1), turn(message("ok")))
    done, seen = client.turn(client.start_thread(), "hi")
    assert done["status"] == "completed"
    (error,) = [m["params"] for m in seen if m.get("method") == "error"]
    assert error["willRetry"] is True and error["error"]["message"].startswith("Reconnecting... 1/1")
    assert error["error"]["codexErrorInfo"] == {"responseStreamDisconnected": {"httpStatusCode": None}}


def test_input_joins_the_running_turn(client: Client, server: FakeServer, workspace: Path) -> None:
    os.mkfifo(workspace / "gate")
    server.script(turn(call("exec_command", {"cmd": "cat gate", "yield_time_ms": 30000}, "c1")), turn(message("done")))
    thread_id = client.start_thread(cwd=str(workspace))
    idle = client.error("turn/steer", {"threadId": thread_id, "expectedTurnId": "x", "input": _text("S")})
    assert idle["message"] == "no active turn to steer"
    turn_id = client.begin(thread_id, "P1")
    client.note("item/started", lambda params: params["item"]["type"] == "commandExecution")
    wrong = client.error("turn/steer", {"threadId": thread_id, "expectedTurnId": "x", "input": _text("S")})
    assert wrong["message"] == f"expected active turn id `x` but found `{turn_id}`"
    steered = {"threadId": thread_id, "expectedTurnId": turn_id, "input": _text("S1"), "clientUserMessageId": "m2"}
    assert client.result("turn/steer", steered) == {"turnId": turn_id}
    assert client.begin(thread_id, "S2") == turn_id, "turn/start feeds the running turn too"
    (workspace / "gate").write_text("open")
    client.note("turn/completed")
    said = items(client.seen, "userMessage")
    assert [(item["content"][0]["text"], item["clientId"]) for item in said] == [
        ("P1", None),
        ("S1", "m2"),
        ("S2", None),
    ]
    texts = [part["text"] for item in server.requests[1].json["input"][-2:] for part in item["content"]]
    assert texts == ["S1", "S2"]


def test_an_interrupt_is_answered_when_the_turn_has_stopped(client: Client, server: FakeServer) -> None:
    server.script(turn(hang_after=1), turn(message("fresh")))
    thread_id = client.start_thread()
    idle = client.error("turn/interrupt", {"threadId": thread_id, "turnId": "x"})
    assert idle["message"] == "no active turn to interrupt"
    turn_id = client.begin(thread_id, "P1")
    wrong = client.error("turn/interrupt", {"threadId": thread_id, "turnId": "x"})
    assert wrong["message"] == f"expected active turn id `x` but found `{turn_id}`"
    first = client.send("turn/interrupt", {"threadId": thread_id, "turnId": turn_id})
    second = client.send("turn/interrupt", {"threadId": thread_id, "turnId": turn_id})
    assert client.answer_to(first)["result"] == {}
    assert client.answer_to(second)["error"]["message"] == "no active turn to interrupt"
    done = client.note("turn/completed")["turn"]
    assert (done["status"], done["error"], done["itemsView"]) == ("interrupted", None, "notLoaded")
    assert client.turn(thread_id, "P2")[0]["status"] == "completed"


def test_a_thread_goes_on_with_another_provider_and_tells_so(client: Client, server: FakeServer, home: Path) -> None:
    table = f'name = "other"\nbase_url = "{server.base_url}"\nwire_api = "chat"\nenv_key = "FAKE_API_KEY"\n'
    with (home / "config.toml").open("a") as file:
        file.write(f"\n[model_providers.other]\n{table}")
    thread_id = client.start_thread()
    client.turn(thread_id, "P1")
    bad = {"threadId": thread_id, "input": _text("x"), "modelProvider": "nowhere"}
    assert "unknown model provider 'nowhere'" in client.error("turn/start", bad)["message"]
    assert "nowhere" in client.error("thread/resume", {"threadId": thread_id, "modelProvider": "nowhere"})["message"]
    client.turn(thread_id, "P2", modelProvider="other")
    assert client.result("thread/resume", {"threadId": thread_id})["modelProvider"] == "other"
    client.turn(thread_id, "P3")
    opened = client.result("thread/resume", {"threadId": thread_id, "modelProvider": "fake", "model": "gpt-5.2"})
    assert (opened["modelProvider"], opened["model"]) == ("fake", "gpt-5.2")
    client.turn(thread_id, "P4")
    paths = [request.path.rpartition("/v1")[2] for request in server.turns_asked]
    assert paths == ["/responses", "/chat/completions", "/chat/completions", "/responses"]
    assert server.turns_asked[-1].json["model"] == "gpt-5.2" and server.problems == []
    assert all(text in server.turns_asked[-1].body.decode() for text in ("P1", "P2", "P3", "P4"))


def test_settings_given_with_a_turn_stay_and_bad_ones_are_refused_at_once(
    client: Client, start: Start, server: FakeServer, workspace: Path
) -> None:
    folder = workspace / "below"
    folder.mkdir()
    thread_id = client.start_thread()
    bad = {"threadId": thread_id, "input": _text("x"), "cwd": str(workspace / "missing")}
    assert "is not a folder" in client.error("turn/start", bad)["message"]
    assert client.error("turn/start", {"threadId": thread_id, "input": []})["code"] == -32602
    sandbox = {"type": "workspaceWrite", "writableRoots": [str(workspace)], "networkAccess": True}
    client.turn(thread_id, "P1", cwd=str(folder), sandboxPolicy=sandbox, effort="low", approvalPolicy="untrusted")
    assert server.requests[0].json["reasoning"]["effort"] == "low"
    client.turn(thread_id, "P2")
    assert client.close() == 0
    other = start()
    other.initialize()
    resumed = other.result("thread/resume", {"threadId": thread_id})
    assert resumed["cwd"] == str(folder) and resumed["reasoningEffort"] == "low"
    assert resumed["approvalPolicy"] == "untrusted"
    assert resumed["sandbox"] == {"excludeTmpdirEnvVar": False, "excludeSlashTmp": False, **sandbox}


def test_two_threads_work_at_the_same_time(client: Client, server: FakeServer) -> None:
    server.script(turn(hang_after=1), turn(message("quick")))
    slow, quick = client.start_thread(), client.start_thread()
    turn_id = client.begin(slow, "wait")
    _until_asked(server)
    done, seen = client.turn(quick, "go")
    assert done["status"] == "completed"
    (ended,) = [m["params"] for m in seen if m.get("method") == "turn/completed"]
    assert ended["threadId"] == quick
    assert sorted(client.result("thread/loaded/list", {})["data"]) == sorted((slow, quick))
    client.result("turn/interrupt", {"threadId": slow, "turnId": turn_id})


def test_a_compaction_is_a_turn_with_an_item_of_its_own(client: Client, server: FakeServer) -> None:
    server.script(turn(message("one")), turn(message("SUMMARY")), turn(message("two")))
    thread_id = client.start_thread()
    client.turn(thread_id, "hi")
    since = len(client.seen)
    assert client.result("thread/compact/start", {"threadId": thread_id}) == {}
    done = client.note("turn/completed", since=since)["turn"]
    assert done["status"] == "completed"
    (compacted,) = items(client.seen[since:], "contextCompaction")
    assert compacted["startedAtMs"] <= compacted["completedAtMs"]
    assert client.note("thread/compacted") == {"threadId": thread_id, "turnId": done["id"]}


def _text(text: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text}]


def _until_asked(server: FakeServer) -> None:
    end = time.monotonic() + 20
    while not server.requests:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_picture_without_words_is_read_as_it_was_sent(client: Client) -> None:
    thread_id = client.start_thread()
    picture = {"type": "image", "url": "data:image/png;base64,iVBORw0KGgo="}
    since = len(client.seen)
    client.result("turn/start", {"threadId": thread_id, "input": [picture]})
    told = client.note("item/completed", lambda params: params["item"]["type"] == "userMessage")["item"]
    client.note("turn/completed", since=since)
    (read,) = client.result("thread/read", {"threadId": thread_id, "includeTurns": True})["thread"]["turns"]
    assert read["items"][0]["content"] == told["content"] and told["content"][0]["url"] == picture["url"]
