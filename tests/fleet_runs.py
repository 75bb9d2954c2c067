"""Runs of the fleet by the installed command: a list, a server that knows which task asks, and what a run leaves."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fake_server import FakeServer, Received, Turn, message, turn
from fleet_attempts import make_repo
from installed import Done, Spindle, wait_for

PRICE = '[spindle.prices."gpt-5.2-codex"]\ninput = 1000.0\ncached_input = 1000.0\noutput = 1000.0\n'
ONE_DOLLAR = {"input": 900, "output": 100}


def asked_by(received: Received) -> str:
    """The task whose request it is: prompts say `TASK:ID`."""
    found = re.search(rb"TASK:([A-Za-z0-9._-]*[A-Za-z0-9])", received.body)
    return found[1].decode() if found else ""


class Runs:
    """A list of tasks and the folder of a run."""

    def __init__(self, spindle: Spindle, server: FakeServer, folder: Path) -> None:
        self.spindle = spindle
        self.server = server
        self.folder = folder
        self.out = folder / "out"
        self.list = folder / "tasks.jsonl"
        self.repo = make_repo(folder / "repo")
        self.cache = folder / "cache"
        spindle.environment["XDG_CACHE_HOME"] = str(self.cache)
        config = spindle.home / "config.toml"
        text = config.read_text().replace("max_retries = 1", "max_retries = 0")
        config.write_text(f"{text}\n{PRICE}")
        self.ids: list[str] = []
        self.answers: dict[str, Callable[[], Turn]] = {}
        """What a task is answered; without one: "said ID"."""
        server.otherwise(self._answer)

    def _answer(self, received: Received) -> Turn:
        task = asked_by(received)
        return self.answers[task]() if task in self.answers else turn(message(f"said {task}"))

    def task(self, task: str, **more: Any) -> dict[str, Any]:
        return {"id": task, "prompt": f"TASK:{task} please", "repo": str(self.repo), **more}

    def tasks(self, *tasks: dict[str, Any] | str, count: int = 0) -> None:
        listed = [self.task(one) if isinstance(one, str) else one for one in tasks]
        listed += [self.task(f"t{number:03d}") for number in range(count)]
        self.ids = [one["id"] for one in listed]
        self.list.write_text("".join(f"{json.dumps(one)}\n" for one in listed))

    # ---- running it ------------------------------------------------------------------------------

    def words(self, *options: object, tasks: bool = True) -> list[str]:
        return ["fleet", "run", *([str(self.list)] if tasks else []), "--out", str(self.out), *map(str, options)]

    def run(self, *options: object, tasks: bool = True, **how: Any) -> Done:
        return self.spindle(*self.words(*options, tasks=tasks), **how)

    def start(self, *options: object, tasks: bool = True, **how: Any) -> subprocess.Popen[bytes]:
        return self.spindle.start(*self.words(*options, tasks=tasks), start_new_session=True, **how)

    def sub(self, name: str, *words: object) -> Done:
        return self.spindle("fleet", name, str(self.out), *map(str, words))

    def status(self) -> dict[str, Any]:
        return json.loads(self.sub("status", "--json").out)

    # ---- what there is afterwards ----------------------------------------------------------------

    def lines(self, name: str) -> list[dict[str, Any]]:
        """Whole lines; the last one may be in the making."""
        path = self.out / name
        return [json.loads(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []

    @property
    def results(self) -> list[dict[str, Any]]:
        return self.lines("results.jsonl")

    @property
    def statuses(self) -> dict[str, str]:
        return {record["id"]: record["status"] for record in self.results}

    def record(self, task: str) -> dict[str, Any]:
        (found,) = [record for record in self.results if record["id"] == task]
        return found

    def attempts(self, task: str | None = None, event: str | None = None) -> list[dict[str, Any]]:
        lines = self.lines("attempts.jsonl")
        return [line for line in lines if task in (None, line["id"]) and event in (None, line["event"])]

    def asked(self, since: int = 0) -> Counter[str]:
        """How many requests each task made."""
        return Counter(asked_by(received) for received in self.server.turns_asked[since:])

    def exactly_once(self, status: str | None = "ok") -> None:
        assert Counter(record["id"] for record in self.results) == Counter(self.ids)
        assert status is None or set(self.statuses.values()) == {status}, self.results

    def nothing_left(self) -> None:
        """No worker runs, nobody holds the lock, and there is no workspace."""
        pids = {line["pid"] for line in self.attempts(event="started")}
        wait_for(lambda: not any(map(is_running, pids)), f"the end of {pids}", timeout=10)
        assert not self.status()["alive"]
        wait_for(lambda: not [*self.cache.glob("spindle/attempts/*")], "no workspace", timeout=10)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


class Held:
    """Answers that wait until they are let go."""

    def __init__(self, answer: Turn | None = None) -> None:
        self._answer = answer
        self.is_asked = threading.Event()

    def __call__(self) -> Turn:
        self.is_asked.set()
        return self._answer or turn(message("never"), delay_s=3600)


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
