"""Runs a program against the benchmark's model server and measures it.

Finding the programs and preparing their homes is here too; what is measured and what counts as good is in
`scenarios.py`.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FULL_ACCESS = ("--dangerously-bypass-approvals-and-sandbox",)
CONFIG = """
model = "{model}"
model_provider = "bench"
model_context_window = 100000000
model_auto_compact_token_limit = 90000000

[model_providers.bench]
name = "bench"
base_url = "http://127.0.0.1:{port}/v1"
wire_api = "{wire}"
env_key = "BENCH_API_KEY"
request_max_retries = 0
stream_max_retries = 0
"""


class BenchError(Exception):
    """A program did not do what the scenario needs; the scenario has no figure for it."""


@dataclass(frozen=True)
class Program:
    name: str
    command: tuple[str, ...]
    model: str
    version: str
    is_spindle: bool = False


@dataclass(frozen=True)
class Run:
    """One finished run of a program."""

    started_s: float
    ended_s: float
    cpu_s: float
    peak_mb: float
    requests: list[dict[str, Any]]
    thread_id: str

    @property
    def to_first_request_s(self) -> float:
        return self.requests[0]["arrived_s"] - self.started_s

    @property
    def wall_s(self) -> float:
        return self.ended_s - self.started_s

    @property
    def rounds_s(self) -> list[float]:
        """From each answer to the request that followed it."""
        pairs = zip(self.requests, self.requests[1:], strict=False)
        return [after["arrived_s"] - before["answered_s"] for before, after in pairs]

    @property
    def rounds_cpu_s(self) -> list[float]:
        pairs = zip(self.requests, self.requests[1:], strict=False)
        return [after["cpu_s"] - before["cpu_s"] for before, after in pairs]

    @property
    def connections(self) -> int:
        return len({request["connection"] for request in self.requests})


class Bench:
    """The server, a workspace, and homes for the programs, all below one scratch folder."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        shutil.rmtree(scratch, ignore_errors=True)
        self.workspace = scratch / "workspace"
        self.workspace.mkdir(parents=True)
        (self.workspace / "README.md").write_text("A repository to measure in.\n")
        git = ["git", "-C", str(self.workspace), "-c", "user.name=bench", "-c", "user.email=bench@localhost"]
        for step in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "start"]):
            subprocess.run([*git, *step], check=True)
        self._server = subprocess.Popen(
            [sys.executable, str(HERE / "server.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.port = self._answer()["port"]

    def close(self) -> None:
        assert self._server.stdin is not None and self._server.stdout is not None
        self._server.stdin.close()
        self._server.wait(10)
        self._server.stdout.close()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def _answer(self) -> dict[str, Any]:
        assert self._server.stdout is not None
        return json.loads(self._server.stdout.readline())

    def _order(self, **order: Any) -> dict[str, Any]:
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps(order) + "\n")
        self._server.stdin.flush()
        return self._answer()

    def load(self, turns: list[Any], wire: str = "responses") -> None:
        """The answers that the server gives from now on."""
        self._order(do="load", turns=turns, wire=wire)

    def arrived(self) -> int:
        """How many requests came since `load`."""
        return self._order(do="count")["requests"]

    def first_request(self, timeout_s: float) -> float:
        """When the first request since `load` arrived."""
        limit_s = time.monotonic() + timeout_s
        while time.monotonic() < limit_s:
            if requests := self._order(do="report")["requests"]:
                return requests[0]["arrived_s"]
            time.sleep(0.005)
        raise BenchError("no request arrived")

    def home(self, program: Program, name: str = "warm", wire: str = "responses") -> Path:
        """The home `name` of a program, made on first use."""
        folder = self.scratch / f"{program.name}-{name}"
        if not folder.exists():
            folder.mkdir()
            (folder / "config.toml").write_text(CONFIG.format(model=program.model, port=self.port, wire=wire))
        return folder

    def run(
        self,
        program: Program,
        turns: list[list[dict[str, Any]]],
        *,
        home: Path | None = None,
        options: tuple[str, ...] = FULL_ACCESS,
        resume: str | None = None,
        watch_cpu: bool = False,
        limit_s: float = 900.0,
        wire: str = "responses",
    ) -> Run:
        """`exec` one prompt with this script and wait for the end."""
        home = home or (self.home(program) if wire == "responses" else self.home(program, wire, wire))
        self.load(turns, wire)
        arguments = ["exec", "--json", *options, *(["resume", resume] if resume else []), "hello"]
        events, errors = self.scratch / "events.jsonl", self.scratch / "stderr.txt"
        with events.open("wb") as stdout, errors.open("wb") as stderr:
            started_s = time.monotonic()
            child = subprocess.Popen(
                [*program.command, *arguments],
                cwd=self.workspace,
                env=environment(home, self.scratch),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
            )
            if watch_cpu:
                self._order(do="watch", pid=child.pid)
            status, usage = wait(child, limit_s)
            ended_s = time.monotonic()
        report = self._order(do="report")
        if status != 0 or report["unused"] or not report["requests"]:
            tail = errors.read_text(errors="replace")[-600:]
            raise BenchError(f"{program.name}: exit {status}, {report['unused']} answers left; {tail}")
        first = json.loads(events.read_bytes().split(b"\n", 1)[0])
        return Run(
            started_s=started_s,
            ended_s=ended_s,
            cpu_s=usage.ru_utime + usage.ru_stime,
            peak_mb=usage.ru_maxrss / (1024 if sys.platform == "linux" else 1 << 20),
            requests=report["requests"],
            thread_id=first["thread_id"],
        )

    def time_version(self, program: Program) -> float:
        started_s = time.monotonic()
        subprocess.run(
            [*program.command, "--version"],
            env=environment(self.home(program), self.scratch),
            stdout=subprocess.DEVNULL,
            check=True,
        )
        return time.monotonic() - started_s

    def time_sandbox(self, program: Program, count: int) -> tuple[list[float], list[float]]:
        """Milliseconds for a confined `true`: from within a running agent, or by the program's own command; and, from
        within the agent, for one that is not confined."""
        home = self.home(program)
        folder = self.scratch / "sandboxed"
        folder.mkdir(exist_ok=True)
        options: dict[str, Any] = {"env": environment(home, self.scratch), "cwd": folder, "check": True}
        if program.is_spindle:
            python = Path(program.command[0]).parent / "python"
            words = [str(python), str(HERE / "sandboxed_true.py"), str(count), str(self.scratch)]
            done = subprocess.run(words, stdout=subprocess.PIPE, text=True, **options)
            pairs = [line.split() for line in done.stdout.splitlines()]
            return [float(confined) for confined, _ in pairs], [float(free) for _, free in pairs]
        found: list[float] = []
        for _ in range(max(3, count // 10)):
            started_s = time.monotonic()
            subprocess.run([*program.command, "sandbox", "--", "true"], stdout=subprocess.DEVNULL, **options)
            found.append((time.monotonic() - started_s) * 1000)
        return found, []

    def time_own(self, program: Program, script: str, count: int) -> dict[str, list[float]]:
        """What a script beside this file reads by itself, inside the program's own interpreter, by name."""
        home = self.home(program)
        python = Path(program.command[0]).parent / "python"
        folder = self.scratch / "own"
        (folder / "home").mkdir(parents=True, exist_ok=True)
        words = [str(python), str(HERE / script), str(count), str(folder)]
        env = environment(home, self.scratch)
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False, env=env, cwd=folder)
        if done.returncode != 0:
            raise BenchError(f"{script} ended with {done.returncode}")
        found: dict[str, list[float]] = {}
        for line in done.stdout.splitlines():
            name, reading = line.split()
            found.setdefault(name, []).append(float(reading))
        return found


def wait(child: subprocess.Popen[bytes], limit_s: float) -> tuple[int, Any]:
    """The exit code and what the process used; kills it at the limit."""
    if hasattr(os, "pidfd_open"):
        pidfd = os.pidfd_open(child.pid)
        try:
            if not select.select([pidfd], [], [], limit_s)[0]:
                child.kill()
        finally:
            os.close(pidfd)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return child.returncode, usage


def environment(home: Path, scratch: Path) -> dict[str, str]:
    """The same small environment for every program; nothing can reach another machine."""
    dead = "http://127.0.0.1:9"
    return {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "HOME": str(scratch),
        "LANG": "C.UTF-8",
        "CODEX_HOME": str(home),
        "BENCH_API_KEY": "bench",
        "HTTP_PROXY": dead,
        "HTTPS_PROXY": dead,
        "NO_PROXY": "127.0.0.1",
    }


def version_of(command: tuple[str, ...]) -> str:
    done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    return done.stdout.strip().rpartition(" ")[2]


def find_codex(given: str | None) -> str | None:
    """The native Codex program: as given, else from PATH; a launcher script of npm is followed to its binary."""
    path = given or shutil.which("codex")
    if path is None:
        return None
    real = Path(path).resolve()
    with real.open("rb") as file:
        if not file.read(2).startswith(b"#!"):
            return str(real)
    # …/node_modules/@openai/codex/bin/codex.js starts …/node_modules/@openai/codex-linux-x64/vendor/TRIPLE/…/codex
    for packages in (real.parents[1] / "node_modules" / "@openai", real.parents[2]):
        for binary in sorted(packages.glob("codex-*/vendor/*/*/codex")):
            if os.access(binary, os.X_OK):
                return str(binary)
    raise BenchError(f"{path} is a launcher script, and the native program it starts was not found; name it by --codex")
