"""A client that speaks JSON-RPC 2.0 over the pipes of a program, for tests of `mcp-server` and `acp`."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Message = dict[str, Any]
WAIT_S = 25.0


class RpcClient:
    """Everything the program says is kept in `seen`, in order."""

    def __init__(self, command: list[str], cwd: Path, environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            command, cwd=cwd, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.seen: list[Message] = []
        self.answers: dict[str, Callable[[Message], Any]] = {}
        """By method of the program's request: the result for its params; None leaves it unanswered."""
        self._count = 0
        self._changed = threading.Condition()
        self._is_over = False
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            message = json.loads(line)
            assert message["jsonrpc"] == "2.0"
            with self._changed:
                self.seen.append(message)
                self._changed.notify_all()
            if "method" in message and "id" in message:
                self._answer(message)
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def _answer(self, message: Message) -> None:
        if (answer := self.answers.get(message["method"])) is None:
            self.put({"id": message["id"], "error": {"code": -32601, "message": "no"}})
            return
        try:
            result = answer(message["params"])
        except Exception as error:
            self.put({"id": message["id"], "error": {"code": -32603, "message": str(error)}})
            return
        if result is not None:
            self.put({"id": message["id"], "result": result})

    def write(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def put(self, message: Message) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", **message}))

    def start(self, method: str, params: Any) -> int:
        self._count += 1
        self.put({"id": self._count, "method": method, "params": params})
        return self._count

    def note(self, method: str, params: Any) -> None:
        self.put({"method": method, "params": params})

    def wait(self, fits: Callable[[Message], bool]) -> Message:
        end = time.monotonic() + WAIT_S
        with self._changed:
            while True:
                for message in self.seen:
                    if fits(message):
                        return message
                assert not self._is_over, self.seen[-3:]
                assert self._changed.wait(end - time.monotonic()), self.seen[-3:]

    def reply(self, number: int) -> Message:
        return self.wait(lambda message: message.get("id") == number and "method" not in message)

    def request(self, method: str, params: Any) -> Message:
        return self.reply(self.start(method, params))

    def result(self, method: str, params: Any) -> Any:
        answer = self.request(method, params)
        assert "result" in answer, answer
        return answer["result"]

    def error(self, method: str, params: Any) -> tuple[int, str]:
        error = self.request(method, params)["error"]
        return error["code"], error["message"]

    def told(self, method: str) -> list[Any]:
        """The params of its notifications, or of its requests."""
        return [message["params"] for message in self.seen if message.get("method") == method]

    def close(self) -> tuple[int, str]:
        """End its input; gives its exit code and what it said on stderr."""
        assert self.process.stdin is not None and self.process.stderr is not None
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        code = self.process.wait(WAIT_S)
        self._reader.join()
        said = self.process.stderr.read().decode()
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()
        return code, said
