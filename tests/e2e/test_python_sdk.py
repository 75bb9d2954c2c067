"""The official Python SDK, unmodified, drives the installed app-server."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fake_server import FakeServer, call, fails, message, turn
from pip_cache import installed

pytestmark = pytest.mark.timeout(240)  # the SDK may have to be downloaded first
DRIVER = Path(__file__).parent / "sdk" / "drive.py"
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


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


def test_the_sdk_hands_in_files_steers_a_turn_and_leads_a_thread_through_its_life(
    spindle_cmd: list[str], server: FakeServer, workspace: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    library = installed("openai-codex==0.163.0")
    image, skill = tmp_path / "dot.png", workspace / ".agents/skills/demo/SKILL.md"
    image.write_bytes(base64.b64decode(DOT))
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: demo\ndescription: a word\n---\n\nSay cobalt.\n")
    server.script(
        turn(message("seen")),
        turn(message("first", item_id="m1", deltas=3), event_delay_s=0.2),
        turn(message("second", item_id="m2")),
        *[fails("server_error", "the machine is on fire")] * 2,  # it is tried once more
        turn(message("alive")),
    )
    agent = os.environ.get("SDK_AGENT") or spindle_cmd[0]
    job = {"agent": agent, "cwd": str(workspace), "image": str(image), "skill": str(skill)}
    done = subprocess.run(
        [sys.executable, str(DRIVER.with_name("lifecycle.py")), json.dumps(job)],
        env={**environment, "PYTHONPATH": str(library)},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    parts = [
        part for item in server.turns_asked[0].json["input"] if item.get("role") == "user" for part in item["content"]
    ]
    assert [part["image_url"].split(",")[0] for part in parts if part["type"] == "input_image"] == [
        "data:image/png;base64"
    ]
    (told,) = [part["text"] for part in parts if part.get("text", "").startswith("<skill>")]
    assert f"<path>{skill}</path>" in told and "Say cobalt." in told
    assert seen["looked"] == ["seen", "completed", 110]
    assert [asked.json.get("service_tier") for asked in server.turns_asked[:2]] == ["flex", None]
    assert seen["joined"] == [True] and "and more" in json.dumps(server.turns_asked[2].json["input"])
    assert seen["items"][1] == ["userMessage", "agentMessage", "userMessage", "agentMessage"]
    assert "the machine is on fire" in seen["failed"]
    assert seen["lives"] == {"answer": "alive", "name": "named", "ids": [True] * 4}
