"""The official TypeScript SDK, unmodified, drives the installed command.

`SDK_AGENT` names another program to run the same tests against, for example the native Codex; `SDK_MODEL` a model
it knows.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import zlib
from pathlib import Path
from typing import Any

import pytest

from fake_server import FakeServer, call, custom_call, fails, message, reasoning, turn
from npm_cache import find_node, installed

pytestmark = pytest.mark.timeout(240)  # the SDK may have to be downloaded first
DRIVER = Path(__file__).parent / "sdk" / "drive.mjs"
PATCH = "*** Begin Patch\n*** Add File: notes.txt\n+from the patch\n*** End Patch\n"
SDK_VERSION = "0.163.0"
SCHEMA = {
    "type": "object",
    "properties": {"answer": {"type": "number"}},
    "required": ["answer"],
    "additionalProperties": False,
}


@pytest.fixture(scope="session")
def sdk() -> tuple[str, Path]:
    """The node program and the folder with the SDK, without the platform binary it would bring along."""
    folder = installed(f"codex-sdk-{SDK_VERSION}", f"@openai/codex-sdk@{SDK_VERSION}", with_optional=False)
    found = find_node()
    assert found is not None
    return found[0], folder


class Driver:
    """Runs jobs with the SDK against one home, one workspace and one model server."""

    def __init__(self, sdk: tuple[str, Path], agent: str, server: FakeServer, workspace: Path, env: dict[str, str]):
        self.node, self.folder = sdk
        self.agent, self.server, self.workspace, self.env = agent, server, workspace, env

    def run(self, *turns: dict[str, Any], resume: str | None = None, **thread_options: Any) -> dict[str, Any]:
        codex = {
            "codexPathOverride": self.agent,
            "baseUrl": self.server.base_url,
            "apiKey": "sdk-key",
            "env": self.env,
            "config": {"model_reasoning_summary": "auto", "features": {"shell_snapshot": False}},
        }
        thread = {
            "model": os.environ.get("SDK_MODEL", "gpt-5.2-codex"),
            "workingDirectory": str(self.workspace),
            "sandboxMode": "danger-full-access",
            **thread_options,
        }
        job = {"codex": codex, "thread": thread, "resume": resume, "turns": turns}
        done = subprocess.run(
            [self.node, str(DRIVER), str(self.folder), json.dumps(job)],
            capture_output=True,
            text=True,
            timeout=50,
            cwd=self.workspace.parent,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.rstrip("\n").rpartition("\n")[2])


@pytest.fixture
def driver(
    sdk: tuple[str, Path],
    spindle_cmd: list[str],
    server: FakeServer,
    workspace: Path,
    tmp_path: Path,
    environment: dict[str, str],
) -> Driver:
    home = tmp_path / "sdk-home"
    home.mkdir()
    agent = os.environ.get("SDK_AGENT") or spindle_cmd[0]
    return Driver(sdk, agent, server, workspace, {**environment, "CODEX_HOME": str(home)})


def strip_ids(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in item.items() if key != "id"} for item in items]


def user_parts(request: Any) -> list[dict[str, Any]]:
    """The content of the last user message of a request."""
    return [item for item in request["input"] if item.get("role") == "user"][-1]["content"]


def test_a_streamed_turn_shows_the_command_the_patch_and_the_answer(driver: Driver) -> None:
    driver.server.script(
        turn(reasoning("**Looking around**"), call("exec_command", {"cmd": "echo hello"}, "c1")),
        turn(custom_call("apply_patch", PATCH, "c2")),
        turn(message("All done.")),
    )
    result = driver.run({"input": "please", "streamed": True})

    events = result["results"][0]["events"]
    assert [event["type"] for event in events] == [
        "thread.started",
        "turn.started",
        "item.completed",
        "item.started",
        "item.completed",
        "item.started",
        "item.completed",
        "item.completed",
        "turn.completed",
    ]
    assert events[0]["thread_id"] == result["threadId"]
    thought, started, command, patching, patch, answer = (event["item"] for event in events[2:-1])
    assert strip_ids([thought, answer]) == [
        {"type": "reasoning", "text": "**Looking around**"},
        {"type": "agent_message", "text": "All done."},
    ]
    assert (started["type"], started["status"], started["aggregated_output"]) == (
        "command_execution",
        "in_progress",
        "",
    )
    assert command == {**started, "aggregated_output": "hello\n", "exit_code": 0, "status": "completed"}
    assert patch == {
        "id": patching["id"],
        "type": "file_change",
        "changes": [{"path": str(driver.workspace / "notes.txt"), "kind": "add"}],
        "status": "completed",
    }
    assert (driver.workspace / "notes.txt").read_text() == "from the patch\n"
    assert events[-1]["usage"] == {
        "input_tokens": 300,
        "cached_input_tokens": 0,
        "cache_write_input_tokens": 0,
        "output_tokens": 30,
        "reasoning_output_tokens": 0,
    }
    first = driver.server.turns_asked[0]
    assert first.headers["authorization"] == "Bearer sdk-key"
    assert first.headers["originator"] == "codex_sdk_ts"
    assert user_parts(first.json) == [{"type": "input_text", "text": "please"}]


def test_a_second_turn_and_a_resumed_thread_continue_the_same_conversation(driver: Driver) -> None:
    driver.server.script(turn(message("one")), turn(message("two")), turn(message("three")))
    begun = driver.run({"input": "first"}, {"input": "second"})
    resumed = driver.run({"input": "third"}, resume=begun["threadId"])

    assert [r["turn"]["finalResponse"] for r in begun["results"] + resumed["results"]] == ["one", "two", "three"]
    assert resumed["threadId"] == begun["threadId"]
    first, second, third = (request.json for request in driver.server.turns_asked)
    assert second["input"][: len(first["input"])] == first["input"]
    assert third["input"][: len(second["input"])] == second["input"]
    assert user_parts(third) == [{"type": "input_text", "text": "third"}]


def test_structured_output_reaches_the_model_as_a_strict_schema(driver: Driver) -> None:
    driver.server.script(turn(message('{"answer": 42}')))
    result = driver.run({"input": "how many?", "options": {"outputSchema": SCHEMA}})

    assert json.loads(result["results"][0]["turn"]["finalResponse"]) == {"answer": 42}
    asked = driver.server.turns_asked[0].json["text"]["format"]
    assert (asked["type"], asked["strict"], asked["schema"]) == ("json_schema", True, SCHEMA)


@pytest.mark.parametrize("on_resume", [False, True], ids=["a new thread", "a resumed thread"])
def test_a_local_image_is_sent_with_the_text(driver: Driver, on_resume: bool) -> None:
    picture = driver.workspace / "dot.png"
    picture.write_bytes(png_of_one_red_dot())
    driver.server.script(turn(message("hi")), turn(message("a red dot")))
    before = driver.run({"input": "hello"})["threadId"] if on_resume else None
    parts = [{"type": "text", "text": "what"}, {"type": "text", "text": "is it?"}]
    driver.run({"input": [*parts, {"type": "local_image", "path": str(picture)}]}, resume=before)

    sent = user_parts(driver.server.turns_asked[-1].json)
    assert [part["text"] for part in sent if part.get("text", "").startswith("what")] == ["what\n\nis it?"]
    (image,) = [part for part in sent if part["type"] == "input_image"]
    kind, _, data = image["image_url"].partition(",")
    assert kind == "data:image/png;base64"
    assert base64.b64decode(data).startswith(b"\x89PNG")


def test_a_failed_turn_is_an_exception_with_the_servers_words(driver: Driver) -> None:
    driver.server.script(fails("invalid_prompt", "The prompt was not to my taste."))
    result = driver.run({"input": "hi"})

    assert "not to my taste" in result["results"][0]["error"]["message"]


def test_an_aborted_turn_leaves_a_thread_that_goes_on(driver: Driver) -> None:
    driver.server.script(
        turn(call("exec_command", {"cmd": "sleep 600"}, "c1")),
        turn(message("still here")),
    )
    aborted = driver.run({"input": "first", "streamed": True, "stopAfter": "item.started"})
    assert aborted["results"][0]["error"]["name"] == "AbortError"
    resumed = driver.run({"input": "go on"}, resume=aborted["threadId"])

    assert resumed["results"][0]["turn"]["finalResponse"] == "still here"
    assert "sleep 600" in json.dumps(driver.server.turns_asked[-1].json["input"])


def test_thread_options_become_settings_of_the_turn(driver: Driver) -> None:
    driver.run(
        {"input": "hi"},
        sandboxMode="workspace-write",
        networkAccessEnabled=True,
        webSearchMode="disabled",
        approvalPolicy="on-request",
        modelReasoningEffort="high",
        additionalDirectories=[str(driver.workspace.parent / "more")],
        skipGitRepoCheck=True,
        threadSource="my-app",
    )
    asked = driver.server.turns_asked[0].json
    assert asked["reasoning"]["effort"] == "high"
    assert not [tool for tool in asked.get("tools", []) if tool["type"].startswith("web_search")]
    assert str(driver.workspace.parent / "more") in json.dumps(asked["input"])


def test_line_separators_in_an_answer_do_not_break_the_event_lines(driver: Driver) -> None:
    text = "one\u2028two\u2029three\u0085four"
    driver.server.script(turn(message(text)))

    assert driver.run({"input": "hi"})["results"][0]["turn"]["finalResponse"] == text


def png_of_one_red_dot() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    header = b"\x00\x00\x00\x01\x00\x00\x00\x01\x08\x02\x00\x00\x00"
    pixels = chunk(b"IDAT", zlib.compress(b"\x00\xff\x00\x00"))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + pixels + chunk(b"IEND", b"")
