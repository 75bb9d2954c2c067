"""The engine behind a pipe, as tests of `spindle proto` talk to it."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from pathlib import Path
from typing import Any, Protocol


class Proto:
    """The engine behind a pipe."""

    def __init__(self, command: list[str], cwd: Path, environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            command, cwd=cwd, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.events: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.events.put(json.loads(line))
        self.events.put(None)

    def write(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def send(self, sub_id: str, kind: str, **fields: Any) -> None:
        self.write(json.dumps({"id": sub_id, "op": {"type": kind, **fields}}))

    def say(self, sub_id: str, text: str, **fields: Any) -> None:
        self.send(sub_id, "user_turn", items=[{"type": "text", "text": text}], **fields)

    def until(self, *kinds: str, sub_id: str | None = None) -> list[dict[str, Any]]:
        seen = []
        while True:
            event = self.events.get(timeout=20)
            assert event is not None, f"closed after {[e['msg']['type'] for e in seen]}"
            seen.append(event)
            if event["msg"]["type"] in kinds and sub_id in (None, event["id"]):
                return seen

    def close(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        code = self.process.wait(20)
        self.reader.join()
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()
        return code


class OpenProto(Protocol):
    """The fixture `open_proto`: starts an engine with these options."""

    def __call__(self, *args: str) -> Proto: ...
