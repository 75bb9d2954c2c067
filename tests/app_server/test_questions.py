"""What a client is asked beside leave for commands and patches: answers of a person, its own tools, tool servers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app_server.client import Client, items, methods
from app_server.conftest import Start
from fake_server import FakeServer, call, message, turn
from mcp_servers.kit import servers, stub

PLAN = {"mode": "plan", "settings": {"model": "gpt-5.2-codex"}}
QUESTION = {"id": "db", "header": "Database", "question": "Which?", "options": [{"label": "A", "description": "a"}]}
TOOL = {"name": "lookup", "description": "looks", "inputSchema": {"type": "object", "properties": {}}}


@pytest.fixture
def client(start: Start) -> Client:
    """A server that knows us, with everything it has to offer."""
    running = start()
    running.initialize(experimentalApi=True)
    return running


def output_of(server: FakeServer, call_id: str) -> str:
    said = [i for i in server.requests[-1].json["input"] if i.get("call_id") == call_id and "output" in i]
    return said[-1]["output"]


def test_the_model_can_ask_a_person(client: Client, server: FakeServer) -> None:
    server.script(turn(call("request_user_input", {"questions": [QUESTION]}, "c1")), turn(message("thanks")))
    client.answers["item/tool/requestUserInput"] = lambda params: {"answers": {"db": {"answers": ["A"]}}}
    thread_id = client.start_thread()
    done, seen = client.turn(thread_id, "go", collaborationMode=PLAN)
    assert done["status"] == "completed" and '["A"]' in output_of(server, "c1")
    (asked,) = [m for m in seen if m.get("method") == "item/tool/requestUserInput"]
    assert asked["params"] == {
        "threadId": thread_id,
        "turnId": done["id"],
        "itemId": "c1",
        "questions": [{**QUESTION, "isOther": True, "isSecret": False}],
        "isBlocking": True,
        "autoResolutionMs": None,
    }
    flags = [m["params"]["status"].get("activeFlags") for m in seen if m.get("method") == "thread/status/changed"]
    assert flags == [[], ["waitingOnUserInput"], [], None]
    assert "serverRequest/resolved" in methods(seen)


def test_a_plan_streams_as_an_item_of_its_own(client: Client, server: FakeServer) -> None:
    server.script(turn(message("Intro\n<proposed_plan>\n- one\n- two\n</proposed_plan>\nOutro", deltas=9)))
    thread_id = client.start_thread()
    _, seen = client.turn(thread_id, "go", collaborationMode=PLAN)
    (plan,) = items(seen, "plan")
    assert plan["text"] == "- one\n- two\n"
    deltas = [m["params"] for m in seen if m.get("method") == "item/plan/delta"]
    assert "".join(delta["delta"] for delta in deltas) == plan["text"] and deltas[0]["itemId"] == plan["id"]
    assert [item["text"] for item in items(seen, "agentMessage")] == ["Intro\nOutro"]
    (read,) = client.result("thread/read", {"threadId": thread_id, "includeTurns": True})["thread"]["turns"]
    assert [item["type"] for item in read["items"]] == ["userMessage", "plan", "agentMessage"]
    modes = client.result("collaborationMode/list", {})["data"]
    assert [(mode["name"], mode["mode"]) for mode in modes] == [("Plan", "plan"), ("Default", "default")]


def test_what_is_experimental_must_be_asked_for(start: Start) -> None:
    client = start()
    client.initialize()
    thread_id = client.start_thread()
    params = {"threadId": thread_id, "input": [{"type": "text", "text": "x"}], "collaborationMode": PLAN}
    refused = [
        client.error("turn/start", params),
        client.error("thread/start", {"dynamicTools": [TOOL]}),
        client.error("collaborationMode/list", {}),
    ]
    assert [error["message"] for error in refused] == [
        "turn/start.collaborationMode requires experimentalApi capability",
        "thread/start.dynamicTools requires experimentalApi capability",
        "collaborationMode/list requires experimentalApi capability",
    ]


def test_a_tool_of_the_client_is_called_and_stays_with_the_thread(
    client: Client, start: Start, server: FakeServer
) -> None:
    steps = [turn(call("lookup", {"q": "x"}, call_id)) for call_id in ("c1", "c2")]
    server.script(steps[0], turn(message("done")), steps[1], turn(message("done")))
    answer = {"contentItems": [{"type": "inputText", "text": "found"}], "success": True}
    client.answers["item/tool/call"] = lambda params: answer
    thread_id = client.start_thread(dynamicTools=[TOOL])
    done, seen = client.turn(thread_id, "go")
    (asked,) = [m["params"] for m in seen if m.get("method") == "item/tool/call"]
    assert asked == {
        "threadId": thread_id,
        "turnId": done["id"],
        "callId": "c1",
        "namespace": None,
        "tool": "lookup",
        "arguments": {"q": "x"},
    }
    assert output_of(server, "c1") == "found"
    (called,) = items(seen, "dynamicToolCall")
    assert (called["status"], called["success"], called["contentItems"]) == (
        "completed",
        True,
        answer["contentItems"],
    )
    client.close()
    other = start()
    other.initialize()
    other.result("thread/resume", {"threadId": thread_id})
    other.answers["item/tool/call"] = lambda params: "nonsense"
    done, seen = other.turn(thread_id, "again")
    assert done["status"] == "completed" and "could not answer" in output_of(server, "c2")
    assert items(seen, "dynamicToolCall")[0]["status"] == "failed"
    bad = other.error("thread/start", {"dynamicTools": [TOOL]})
    assert "experimentalApi" in bad["message"]


def mcp_config(how: dict[str, Any]) -> dict[str, Any]:
    return servers(tiny=stub(how))


def test_calls_of_tool_servers_are_items(client: Client, server: FakeServer) -> None:
    how = {"tools": ["look"], "answers": {"look": {"content": [{"type": "text", "text": "seen"}]}}}
    server.script(turn(call("mcp__tiny__look", {"text": "x"}, "c1")), turn(message("done")))
    thread_id = client.start_thread(config=mcp_config(how))
    _, seen = client.turn(thread_id, "go")
    (called,) = items(seen, "mcpToolCall")
    assert (called["server"], called["tool"], called["arguments"]) == ("tiny", "look", {"text": "x"})
    assert called["status"] == "completed" and called["result"]["content"] == [{"type": "text", "text": "seen"}]
    assert called["error"] is None and called["durationMs"] >= 0
    states = [m["params"] for m in client.seen if m.get("method") == "mcpServer/startupStatus/updated"]
    assert [(state["name"], state["status"]) for state in states] == [("tiny", "starting"), ("tiny", "ready")]
    assert {state["threadId"] for state in states} == {thread_id}


@pytest.mark.parametrize(
    ("reply", "told", "status"),
    [
        ({"action": "accept"}, "seen", "completed"),
        ({"action": "accept", "_meta": {"persist": "session"}}, "seen", "completed"),
        ({"action": "decline"}, "reject", "completed"),
        ({"action": "cancel"}, None, "interrupted"),
    ],
)
def test_a_tool_of_a_server_is_asked_about(
    client: Client, server: FakeServer, reply: dict[str, Any], told: str | None, status: str
) -> None:
    how = {
        "tools": ["look"],
        "read_only": False,
        "answers": {"look": {"content": [{"type": "text", "text": "seen"}]}},
    }
    step = turn(call("mcp__tiny__look", {"text": "x"}, "c1"))
    server.script(step, turn(message("done")), step, turn(message("done")))
    client.answers["mcpServer/elicitation/request"] = lambda params: reply
    thread_id = client.start_thread(config=mcp_config(how), approvalPolicy="on-request", sandbox="workspace-write")
    done, seen = client.turn(thread_id, "go")
    assert done["status"] == status
    (asked,) = [m["params"] for m in seen if m.get("method") == "mcpServer/elicitation/request"]
    assert (asked["serverName"], asked["mode"], asked["turnId"]) == ("tiny", "form", done["id"])
    assert asked["_meta"]["codex_approval_kind"] == "mcp_tool_call"
    if told is not None:
        assert told in output_of(server, "c1")
    if "_meta" in reply:
        _, seen = client.turn(thread_id, "again")
        assert "mcpServer/elicitation/request" not in methods(seen)


def test_a_server_can_ask_a_person(client: Client, server: FakeServer, tmp_path: Path) -> None:
    log = tmp_path / "log"
    how = {"tools": ["look"], "elicit_on": "look", "log": str(log)}
    server.script(turn(call("mcp__tiny__look", {"text": "x"}, "c1")), turn(message("done")))
    client.answers["mcpServer/elicitation/request"] = lambda params: {"action": "accept", "content": {"name": "me"}}
    thread_id = client.start_thread(config=mcp_config(how), approvalPolicy="on-request", sandbox="workspace-write")
    done, seen = client.turn(thread_id, "go")
    assert done["status"] == "completed"
    (asked,) = [m["params"] for m in seen if m.get("method") == "mcpServer/elicitation/request"]
    assert asked["requestedSchema"]["type"] == "object" and asked["_meta"] is None
    assert '"action": "accept", "content": {"name": "me"}' in log.read_text()


@pytest.mark.parametrize(
    ("reply", "scope", "is_given"),
    [
        (lambda asked: {"permissions": asked["permissions"]}, "turn", True),
        (lambda asked: {"permissions": asked["permissions"], "scope": "session"}, "session", True),
        (lambda asked: {"permissions": {}}, "turn", False),
        (lambda asked: {"permissions": asked["permissions"], "strictAutoReview": True}, "turn", False),
        (lambda asked: {"nonsense": 1}, "turn", False),
    ],
)
def test_a_client_gives_what_it_likes_of_the_permissions_that_the_model_asks_for(
    start: Start, server: FakeServer, workspace: Path, tmp_path: Path, reply: Any, scope: str, is_given: bool
) -> None:
    client = start("--enable", "request_permissions_tool")
    client.initialize(experimentalApi=True)
    folder = tmp_path / "more"
    folder.mkdir()
    asked = {"permissions": {"network": {"enabled": True}, "file_system": {"write": [str(folder)]}}, "reason": "why"}
    server.script(turn(call("request_permissions", asked, "c1")), turn(message("thanks")))
    client.answers["item/permissions/requestApproval"] = reply
    thread_id = client.start_thread(approvalPolicy="on-request", sandbox="read-only")
    done, seen = client.turn(thread_id, "go")
    (put,) = [m for m in seen if m.get("method") == "item/permissions/requestApproval"]
    assert put["params"] == {
        "threadId": thread_id,
        "turnId": done["id"],
        "itemId": "c1",
        "environmentId": "local",
        "startedAtMs": put["params"]["startedAtMs"],
        "cwd": str(workspace),
        "reason": "why",
        "permissions": {
            "network": {"enabled": True},
            "fileSystem": {
                "read": None,
                "write": [str(folder)],
                "entries": [{"path": {"type": "path", "path": str(folder)}, "access": "write"}],
            },
        },
    }
    answer = json.loads(output_of(server, "c1"))
    given = {"network": {"enabled": True}, "file_system": {"write": [str(folder)]}}
    assert answer["scope"] == scope
    assert answer["permissions"] == (given if is_given else {"network": None, "file_system": None})
    flags = [m["params"]["status"].get("activeFlags") for m in seen if m.get("method") == "thread/status/changed"]
    assert flags == [[], ["waitingOnApproval"], [], None]
