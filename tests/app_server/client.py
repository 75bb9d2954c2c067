"""A client of `spindle app-server` for tests: requests, notifications, and answers to what the server asks."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Message = dict[str, Any]
Answer = Callable[[Message], Any]
WAIT_S = 20


class Client:
    """Everything the server writes is kept in `seen`, in order."""

    def __init__(self, command: list[str], cwd: Path, environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            command, cwd=cwd, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.seen: list[Message] = []
        self.lines: list[bytes] = []
        """The same as it was written."""
        self.answers: dict[str, Answer] = {}
        """By method of the server's request: the result for its params; a method that is missing stays unanswered."""
        self._count = 0
        self._changed = threading.Condition()
        self._is_over = False
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            message = json.loads(line)
            with self._changed:
                self.lines.append(line)
                self.seen.append(message)
                self._changed.notify_all()
            if "method" in message and "id" in message and (answer := self.answers.get(message["method"])):
                self.write({"id": message["id"], "result": answer(message["params"])})
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def write(self, message: Message | str) -> None:
        assert self.process.stdin is not None
        line = message if isinstance(message, str) else json.dumps(message)
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def wait(self, fits: Callable[[Message], bool], since: int = 0) -> Message:
        """The first message from place `since` on that fits."""
        end = time.monotonic() + WAIT_S
        with self._changed:
            while True:
                for message in self.seen[since:]:
                    if fits(message):
                        return message
                left = end - time.monotonic()
                assert not self._is_over and left > 0, f"it did not come; last: {self.seen[-5:]}"
                self._changed.wait(left)

    def send(self, method: str, params: Any = None) -> int:
        """A request whose answer is waited for later."""
        self._count += 1
        self.write({"method": method, "id": self._count, **({} if params is None else {"params": params})})
        return self._count

    def answer_to(self, request_id: int | str) -> Message:
        return self.wait(lambda message: message.get("id") == request_id and "method" not in message)

    def ask(self, method: str, params: Any = None) -> Message:
        """The whole answer, an error included."""
        return self.answer_to(self.send(method, params))

    def result(self, method: str, params: Any = None) -> Any:
        answer = self.ask(method, params)
        assert "error" not in answer, answer
        return answer["result"]

    def error(self, method: str, params: Any = None) -> Message:
        answer = self.ask(method, params)
        assert "error" in answer, answer
        return answer["error"]

    def note(self, method: str, fits: Callable[[Any], bool] = lambda params: True, since: int = 0) -> Any:
        """The params of a notification."""
        return self.wait(
            lambda message: message.get("method") == method and "id" not in message and fits(message["params"]), since
        )["params"]

    def initialize(self, **capabilities: Any) -> Any:
        info = {"name": "tester", "title": "Tester", "version": "9.1"}
        result = self.result("initialize", {"clientInfo": info, "capabilities": capabilities})
        self.write({"method": "initialized"})
        return result

    def start_thread(self, **params: Any) -> str:
        defaults = {"approvalPolicy": "never", "sandbox": "danger-full-access"}
        return self.result("thread/start", {**defaults, **params})["thread"]["id"]

    def begin(self, thread_id: str, text: str, **params: Any) -> str:
        """Start a turn; gives its id."""
        content = [{"type": "text", "text": text}]
        return self.result("turn/start", {"threadId": thread_id, "input": content, **params})["turn"]["id"]

    def turn(self, thread_id: str, text: str, **params: Any) -> tuple[Any, list[Message]]:
        """Run a turn to its end: the turn as it ended, and everything that was seen meanwhile."""
        since = len(self.seen)
        turn_id = self.begin(thread_id, text, **params)
        done = self.note("turn/completed", lambda params: params["turn"]["id"] == turn_id, since)
        return done["turn"], self.seen[since:]

    def close(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        code = self.process.wait(WAIT_S)
        self.reader.join()
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()
        return code


def methods(messages: list[Message]) -> list[str]:
    return [message["method"] for message in messages if "method" in message]


def items(messages: list[Message], kind: str, method: str = "item/completed") -> list[Any]:
    """The items of a kind that were completed (or started)."""
    found = [message["params"]["item"] for message in messages if message.get("method") == method]
    return [item for item in found if item["type"] == kind]


def wait_for_pid(path: Path) -> int:
    end = time.monotonic() + WAIT_S
    while not (path.exists() and path.read_text().strip()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return int(path.read_text())
