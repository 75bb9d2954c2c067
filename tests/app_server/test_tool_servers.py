"""MCP servers for clients: the list of what they offer, calls of their tools, resources, starting them anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app_server.client import Client
from app_server.conftest import Start
from fake_server import FakeServer, call, message, turn
from mcp_servers.auth_stub import AuthStub
from mcp_servers.http_stub import HttpStub
from mcp_servers.kit import stub
from mcp_servers.test_login import get

HOW: dict[str, Any] = {
    "tools": ["look", "odd name"],
    "resources": [{"uri": "file:///a", "name": "a"}],
    "templates": [{"uriTemplate": "file:///{x}", "name": "t"}],
    "capabilities": {"tools": {}, "resources": {}},
    "answers": {"look": {"content": [{"type": "text", "text": "seen"}], "structuredContent": {"n": 1}}},
}


def config(**more: Any) -> dict[str, Any]:
    return {"mcp_servers": {"tiny": stub({**HOW, **more})}}


def test_a_thread_s_servers_are_listed_with_what_they_offer(client: Client) -> None:
    thread_id = client.start_thread(config=config())
    (tiny,) = client.result("mcpServerStatus/list", {"threadId": thread_id})["data"]
    assert (tiny["name"], tiny["authStatus"], tiny["runtimeStatus"]) == ("tiny", "unsupported", None)
    assert set(tiny["tools"]) == {"look", "odd name"} and tiny["tools"]["look"]["description"] == "does look"
    assert [resource["uri"] for resource in tiny["resources"]] == ["file:///a"]
    assert [template["name"] for template in tiny["resourceTemplates"]] == ["t"]
    short = client.result("mcpServerStatus/list", {"threadId": thread_id, "detail": "toolsAndAuthOnly"})["data"]
    assert short == [{**tiny, "resources": [], "resourceTemplates": []}]
    assert client.result("mcpServerStatus/list", {"threadId": thread_id, "serverName": "other"})["data"] == []


def test_without_a_thread_the_configured_servers_are_asked(start: Start, home: Path) -> None:
    entry = stub(HOW)
    file = home / "config.toml"
    file.write_text(
        f'{file.read_text()}\n[mcp_servers.tiny]\ncommand = "{entry["command"]}"\nargs = {entry["args"]!r}\n'
        '[mcp_servers.off]\ncommand = "true"\nenabled = false\n'
    )
    client = start()
    client.initialize()
    off, tiny = client.result("mcpServerStatus/list")["data"]
    assert (off["name"], off["runtimeStatus"], off["tools"]) == ("off", "disabled", {})
    assert set(tiny["tools"]) == {"look", "odd name"}
    page = client.result("mcpServerStatus/list", {"limit": 1})
    assert [server["name"] for server in page["data"]] == ["off"]
    rest = client.result("mcpServerStatus/list", {"limit": 1, "cursor": page["nextCursor"]})
    assert [server["name"] for server in rest["data"]] == ["tiny"] and rest["nextCursor"] is None
    assert client.result("thread/loaded/list")["data"] == []


def test_without_servers_the_list_is_empty(client: Client) -> None:
    assert client.result("mcpServerStatus/list") == {"data": [], "nextCursor": None}
    assert "no MCP server" in client.error("mcpServer/resource/read", {"server": "x", "uri": "y"})["message"]


def test_a_client_calls_a_tool_and_reads_a_resource_itself(client: Client) -> None:
    thread_id = client.start_thread(config=config())
    given = {"threadId": thread_id, "server": "tiny"}
    called = client.result("mcpServer/tool/call", {**given, "tool": "look", "arguments": {"text": "x"}})
    assert called == {
        "content": [{"type": "text", "text": "seen"}],
        "structuredContent": {"n": 1},
        "isError": None,
        "_meta": None,
    }
    read = client.result("mcpServer/resource/read", {**given, "uri": "file:///a"})
    assert isinstance(read["contents"], list) and read["contents"]
    assert client.result("thread/read", {"threadId": thread_id, "includeTurns": True})["thread"]["turns"] == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"server": "other"}, "there is no MCP server 'other'"),
        ({"tool": "missing"}, "has no tool 'missing'"),
        ({"threadId": "01890000-0000-7000-8000-000000000000"}, "thread not found"),
    ],
)
def test_what_cannot_be_called_is_said(client: Client, changes: dict[str, str], said: str) -> None:
    thread_id = client.start_thread(config=config())
    given = {"threadId": thread_id, "server": "tiny", "tool": "look", **changes}
    error = client.error("mcpServer/tool/call", given)
    assert error["code"] == -32600 and said in error["message"]


def test_a_tool_that_takes_long_holds_up_no_other_request(client: Client) -> None:
    thread_id = client.start_thread(config=config(wait_on="look"))
    given = {"threadId": thread_id, "server": "tiny", "tool": "look"}
    client.send("mcpServer/tool/call", given)
    done, _ = client.turn(thread_id, "meanwhile")
    assert done["status"] == "completed"


def test_reload_starts_the_servers_of_the_file_anew(client: Client, home: Path) -> None:
    thread_id = client.start_thread()
    assert client.result("mcpServerStatus/list", {"threadId": thread_id})["data"] == []
    entry = stub(HOW)
    file = home / "config.toml"
    file.write_text(
        f'{file.read_text()}\n[mcp_servers.tiny]\ncommand = "{entry["command"]}"\nargs = {entry["args"]!r}\n'
    )
    assert client.result("config/mcpServer/reload") == {}
    listed = client.result("mcpServerStatus/list", {"threadId": thread_id})["data"]
    assert [(server["name"], set(server["tools"])) for server in listed] == [("tiny", {"look", "odd name"})]


# ---- signing in ------------------------------------------------------------------------------------


def test_a_client_signs_in_to_a_server(start: Start, home: Path) -> None:
    with AuthStub() as auth, HttpStub() as remote:
        remote.token = auth.access_token
        described = {"resource": remote.url, "authorization_servers": [auth.origin], "scopes_supported": ["read"]}
        remote.documents["/.well-known/oauth-protected-resource"] = described
        file = home / "config.toml"
        file.write_text(
            f'{file.read_text()}\n[mcp_servers.web]\nurl = "{remote.url}"\n[mcp_servers.tool]\ncommand = "true"\n'
        )
        client = start()
        client.initialize()
        assert "is a program" in client.error("mcpServer/oauth/login", {"name": "tool"})["message"]
        assert "there is no MCP server" in client.error("mcpServer/oauth/login", {"name": "x"})["message"]
        first = client.result("mcpServer/oauth/login", {"name": "web"})
        second = client.result("mcpServer/oauth/login", {"name": "web", "timeoutSecs": 60})
        note = client.note("mcpServer/oauthLogin/completed")
        assert (note["loginId"], note["success"], note["error"]) == (
            first["loginId"],
            False,
            "the sign-in was given up",
        )
        assert get(get(second["authorizationUrl"])[1])[0] == 200
        note = client.note("mcpServer/oauthLogin/completed", lambda params: params["success"])
        assert note == {
            "name": "web",
            "loginId": second["loginId"],
            "threadId": None,
            "success": True,
            "error": None,
        }
        remote.token = auth.access_token
        (web,) = client.result("mcpServerStatus/list", {"serverName": "web"})["data"]
        assert web["authStatus"] == "oAuth"


def test_a_sign_in_that_nobody_ends_ends_with_the_server(start: Start, home: Path) -> None:
    with AuthStub() as auth, HttpStub() as remote:
        remote.token = auth.access_token
        described = {"resource": remote.url, "authorization_servers": [auth.origin]}
        remote.documents["/.well-known/oauth-protected-resource"] = described
        file = home / "config.toml"
        file.write_text(f'{file.read_text()}\n[mcp_servers.web]\nurl = "{remote.url}"\n')
        client = start()
        client.initialize()
        client.result("mcpServer/oauth/login", {"name": "web"})
        assert client.close() == 0


def test_what_a_server_says_while_it_works_is_told(client: Client, server: FakeServer) -> None:
    told = [{"progress": 1, "total": 4}, {"progress": 2, "message": "half \x1b[31mway"}, {"progress": 3}]
    thread_id = client.start_thread(config=config(progress={"look": told}))
    server.script(turn(call("mcp__tiny__look", {"text": "x"}, "c1")), turn(message("done")))
    done, seen = client.turn(thread_id, "look")
    assert done["status"] == "completed"
    notes = [note["params"] for note in seen if note.get("method") == "item/mcpToolCall/progress"]
    assert [(note["itemId"], note["turnId"], note["message"]) for note in notes] == [
        ("c1", done["id"], words) for words in ("1/4", notes[1]["message"], "3")
    ]
    assert notes[1]["message"].startswith("half ") and "\x1b" not in notes[1]["message"]
