"""The official Python SDK, unmodified, drives the installed app-server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fake_server import FakeServer, call, message, turn
from pip_cache import installed

pytestmark = pytest.mark.timeout(240)  # the SDK may have to be downloaded first
DRIVER = Path(__file__).parent / "sdk" / "drive.py"


def test_the_sdk_sees_deltas_answers_an_approval_and_interrupts(
    spindle_cmd: list[str], server: FakeServer, workspace: Path, environment: dict[str, str]
) -> None:
    library = installed("openai-codex==0.163.0")
    server.script(
        turn(message("Hello there.", deltas=3)),
        turn(call("exec_command", {"cmd": f"touch {workspace}/made"}, "c1")),
        turn(message("Made.")),
        turn(message("and so on", deltas=3), hang_after=4),
    )
    agent = os.environ.get("SDK_AGENT") or spindle_cmd[0]
    done = subprocess.run(
        [sys.executable, str(DRIVER), json.dumps({"agent": agent, "cwd": str(workspace)})],
        env={**environment, "PYTHONPATH": str(library)},
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    hello, made, broken_off = seen["turns"]
    assert (len(hello["deltas"]), "".join(hello["deltas"]), hello["status"]) == (3, "Hello there.", "completed")
    assert (made["items"], made["status"]) == (["userMessage", "commandExecution", "agentMessage"], "completed")
    assert seen["asked"] == ["item/commandExecution/requestApproval"]
    assert (workspace / "made").exists()
    assert broken_off["status"] == "interrupted"
    assert seen["kept"] == ["completed", "completed", "interrupted"]
    assert seen["lengths"] == [0, 0]
    assert seen["misread"] == []
