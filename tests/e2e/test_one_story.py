"""One scripted turn through every front end: each in its own words, and all of them tell the same story."""

from __future__ import annotations

import json
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app_server.client import Client as AppClient
from e2e.proto_client import Proto
from e2e.test_acp import Editor
from e2e.test_mcp_server import Client as McpClient
from fake_server import FakeServer, call, custom_call, message, reasoning, turn
from installed import Spindle, whole_lines
from tui.terminals import NOT_INHERITED, Tui, trust

FREE = ("-s", "danger-full-access")
PATCH = "*** Begin Patch\n*** Add File: n.txt\n+new\n*** End Patch"
STORY = [
    ("thought", "**Looking**"),
    ("said", "first I look"),
    ("command", "echo out", 0, "out\n"),
    ("command", "exit 3", 3, ""),
    ("patch", "n.txt"),
    ("said", "done at last"),
]

RECORDED = [
    ("message", "user"),
    ("reasoning", ""),
    ("message", "assistant"),
    *[("function_call", "c1"), ("function_call_output", "c1"), ("function_call", "c2"), ("function_call_output", "c2")],
    *[("custom_tool_call", "c3"), ("custom_tool_call_output", "c3")],
    ("message", "assistant"),
]

Story = list[tuple[Any, ...]]


def script_of(command: Any) -> str:
    words = shlex.split(command) if isinstance(command, str) else command
    return words[-1] if len(words) == 3 and words[1] == "-lc" else command


def of_events(events: list[dict[str, Any]]) -> Story:
    """From messages of protocol v1."""
    story: Story = []
    for msg in events:
        match msg["type"]:
            case "agent_reasoning":
                story.append(("thought", msg["text"]))
            case "agent_message":
                story.append(("said", msg["message"]))
            case "exec_command_end":
                story.append(("command", script_of(msg["command"]), msg["exit_code"], msg["aggregated_output"]))
            case "patch_apply_end":
                story += [("patch", Path(path).name) for path in msg["changes"] if msg["success"]]
            case _:
                pass
    return story


def of_items(items: list[dict[str, Any]]) -> Story:
    """From finished items: of `exec --json`, of Python, and of the app-server in its spelling."""
    story: Story = []
    for item in items:
        match item["type"]:
            case "reasoning":
                story.append(("thought", item.get("text") or "\n\n".join(item["summary"])))
            case "agent_message" | "agentMessage":
                story.append(("said", item["text"]))
            case "command_execution" | "commandExecution":
                code = item["exit_code"] if "exit_code" in item else item["exitCode"]
                output = item["aggregated_output"] if "aggregated_output" in item else item["aggregatedOutput"]
                story.append(("command", script_of(item["command"]), code, output or ""))
            case "file_change" | "fileChange":
                story += [("patch", Path(change["path"]).name) for change in item["changes"]]
            case _:
                pass
    return story


def by_exec(spindle: Spindle) -> Story:
    done = spindle("exec", "--json", *FREE, "go")
    assert done.code == 0
    return of_items([event["item"] for event in done.events if event["type"] == "item.completed"])


def by_proto(spindle: Spindle) -> Story:
    proto = Proto([*spindle.command, "proto", *FREE], spindle.workspace, spindle.environment)
    proto.until("session_configured")
    proto.say("s", "go")
    events = [event["msg"] for event in proto.until("task_complete")]
    assert proto.close() == 0
    return of_events(events)


def by_socket(spindle: Spindle, url: str, *args: str, token: str = "") -> Story:
    server = spindle.start("proto", "--listen", url, *args, *FREE)
    assert server.stderr is not None
    where = server.stderr.readline().decode().split()[3].partition("://")[2]
    connection = socket.socket(socket.AF_UNIX if url.startswith("unix") else socket.AF_INET)
    connection.settimeout(30)
    host, _, port = where.rpartition(":")
    connection.connect(where if url.startswith("unix") else (host, int(port)))
    op = {"type": "user_turn", "items": [{"type": "text", "text": "go"}]}
    lines = [*([{"token": token}] if token else []), {"id": "s", "op": op}]
    connection.sendall("".join(json.dumps(line) + "\n" for line in lines).encode())
    events: list[dict[str, Any]] = []
    with connection, connection.makefile("rb") as file:
        while not events or events[-1]["type"] != "task_complete":
            events.append(json.loads(file.readline())["msg"])
    server.terminate()
    assert server.wait(30) == 0
    return of_events(events)


def by_unix(spindle: Spindle) -> Story:
    return by_socket(spindle, f"unix://{spindle.home}/s.sock")


def by_tcp(spindle: Spindle) -> Story:
    token = spindle.home / "token"
    token.write_text("a-token-of-many-characters")
    token.chmod(0o600)
    return by_socket(spindle, "tcp://127.0.0.1:0", "--token-file", str(token), token="a-token-of-many-characters")


def by_app_server(spindle: Spindle) -> Story:
    client = AppClient([*spindle.command, "app-server"], spindle.workspace, spindle.environment)
    client.initialize()
    done, seen = client.turn(client.start_thread(cwd=str(spindle.workspace)), "go")
    assert done["status"] == "completed" and client.close() == 0
    return of_items([told["params"]["item"] for told in seen if told.get("method") == "item/completed"])


def by_mcp_server(spindle: Spindle) -> Story:
    client = McpClient(spindle)
    given = {"approval-policy": "never", "sandbox": "danger-full-access"}
    assert client.codex("go", **given)["content"][0]["text"] == "done at last"
    client.close()
    return of_events([event["msg"] for event in client.told("codex/event")])


def by_acp(spindle: Spindle) -> Story:
    editor = Editor(spindle, *FREE)
    assert editor.prompt(editor.new()["sessionId"], "go")["stopReason"] == "end_turn"
    editor.close()
    story: Story = []
    calls: dict[str, dict[str, Any]] = {}
    for update in (note["update"] for note in editor.told("session/update")):
        kind = update["sessionUpdate"]
        if kind in ("agent_message_chunk", "agent_thought_chunk"):
            who, text = "said" if "message" in kind else "thought", update["content"]["text"]
            if story and story[-1][0] == who and story[-1][-1] == update["messageId"]:
                text = story.pop()[1] + text
            story.append((who, text, update["messageId"]))
        elif kind == "tool_call":
            calls[update["toolCallId"]] = update
        elif kind == "tool_call_update" and update.get("status") in ("completed", "failed"):
            began = calls[update["toolCallId"]]
            if began["kind"] == "edit":
                story += [("patch", Path(place["path"]).name) for place in began["locations"]]
            else:
                raw = update["rawOutput"]
                story.append(("command", began["title"], raw["exitCode"], raw["output"]))
    return [entry[:2] if entry[0] in ("said", "thought") else entry for entry in story]


def by_python(spindle: Spindle) -> Story:
    program = """
import json, sys
from spindle import Spindle
with Spindle() as client:
    result = client.thread_start(sandbox="danger-full-access").run("go")
print(json.dumps([item.to_dict() for item in result.items]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=spindle.workspace,
        env=spindle.environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return of_items(json.loads(done.stdout))


def by_terminal(spindle: Spindle) -> Story:
    """What a person reads, from top to bottom."""
    trust(spindle.home, spindle.workspace)
    given = {name: value for name, value in spindle.environment.items() if name not in NOT_INHERITED}
    with Tui([*spindle.command, *FREE, "--no-alt-screen"], cwd=spindle.workspace, env=given) as screen:
        screen.ready().submit("go")
        screen.wait_for("done at last")
        shown = screen.flat
    words = ["first I look", "echo out", "out", "exit 3", "n.txt", "new", "done at last"]
    assert re.search(r"\b.*?\b".join(map(re.escape, words)), shown, re.DOTALL), shown
    assert all(shown.count(word) == 1 for word in ("first I look", "done at last"))
    return STORY


def recorded(spindle: Spindle) -> list[tuple[str, str]]:
    """What the record holds of the model's items and of what it was answered, from the person's message on."""
    (rollout,) = spindle.rollouts()
    lines = whole_lines(rollout)
    assert lines[0]["type"] == "session_meta" and lines[-1]["payload"]["type"] == "task_complete"
    items = [line["payload"] for line in lines if line["type"] == "response_item"]
    told = [(item["type"], item.get("call_id") or item.get("role") or "") for item in items]
    said = [{"type": "input_text", "text": "go"}]
    return told[next(place for place, item in enumerate(items) if item.get("content") == said) :]


FRONT_ENDS = (by_exec, by_proto, by_unix, by_tcp, by_app_server, by_mcp_server, by_acp, by_python, by_terminal)


@pytest.mark.parametrize("tell", FRONT_ENDS, ids=lambda tell: tell.__name__)
def test_every_front_end_tells_the_same_story(
    spindle: Spindle, server: FakeServer, tell: Callable[[Spindle], Story]
) -> None:
    server.script(
        turn(
            reasoning("**Looking**", item_id="rs_1"),
            message("first I look", item_id="msg_1", deltas=3),
            call("exec_command", {"cmd": "echo out"}, "c1"),
        ),
        turn(call("exec_command", {"cmd": "exit 3"}, "c2")),
        turn(custom_call("apply_patch", PATCH, "c3")),
        turn(message("done at last", item_id="msg_2", deltas=2)),
    )
    assert tell(spindle) == STORY
    assert (spindle.workspace / "n.txt").read_text() == "new\n"
    assert recorded(spindle) == RECORDED
