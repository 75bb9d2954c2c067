"""MCP servers in a session: what the model sees of them, what its calls cause, what people are told."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from mcp_servers.kit import of_servers, received, servers, stub, tool_names
from sessions import Driver, Start, outputs, tags
from spindle.model.scripted import calls, item_of, says
from spindle.protocol.events import Error, Warning
from spindle.protocol.ops import Interrupt, ListMcpTools
from spindle.protocol.tool_servers import (
    McpListToolsResponse,
    McpStartupComplete,
    McpStartupUpdate,
    McpToolCallBegin,
    McpToolCallEnd,
)


def warnings(driver: Driver) -> list[str]:
    return [event.msg.message for event in driver.events if isinstance(event.msg, Warning)]


# ---- the start -------------------------------------------------------------------------------------


async def test_the_first_request_has_the_tools_of_all_servers_in_one_order(start: Start) -> None:
    both = servers(zoo=stub({"tools": ["b", "a"], "pages": 1}), abc=stub({"tools": ["y", "x"]}))
    driver = await start(says("hi"), config=both)
    await driver.turn("hello")
    assert of_servers(driver.model.requests[0]) == ["mcp__abc__x", "mcp__abc__y", "mcp__zoo__a", "mcp__zoo__b"]
    tool = next(t for t in driver.model.requests[0].tools if t.get("name") == "mcp__zoo__a")
    assert tool == {
        "type": "function",
        "name": "mcp__zoo__a",
        "description": "does a",
        "strict": False,
        "parameters": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    }


async def test_servers_that_have_resources_bring_three_tools_after_the_shell(start: Start) -> None:
    driver = await start(says("hi"), config=servers(docs=stub({})))
    await driver.turn("hello")
    names = tool_names(driver.model.requests[0])
    wanted = ["list_mcp_resources", "list_mcp_resource_templates", "read_mcp_resource"]
    at = names.index(wanted[0])
    assert names[at : at + 3] == wanted and names[at - 1] == "write_stdin" and names[at + 3] == "update_plan"


async def test_without_resources_those_three_tools_are_not_there(start: Start) -> None:
    driver = await start(says("hi"), config=servers(docs=stub({"capabilities": {"tools": {}}, "tools": ["a"]})))
    await driver.turn("hello")
    assert "read_mcp_resource" not in tool_names(driver.model.requests[0])
    assert of_servers(driver.model.requests[0]) == ["mcp__docs__a"]


async def test_how_the_start_went_is_told_after_the_session_is_open(start: Start) -> None:
    config = servers(good=stub({"tools": ["a"]}), bad=stub({"start": "exit"}), off=stub({}, enabled=False))
    driver = await start(says("hi"), config=config)
    await driver.turn("hello")
    assert tags([event.msg for event in driver.events])[0] == "session_configured"
    updates = [event.msg for event in driver.events if isinstance(event.msg, McpStartupUpdate)]
    reason = "the server ended with exit code 3: cannot find my licence"
    assert {(u.server, u.status["state"], u.status.get("error")) for u in updates} == {
        ("bad", "starting", None),
        ("good", "starting", None),
        ("bad", "failed", reason),
        ("good", "ready", None),
    }
    [complete] = [event.msg for event in driver.events if isinstance(event.msg, McpStartupComplete)]
    assert complete == McpStartupComplete(ready=["good"], failed=[{"server": "bad", "error": reason}], cancelled=[])
    assert warnings(driver) == [f"MCP server bad is missing: {reason}"]
    assert of_servers(driver.model.requests[0]) == ["mcp__good__a"]


async def test_a_server_that_hangs_at_the_start_is_left_out_and_gone(start: Start, tmp_path: Path) -> None:
    seen = tmp_path / "env"
    hangs = stub({"start": "hang", "env": str(seen)}, startup_timeout_sec=1.0)
    driver = await start(says("hi"), config=servers(hangs=hangs))
    assert tags(await driver.turn("hello"))[-1] == "task_complete"
    assert warnings(driver) == ["MCP server hangs is missing: not ready within 1 seconds (startup_timeout_sec)"]
    assert not Path(f"/proc/{json.loads(seen.read_text())['pid']}").exists()


async def test_without_a_required_server_no_request_is_made(start: Start) -> None:
    driver = await start(says("never"), config=servers(must=stub({"start": "exit"}, required=True)))
    msgs = await driver.turn("hello")
    [error] = [msg for msg in msgs if isinstance(msg, Error)]
    assert error.message.startswith("the MCP server must is required and did not start: ")
    assert driver.model.requests == [] and tags(msgs)[-1] == "task_complete"


async def test_an_interrupt_gives_up_servers_that_still_start(start: Start) -> None:
    driver = await start(says("hi"), config=servers(slow=stub({"start": "hang"}), good=stub({"tools": ["a"]})))
    first = driver.begin("hello")
    await driver.until(McpStartupUpdate)
    driver.submit(Interrupt())
    assert tags(await driver.end_of(first))[-1] == "turn_aborted"
    await driver.turn("again")
    [complete] = [event.msg for event in driver.events if isinstance(event.msg, McpStartupComplete)]
    assert "slow" in complete.cancelled


async def test_the_handshake_is_the_one_of_the_protocol(start: Start, tmp_path: Path) -> None:
    log = tmp_path / "log"
    entry = stub({"tools": ["a"], "log": str(log)})
    driver = await start(calls("mcp__tiny__a", {"text": "x"}, "c1"), says("hi"), config=servers(tiny=entry))
    await driver.turn("hello")
    first, second, third, fourth = received(log)[:4]
    assert first["method"] == "initialize"
    assert first["params"]["protocolVersion"] == "2025-06-18"
    assert first["params"]["capabilities"] == {"elicitation": {"form": {}}}
    assert first["params"]["clientInfo"]["name"] == "spindle-mcp-client"
    assert second == {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert third["method"] == "tools/list"
    assert fourth["method"] == "tools/call"
    token = fourth["params"].pop("_meta")["progressToken"]
    assert token == fourth["id"] and fourth["params"] == {"name": "a", "arguments": {"text": "x"}}


async def test_an_unknown_version_of_the_protocol_is_refused_in_words(start: Start) -> None:
    driver = await start(says("hi"), config=servers(old=stub({"version": "1999-01-01"})))
    await driver.turn("hello")
    assert "'1999-01-01'" in warnings(driver)[0] and "old" in warnings(driver)[0]


async def test_a_server_sees_ten_variables_and_those_its_entry_names(
    start: Start, tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-servers")
    monkeypatch.setenv("WANTED", "passed on")
    monkeypatch.setenv("UNWANTED", "not passed on")
    seen = tmp_path / "env"
    entry = stub({"env": str(seen)}, env={"GIVEN": "1"}, env_vars=["WANTED"])
    driver = await start(says("hi"), config=servers(tiny=entry))
    await driver.turn("hello")
    found = json.loads(seen.read_text())
    inherited = {"HOME", "LOGNAME", "PATH", "SHELL", "USER", "LANG", "LC_ALL", "TERM", "TMPDIR", "TZ"}
    # The interpreter's own, our mark by which the program is found again, and how many agents stand above it.
    more = {"LC_CTYPE", "SPINDLE_COMMAND_ID", "SPINDLE_AGENT_DEPTH"}
    assert set(found["env"]) - inherited - more == {"GIVEN", "WANTED"}
    assert found["cwd"] == "/"  # nobody trusts the workspace


@pytest.mark.parametrize("command", ["./evil", "evil"])
async def test_a_program_is_never_looked_up_in_the_working_folder(
    start: Start, workspace: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    evil = workspace / "evil"
    evil.write_text("#!/bin/sh\ntouch canary\n")
    evil.chmod(0o755)
    monkeypatch.chdir(workspace)
    monkeypatch.setenv("PATH", f".::{os.environ['PATH']}")
    driver = await start(says("hi"), config=servers(tiny={"command": command}))
    await driver.turn("hello")
    assert not (workspace / "canary").exists() and "tiny" in warnings(driver)[0]


async def test_what_a_server_tells_of_its_keys_is_neither_kept_nor_shown(
    start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It was given them, so it can print them, answer with them, and describe its tools with them."""
    token, shaped = "canary-token-5f2e9a71c0", "ghp_canary0123456789abcdefghijklmnopqrst"
    monkeypatch.setenv("MY_TOKEN", token)
    how = {
        "tools": ["a"],
        "more": f" for {token}",
        "prints": [f"with {token[:9]}", f"{token[9:]} and {shaped[:20]}", f"{shaped[20:]}\nat the end {token[:16]}"],
        "answers": {"a": {"content": [{"type": "text", "text": f"got {shaped}"}], "structuredContent": {"k": shaped}}},
    }
    driver = await start(calls("mcp__tiny__a", {"text": "x"}, "c1"), says("done"), config=servers(tiny=stub(how)))
    [end] = [msg for msg in await driver.turn("hello") if isinstance(msg, McpToolCallEnd)]
    await driver.close()
    assert end.result["Ok"]["content"][0]["text"] == "got [secret: GitHub token]"
    assert end.result["Ok"]["structuredContent"] == {"k": "[secret: GitHub token]"}
    [described] = [tool for tool in driver.model.requests[0].tools if tool.get("name") == "mcp__tiny__a"]
    assert described["description"] == "does a for [secret: MY_TOKEN]"
    [log] = tmp_path.rglob("mcp-tiny.log")
    assert log.read_text() == "with [secret: MY_TOKEN] and [secret: GitHub token]\nat the end [secret: MY_TOKEN]"


# ---- calls -----------------------------------------------------------------------------------------


async def test_a_call_reaches_the_server_and_its_text_the_model(start: Start) -> None:
    driver = await start(
        calls("mcp__tiny__a", {"text": "PING"}, "c1"), says("done"), config=servers(tiny=stub({"tools": ["a"]}))
    )
    msgs = await driver.turn("hello")
    head, _, text = outputs(driver.inputs[-1])["c1"].partition("\nOutput:\n")
    assert head.startswith("Wall time: ") and text == 'a:{"text": "PING"}'
    invocation = {"server": "tiny", "tool": "a", "arguments": {"text": "PING"}}
    [begin] = [msg for msg in msgs if isinstance(msg, McpToolCallBegin)]
    [end] = [msg for msg in msgs if isinstance(msg, McpToolCallEnd)]
    assert begin == McpToolCallBegin(call_id="c1", invocation=invocation)
    assert (end.call_id, end.invocation) == ("c1", invocation)
    assert end.result == {"Ok": {"content": [{"type": "text", "text": text}]}}


async def test_a_call_may_name_the_server_apart_and_is_sent_back_as_it_came(start: Start) -> None:
    item = {"type": "function_call", "name": "a", "namespace": "mcp__tiny", "arguments": "{}", "call_id": "c1"}
    driver = await start(item_of(item), says("done"), config=servers(tiny=stub({"tools": ["a"]})))
    await driver.turn("hello")
    assert outputs(driver.inputs[-1])["c1"].endswith("a:{}")
    [sent] = [entry for entry in driver.inputs[-1] if entry["type"] == "function_call"]
    assert {**sent, "id": "fc_1"} == {**item, "id": "fc_1"}


PICTURE = {"type": "image", "mimeType": "image/png", "data": "aGk="}
TEXT = {"type": "text", "text": "hello"}


@pytest.mark.parametrize(
    ("result", "told"),
    [
        ({"content": [TEXT], "structuredContent": {"result": 5}}, '{"result":5}'),
        ({"content": [TEXT, TEXT]}, "hello\nhello"),
        ({"content": [TEXT], "isError": True}, "hello"),
        ({"content": []}, ""),
        ({}, ""),
        ({"content": "nonsense"}, ""),
        (
            {"content": [TEXT, {"type": "hologram", "x": 1}]},
            '[{"type":"text","text":"hello"},{"type":"hologram","x":1}]',
        ),
        ({"content": [{"type": "text", "text": 5}, None]}, '[{"type":"text","text":5},null]'),
        (
            {"content": [TEXT, PICTURE, {"type": "hologram"}]},
            [
                {"type": "input_text", "text": "hello"},
                {"type": "input_image", "image_url": "data:image/png;base64,aGk="},
                {"type": "input_text", "text": '{"type":"hologram"}'},
            ],
        ),
        (
            {"content": [{**PICTURE, "data": '" onload="'}]},
            [{"type": "input_text", "text": "[a picture that cannot be shown]"}],
        ),
        (
            {"content": [{**PICTURE, "mimeType": "text/html"}]},
            [{"type": "input_text", "text": "[a picture that cannot be shown]"}],
        ),
    ],
)
async def test_every_kind_of_answer_survives(start: Start, result: dict[str, Any], told: Any) -> None:
    entry = stub({"tools": ["a"], "answers": {"a": result or {"isError": False}}})
    driver = await start(calls("mcp__tiny__a", {}, "c1"), says("done"), config=servers(tiny=entry))
    await driver.turn("hello")
    output = outputs(driver.inputs[-1])["c1"]
    assert (output.partition("Output:\n")[2] if isinstance(output, str) and "Wall time" in output else output) == told


async def test_what_is_no_object_is_no_argument(start: Start) -> None:
    driver = await start(
        [calls("mcp__tiny__a", "[1]", "c1"), calls("mcp__tiny__a", "{", "c2"), calls("mcp__tiny__a", "", "c3")],
        says("done"),
        config=servers(tiny=stub({"tools": ["a"]})),
    )
    await driver.turn("hello")
    assert outputs(driver.inputs[-1])["c1"] == "failed to parse function arguments: expected an object, got list"
    assert outputs(driver.inputs[-1])["c2"].startswith("failed to parse function arguments: ")
    assert outputs(driver.inputs[-1])["c3"].endswith("a:{}")


async def test_a_call_that_takes_too_long_is_given_up_and_the_server_told(start: Start, tmp_path: Path) -> None:
    log = tmp_path / "log"
    entry = stub({"tools": ["a", "b"], "wait_on": "a", "log": str(log)}, tool_timeout_sec=0.3)
    driver = await start(
        calls("mcp__tiny__a", {}, "c1"), calls("mcp__tiny__b", {}, "c2"), says("done"), config=servers(tiny=entry)
    )
    await driver.turn("hello")
    assert outputs(driver.inputs[-1])["c1"] == 'err: "no answer to tools/call within 0.3 seconds"'
    assert outputs(driver.inputs[-1])["c2"].endswith("b:{}")
    call = next(message for message in received(log) if message["method"] == "tools/call")
    [cancelled] = [message for message in received(log) if message["method"] == "notifications/cancelled"]
    assert cancelled["params"] == {"requestId": call["id"], "reason": "timed out"}


async def test_an_interrupt_reaches_the_server(start: Start, tmp_path: Path) -> None:
    log = tmp_path / "log"
    entry = stub({"tools": ["a", "b"], "wait_on": "a", "log": str(log)})
    driver = await start(calls("mcp__tiny__a", {}, "c1"), config=servers(tiny=entry))
    sub_id = driver.begin("hello")
    await driver.until(McpToolCallBegin)
    driver.submit(Interrupt())
    msgs = await driver.end_of(sub_id)
    [end] = [msg for msg in msgs if isinstance(msg, McpToolCallEnd)]
    assert end.result == {"Err": "interrupted"} and tags(msgs)[-1] == "turn_aborted"
    await driver.turn("again", calls("mcp__tiny__b", {}, "c2"), says("done"))
    assert outputs(driver.inputs[-1])["c1"].startswith("aborted by user after")
    methods = [message.get("method") for message in received(log)]
    assert methods[3:] == ["tools/call", "notifications/cancelled", "tools/call"]


async def test_a_server_that_dies_is_restarted_once_and_no_call_runs_twice(start: Start, tmp_path: Path) -> None:
    log = tmp_path / "log"
    entry = stub({"tools": ["a", "b"], "die_on": "a", "log": str(log)})
    steps = [calls(f"mcp__tiny__{tool}", {}, f"c{n}") for n, tool in enumerate("aaba")]
    driver = await start(*steps, says("done"), config=servers(tiny=entry))
    await driver.turn("hello")
    told = outputs(driver.inputs[-1])
    assert told["c0"] == 'err: "the server ended with exit code 7"'
    assert told["c1"] == 'err: "the server ended with exit code 7"'  # the restarted one
    assert "restarted once already" in told["c2"] and "restarted once already" in told["c3"]
    methods = [message.get("method") for message in received(log)]
    assert methods.count("initialize") == 2 and methods.count("tools/call") == 2
    assert len({request.raw.tools for request in driver.model.requests}) == 1


async def test_ping_and_log_messages_are_taken(start: Start, tmp_path: Path) -> None:
    log = tmp_path / "log"
    entry = stub({"tools": ["a"], "ping_on": "a", "log_on": "a", "log": str(log)})
    driver = await start(calls("mcp__tiny__a", {}, "c1"), says("done"), config=servers(tiny=entry))
    await driver.turn("hello")
    await driver.close()
    assert {"jsonrpc": "2.0", "id": "p1", "result": {}} in received(log)
    assert "said over the protocol" in (tmp_path / "codex-home/log/mcp-tiny.log").read_text()


# ---- resources -------------------------------------------------------------------------------------


async def test_resources_are_listed_and_read(start: Start) -> None:
    one = stub({"resources": [{"uri": "a://1", "server": "forged"}, {"uri": "a://2"}], "pages": 1})
    two = stub({"resources": [{"uri": "b://1"}], "templates": [{"uriTemplate": "b://{x}"}]})
    driver = await start(
        calls("list_mcp_resources", {}, "c1"),
        calls("list_mcp_resources", {"server": "one"}, "c2"),
        calls("list_mcp_resources", {"server": "one", "cursor": "1"}, "c3"),
        calls("list_mcp_resource_templates", {}, "c4"),
        calls("read_mcp_resource", {"server": "two", "uri": "b://1"}, "c5"),
        calls("read_mcp_resource", {"server": "three", "uri": "b://1"}, "c6"),
        calls("list_mcp_resources", {"cursor": "1"}, "c7"),
        says("done"),
        config=servers(one=one, two=two),
    )
    msgs = await driver.turn("hello")
    told = outputs(driver.inputs[-1])
    assert json.loads(told["c1"]) == {
        "resources": [
            {"server": "one", "uri": "a://1"},
            {"server": "one", "uri": "a://2"},
            {"server": "two", "uri": "b://1"},
        ]
    }
    assert json.loads(told["c2"]) == {
        "server": "one",
        "resources": [{"server": "one", "uri": "a://1"}],
        "nextCursor": "1",
    }
    assert json.loads(told["c3"]) == {"server": "one", "resources": [{"server": "one", "uri": "a://2"}]}
    assert json.loads(told["c4"]) == {"resourceTemplates": [{"server": "two", "uriTemplate": "b://{x}"}]}
    assert json.loads(told["c5"]) == {
        "server": "two",
        "uri": "b://1",
        "contents": [{"uri": "b://1", "text": "what it says"}],
    }
    assert "there is no MCP server 'three'; there are: one, two" in told["c6"]
    assert "cursor" in told["c7"]
    begins = [msg for msg in msgs if isinstance(msg, McpToolCallBegin)]
    assert {begin.invocation["server"] for begin in begins} == {"codex"}


# ---- the list, and the end --------------------------------------------------------------------------


async def test_the_tools_can_be_asked_for(start: Start) -> None:
    entry = stub({"tools": ["a"], "resources": [{"uri": "a://1"}]})
    driver = await start(config=servers(tiny=entry))
    sub_id = driver.submit(ListMcpTools())
    answer = await driver.until(McpListToolsResponse, sub_id=sub_id)
    assert isinstance(answer, McpListToolsResponse)
    assert answer.tools["mcp__tiny__a"]["description"] == "does a"
    assert (answer.resources, answer.resource_templates) == ({"tiny": [{"uri": "a://1"}]}, {"tiny": []})
    assert answer.auth_statuses == {"tiny": "unsupported"}


async def test_a_session_without_servers_says_that_there_are_no_tools(start: Start) -> None:
    driver = await start()
    answer = await driver.until(McpListToolsResponse, sub_id=driver.submit(ListMcpTools()))
    assert answer == McpListToolsResponse(tools={}, resources={}, resource_templates={}, auth_statuses={})


async def test_servers_end_with_the_session(start: Start, tmp_path: Path) -> None:
    seen = tmp_path / "env"
    driver = await start(says("hi"), config=servers(tiny=stub({"env": str(seen)})))
    await driver.turn("hello")
    pid = json.loads(seen.read_text())["pid"]
    assert Path(f"/proc/{pid}").exists()
    await driver.close()
    assert not Path(f"/proc/{pid}").exists()
