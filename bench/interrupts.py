"""How long an interrupt takes, in every state a turn can be in: from the op on stdin to `turn_aborted` on stdout.

Measured through `spindle proto`, which has no counterpart in today's Codex, so there is no ratio. The model server is a
few lines here, because it must do what a good server never does: stay silent, stop in mid-stream, ask for a long wait.
"""

from __future__ import annotations

import json
import socketserver
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from harness import CONFIG, Bench, BenchError, Program, environment

STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def event(payload: dict[str, Any]) -> bytes:
    data = f"data: {json.dumps(payload)}\n\n".encode()
    return b"%x\r\n%s\r\n" % (len(data), data)


def answer_with(item: dict[str, Any]) -> bytes:
    done = {"type": "response.output_item.done", "item": item}
    completed = {"type": "response.completed", "response": {"id": "r", "usage": None}}
    return STREAM + event(done) + event(completed) + b"0\r\n\r\n"


def calls(name: str, arguments: dict[str, Any]) -> bytes:
    return answer_with(
        {"type": "function_call", "name": name, "arguments": json.dumps(arguments), "call_id": "call_1", "id": "fc_1"}
    )


STATES: dict[str, tuple[bytes, str, str]] = {
    "before the first byte": (b"", "task_started", "never"),
    "in mid-stream": (
        STREAM + event({"type": "response.output_text.delta", "item_id": "m", "delta": "half"}),
        "agent_message_content_delta",
        "never",
    ),
    "in a retry's pause": (
        b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 60\r\ncontent-length: 0\r\n\r\n",
        "stream_error",
        "never",
    ),
    "in a command": (calls("exec_command", {"cmd": "sleep 60"}), "exec_command_begin", "never"),
    "in a command with many children": (
        calls("exec_command", {"cmd": "for i in $(seq 20); do sleep 60 & done; wait"}),
        "exec_command_begin",
        "never",
    ),
    "in a command that ignores SIGTERM": (
        calls("exec_command", {"cmd": "trap '' TERM INT HUP; while :; do sleep 1; done"}),
        "exec_command_begin",
        "never",
    ),
    "in a one-shot shell": (calls("shell", {"command": ["sleep", "60"]}), "exec_command_begin", "never"),
    "waiting for an approval": (calls("exec_command", {"cmd": "touch x"}), "exec_approval_request", "untrusted"),
}
"""What the server answers, the event that shows the state is reached, and the approval policy."""


class Handler(socketserver.StreamRequestHandler):
    """Reads a request, sends the scripted bytes, and then says nothing more until the client goes away."""

    def handle(self) -> None:
        length = 0
        while (line := self.rfile.readline()) not in (b"\r\n", b""):
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        self.rfile.read(length)
        self.wfile.write(self.server.answer)  # type: ignore[attr-defined]
        self.wfile.flush()
        self.rfile.read(1)


@contextmanager
def stubborn_server(answer: bytes) -> Iterator[int]:
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.answer = answer  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


def time_interrupt(bench: Bench, program: Program, state: str) -> float:
    """Seconds from the interrupt to the turn's terminal event."""
    answer, reached, policy = STATES[state]
    with stubborn_server(answer) as port:
        home = bench.scratch / f"{program.name}-interrupt-{port}"
        home.mkdir()
        config = CONFIG.format(model=program.model, port=port, wire="responses")
        (home / "config.toml").write_text(config.replace("stream_max_retries = 0", "stream_max_retries = 3"))
        with subprocess.Popen(
            [*program.command, "proto", "-a", policy, "-s", "danger-full-access"],
            cwd=bench.workspace,
            env=environment(home, bench.scratch),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as engine:
            try:
                send(engine, "turn", {"type": "user_turn", "items": [{"type": "text", "text": "go"}]})
                wait_for(engine, reached)
                time.sleep(0.3)  # let the state settle: a command needs a moment to start its children
                before = time.monotonic()
                send(engine, "stop", {"type": "interrupt"})
                wait_for(engine, "turn_aborted")
                return time.monotonic() - before
            finally:
                engine.kill()


def send(engine: subprocess.Popen[bytes], sub_id: str, op: dict[str, Any]) -> None:
    assert engine.stdin is not None
    engine.stdin.write(json.dumps({"id": sub_id, "op": op}).encode() + b"\n")
    engine.stdin.flush()


def wait_for(engine: subprocess.Popen[bytes], kind: str) -> None:
    assert engine.stdout is not None
    seen: list[str] = []
    for line in engine.stdout:
        seen.append(json.loads(line)["msg"]["type"])
        if seen[-1] == kind:
            return
    raise BenchError(f"no {kind} event; saw {seen}")
