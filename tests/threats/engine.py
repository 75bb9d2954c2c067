"""A scripted model and a person who answers: which questions are put, and what a call comes to."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from collections.abc import Sequence
from typing import Any

from fake_server import FakeServer, Item, call, message, turn
from installed import Spindle

QUESTIONS = ("exec_approval_request", "apply_patch_approval_request")


def outputs(server: FakeServer) -> dict[str, str]:
    """What the model was told about each of its calls, by their ids."""
    told: dict[str, str] = {}
    for item in server.requests[-1].json["input"]:
        if "output" in item:
            text = item["output"]
            told[item["call_id"]] = text if isinstance(text, str) else json.dumps(text)
    return told


def run_calls(spindle: Spindle, server: FakeServer, calls: Sequence[Item], *flags: str) -> dict[str, str]:
    """One turn of `exec` in which the model makes these calls, one after the other; what it was told."""
    server.script(*[turn(one) for one in calls], turn(message("over")))
    done = spindle("exec", *flags, "go")
    assert (done.code, done.out) == (0, "over\n"), done.err
    assert "Traceback" not in done.err
    return outputs(server)


def run_commands(spindle: Spindle, server: FakeServer, commands: Sequence[str], *flags: str) -> list[str]:
    """The same for shell commands."""
    calls = [call("exec_command", {"cmd": command}, f"c{number}") for number, command in enumerate(commands)]
    told = run_calls(spindle, server, calls, *flags)
    return [told[f"c{number}"] for number in range(len(commands))]


class Engine:
    """`spindle proto` behind a pipe, with a person who gives the same answer to every question."""

    def __init__(self, spindle: Spindle, *args: str) -> None:
        self._process = spindle.start("proto", *args, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self._events: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._events.put(json.loads(line))
        self._events.put(None)

    def _send(self, **op: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"id": "s", "op": op}).encode() + b"\n")
        self._process.stdin.flush()

    def turn(self, decision: str) -> list[dict[str, Any]]:
        """Say something, answer every question of the turn, and give all its messages."""
        self._send(type="user_turn", items=[{"type": "text", "text": "go"}])
        seen: list[dict[str, Any]] = []
        while True:
            event = self._events.get(timeout=50)
            assert event is not None, [message["type"] for message in seen]
            seen.append(event["msg"])
            match event["msg"]["type"]:
                case "exec_approval_request":
                    self._send(type="exec_approval", id=self._question_id(event), decision=decision)
                case "apply_patch_approval_request":
                    self._send(type="patch_approval", id=self._question_id(event), decision=decision)
                case "task_complete" | "turn_aborted":
                    return seen

    def _question_id(self, event: dict[str, Any]) -> str:
        return event["msg"].get("approval_id") or event["msg"]["call_id"]

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._reader.join()
        self._process.stdout.close()


def ask(
    spindle: Spindle, server: FakeServer, calls: Sequence[Item], *flags: str, decision: str = "denied"
) -> list[dict[str, Any]]:
    """The questions a person is asked in a turn with these calls, each answered with `decision`."""
    server.script(*[turn(one) for one in calls], turn(message("over")))
    engine = Engine(spindle, *flags)
    try:
        seen = engine.turn(decision)
    finally:
        engine.close()
    assert seen[-1]["type"] == "task_complete" and seen[-1]["last_agent_message"] == "over", seen[-1]
    return [message for message in seen if message["type"] in QUESTIONS]


def asked_about(spindle: Spindle, server: FakeServer, commands: Sequence[str], *flags: str) -> list[str]:
    """Which of these shell commands a person is asked about; each is denied."""
    calls = [call("exec_command", {"cmd": command}, f"c{number}") for number, command in enumerate(commands)]
    return [question["command"][-1] for question in ask(spindle, server, calls, *flags)]
