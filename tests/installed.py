"""The installed command as tests use it: run to its end, or left running, and what it leaves behind."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

PATIENCE_S = 50.0


class Done:
    """A run that is over."""

    def __init__(self, code: int, out: bytes, err: bytes) -> None:
        self.code = code
        self.raw_out = out
        self.raw_err = err
        self.out = out.decode("utf-8", "replace")
        self.err = err.decode("utf-8", "replace")

    @property
    def events(self) -> list[dict[str, Any]]:
        """What `--json` printed; a line that is no JSON fails the test."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def thread_id(self) -> str:
        return self.events[0]["thread_id"]

    def items(self, kind: str) -> list[dict[str, Any]]:
        """The finished items of one kind."""
        finished = [event["item"] for event in self.events if event["type"] == "item.completed"]
        return [item for item in finished if item["type"] == kind]


class Spindle:
    """Runs the command in a workspace with a home of its own. `wrap` is a program that starts it."""

    def __init__(self, command: list[str], workspace: Path, home: Path, environment: dict[str, str]) -> None:
        self.command = command
        self.workspace = workspace
        self.home = home
        self.environment = environment
        self._started: list[Any] = []

    def __call__(
        self,
        *args: str,
        stdin: str | bytes | None = None,
        cwd: Path | None = None,
        wrap: Sequence[str] = (),
        timeout: float = PATIENCE_S,
        **env: str,
    ) -> Done:
        """Run it to its end; `env` are more variables."""
        done = subprocess.run(
            [*wrap, *self.command, *args],
            cwd=cwd or self.workspace,
            env={**self.environment, **env},
            input=stdin.encode() if isinstance(stdin, str) else stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            timeout=timeout,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def start(self, *args: str, wrap: Sequence[str] = (), **how: Any) -> subprocess.Popen[bytes]:
        """Start it and do not wait; `how` is for Popen. The caller ends it with `finish`."""
        channels: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        channels |= {"env": self.environment, **how}
        command = [*wrap, *self.command, *args]
        started: Any = subprocess.Popen(command, cwd=self.workspace, **channels)
        self._started.append(started)
        return started

    def close(self) -> None:
        """End what a test that failed left running."""
        for process in self._started:
            if process.poll() is None:
                process.kill()
                process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()

    def configure(self, text: str) -> None:
        """Add to the user's config.toml."""
        with (self.home / "config.toml").open("a") as file:
            file.write(f"\n{text}\n")

    def rollouts(self) -> list[Path]:
        return sorted(self.home.rglob("rollout-*.jsonl"))


def finish(process: subprocess.Popen[bytes], timeout: float = PATIENCE_S) -> Done:
    out, err = process.communicate(timeout=timeout)
    return Done(process.returncode, out or b"", err or b"")


def whole_lines(rollout: Path | bytes) -> list[dict[str, Any]]:
    """Every line of a record; one that is torn or no JSON fails the test."""
    data = rollout if isinstance(rollout, bytes) else rollout.read_bytes()
    assert data.endswith(b"\n"), data[-200:]
    return [json.loads(line) for line in data.splitlines()]


def wait_for(condition: Callable[[], Any], what: str, timeout: float = 30.0) -> Any:
    """What `condition` says as soon as it says something."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.02)
    raise AssertionError(f"waited {timeout:g} s in vain: {what}")
