"""Hooks as a client of the app-server sees them."""

from __future__ import annotations

import json
from pathlib import Path

from app_server.client import Client
from app_server.conftest import Start
from fake_server import FakeServer, call, message, turn

HOOKS = {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "echo no >&2; exit 2"}]}]}


def test_a_client_is_told_when_a_hook_runs(start: Start, server: FakeServer, home: Path) -> None:
    path = home / "hooks.json"
    path.write_text(json.dumps({"hooks": HOOKS}))
    server.script(turn(call("exec_command", {"cmd": "true"}, "c1")), turn(message("done")))
    client = start()
    client.initialize()
    thread = client.start_thread()
    client.turn(thread, "go")
    began, ended = client.note("hook/started"), client.note("hook/completed")
    times = {"startedAt": 0, "completedAt": 0, "durationMs": 0}
    assert {**ended["run"], **times} == {
        "id": f"pre-tool-use:0:{path}:c1",
        "eventName": "preToolUse",
        "handlerType": "command",
        "executionMode": "sync",
        "scope": "turn",
        "sourcePath": str(path),
        "source": "user",
        "displayOrder": 0,
        "status": "blocked",
        "statusMessage": None,
        "entries": [{"kind": "feedback", "text": "no"}],
        **times,
    }
    assert began["run"]["status"] == "running" and began["turnId"] == ended["turnId"]


def test_a_client_lists_hooks_and_gives_consent(start: Start, server: FakeServer, home: Path, workspace: Path) -> None:
    config = home / "config.toml"
    config.write_text(f'{config.read_text()}\n[projects."{workspace}"]\ntrust_level = "trusted"\n')
    (workspace / ".codex").mkdir()
    (workspace / ".codex/hooks.json").write_text(json.dumps({"hooks": HOOKS}))

    def listed(client: Client) -> dict[str, object]:
        [entry] = client.result("hooks/list", {"cwds": [str(workspace)]})["data"]
        [hook] = entry["hooks"]
        return hook

    client = start()
    client.initialize()
    hook = listed(client)
    assert hook == {
        "key": f"{workspace}/.codex/hooks.json:pre_tool_use:0:0",
        "eventName": "preToolUse",
        "handlerType": "command",
        "command": "echo no >&2; exit 2",
        "async": False,
        "matcher": "Bash",
        "timeoutSec": 600,
        "statusMessage": None,
        "additionalContextLimit": None,
        "sourcePath": f"{workspace}/.codex/hooks.json",
        "source": "project",
        "displayOrder": 0,
        "enabled": True,
        "isManaged": False,
        "currentHash": hook["currentHash"],
        "trustStatus": "untrusted",
    }
    edit = {
        "keyPath": "hooks.state",
        "value": {hook["key"]: {"trusted_hash": hook["currentHash"]}},
        "mergeStrategy": "upsert",
    }
    client.result("config/batchWrite", {"edits": [edit]})
    assert listed(client)["trustStatus"] == "trusted"
