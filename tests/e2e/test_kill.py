"""kill -9 at any moment: whatever was shown as completed is there after resume.

A handful of seeded moments by default; `SPINDLE_KILLS=100` runs as many as it says.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from fake_server import FakeServer, call, custom_call, message, turn

KILLS = int(os.environ.get("SPINDLE_KILLS", "6"))
STUB = Path(__file__).parents[1] / "mcp_servers" / "stub.py"
FILES = 3
OLD, NEW = "old\n" * 2000, "new\n" * 2000


class Killed:
    """One run of `exec --json` that was killed: what it had shown until then."""

    def __init__(self, command: list[str], cwd: Path, environment: dict[str, str], chance: random.Random) -> None:
        self.items: list[dict[str, Any]] = []
        self.thread_id = ""
        self._lines_left = chance.randrange(1, 24)
        self._process = subprocess.Popen(
            command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        # Half of the moments are right after something was shown, the others anywhere.
        timer = threading.Timer(chance.uniform(0.2, 1.6), self._kill) if chance.random() < 0.5 else None
        if timer is not None:
            self._lines_left = 10_000
            timer.start()
        assert self._process.stdout is not None and self._process.stderr is not None
        for line in self._process.stdout:
            self._take(line)
        self.is_killed = self._process.wait() == -signal.SIGKILL
        self._process.stdout.close()
        self._process.stderr.close()
        if timer is not None:
            timer.cancel()
            timer.join()

    def _take(self, line: bytes) -> None:
        if not line.endswith(b"\n"):
            return  # cut off in the middle: nobody can have read it
        event = json.loads(line)
        if event["type"] == "thread.started":
            self.thread_id = event["thread_id"]
        if event["type"] == "item.completed":
            self.items.append(event["item"])
        self._lines_left -= 1
        if self._lines_left <= 0:
            self._kill()

    def _kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)


def patch(path: str) -> str:
    lines = "\n".join(["-old"] * 2000 + ["+new"] * 2000)
    return f"*** Begin Patch\n*** Update File: {path}\n@@\n{lines}\n*** End Patch\n"


def responses(chance: random.Random) -> list[Any]:
    """Two responses with calls of all kinds that take different times, while the rest still streams."""
    made = []
    for number in range(2):
        commands = [
            call(
                "shell_command",
                {"command": f"sleep {chance.uniform(0, 0.4):.2f}; echo ran-$((100+{number * 10 + n}))"},
                f"c{number}-{n}",
            )
            for n in range(4)
        ]
        others = [
            message(f"said-{number}"),
            call("mcp__stub__work", {"text": "x"}, f"m{number}"),
            call("update_plan", {"plan": [{"step": f"step-{number}", "status": "in_progress"}]}, f"p{number}"),
            custom_call("apply_patch", patch(f"file{number}.txt"), f"f{number}"),
        ]
        items = commands + others
        chance.shuffle(items)
        made.append(turn(*items, event_delay_s=chance.choice([0, 0.01, 0.03]), response_id=f"r{number}"))
    return made


def told(items: list[dict[str, Any]]) -> dict[str, str]:
    """By the id of its call, what the model is told that the call gave."""
    outputs = [item for item in items if item["type"].endswith("_output")]
    return {
        item["call_id"]: item["output"] if isinstance(item["output"], str) else str(item["output"]) for item in outputs
    }


def lost(shown: list[dict[str, Any]], sent: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Items that were shown as completed, and of which a resumed thread knows nothing."""
    outputs = told(sent)
    said = [part["text"] for item in sent if item.get("role") == "assistant" for part in item["content"]]
    missing = []
    for item in shown:
        match item["type"]:
            case "command_execution":
                is_there = any(item["aggregated_output"].strip() in output for output in outputs.values())
            case "agent_message":
                is_there = item["text"] in said
            case "file_change":
                name = os.path.basename(item["changes"][0]["path"])
                is_there = any(f"M {name}" in output for output in outputs.values())
            case "mcp_tool_call":
                is_there = any("from the server" in output for output in outputs.values())
            case "todo_list":
                is_there = "Plan updated" in outputs.values()
            case _:
                is_there = True
        if not is_there:
            missing.append(item)
    return missing


@pytest.mark.parametrize("seed", range(KILLS))
def test_whatever_was_shown_as_completed_is_there_after_a_kill_and_resume(
    seed: int, spindle_cmd: list[str], workspace: Path, home: Path, environment: dict[str, str], server: FakeServer
) -> None:
    chance = random.Random(seed)
    for number in range(FILES):
        (workspace / f"file{number}.txt").write_text(OLD)
    how = json.dumps(
        {"tools": ["work"], "answers": {"work": {"content": [{"type": "text", "text": "from the server"}]}}}
    )
    with (home / "config.toml").open("a") as config:
        config.write(
            f"[mcp_servers.stub]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps([str(STUB), how])}\n"
        )
        config.write("supports_parallel_tool_calls = true\n")
    server.script(*responses(chance))
    killed = Killed([*spindle_cmd, "exec", "--json", "--yolo", "go"], workspace, environment, chance)
    if not killed.thread_id:
        return  # nothing was shown yet, so nothing can be missing

    answered = len(server.turns_asked)
    server._steps.clear()
    command = [*spindle_cmd, "exec", "--json", "--yolo", "resume", killed.thread_id, "and now?"]
    resumed = subprocess.run(
        command, cwd=workspace, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=60
    )
    if resumed.returncode and not killed.items:
        return  # killed before the first message was recorded: there is no thread, and nothing was shown of it
    assert resumed.returncode == 0, resumed.stderr.decode()
    sent = server.turns_asked[answered].json["input"]
    assert lost(killed.items, sent) == []

    # No call is left open, and outputs that follow each other stand in the order of their calls.
    calls = [item["call_id"] for item in sent if item["type"] in ("function_call", "custom_tool_call")]
    assert sorted(calls) == sorted(told(sent))
    for name in [f"file{number}.txt" for number in range(FILES)]:
        assert (workspace / name).read_text() in (OLD, NEW), "a file is half-written"
    left = sorted(path.name for path in workspace.iterdir())
    assert left == [".git", *(f"file{number}.txt" for number in range(FILES))]


@pytest.mark.parametrize("seed", range(max(1, KILLS // 2)))
def test_a_kill_during_patches_and_commands_leaves_nothing_in_the_workspace_after_the_next_start(
    seed: int, spindle_cmd: list[str], workspace: Path, environment: dict[str, str], server: FakeServer
) -> None:
    """In a sandbox, whose placeholders must go too."""
    chance = random.Random(seed)
    names = [f"file{number}.txt" for number in range(20)]
    for name in names:
        (workspace / name).write_text(OLD)
    calls = [custom_call("apply_patch", patch(name), f"f-{name}") for name in names]
    calls += [call("shell_command", {"command": "sleep 0.05; ls -a"}, f"c{number}") for number in range(5)]
    chance.shuffle(calls)
    server.script(turn(*calls))
    go = ["exec", "--json", "-s", "workspace-write"]
    killed = Killed([*spindle_cmd, *go, "go"], workspace, environment, chance)
    assert all((workspace / name).read_text() in (OLD, NEW) for name in names), "a file is half-written"

    server._steps.clear()
    after = ["resume", killed.thread_id, "on"] if killed.items else ["on"]
    command = [*spindle_cmd, *go, *after]
    again = subprocess.run(command, cwd=workspace, env=environment, stdin=subprocess.DEVNULL, capture_output=True)
    assert again.returncode == 0, again.stderr.decode()
    assert sorted(path.name for path in workspace.iterdir()) == sorted([".git", *names])


def test_a_start_removes_the_temporary_file_that_a_killed_patch_left(
    spindle_cmd: list[str], workspace: Path, home: Path, environment: dict[str, str], server: FakeServer
) -> None:
    """Where the file system has no files without names: no kill comes at the right moment by chance."""
    left, own = workspace / ".spindle-0123456789abcdef.tmp", workspace / ".spindle-mine.tmp"
    for path in (left, own):
        path.write_bytes(b"")
    (home / "spindle").mkdir(exist_ok=True)
    (home / "spindle/unfinished-0123456789abcdef").write_text(str(left))
    command = [*spindle_cmd, "exec", "on"]
    done = subprocess.run(command, cwd=workspace, env=environment, stdin=subprocess.DEVNULL, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    assert sorted(path.name for path in workspace.iterdir()) == [".git", own.name]
