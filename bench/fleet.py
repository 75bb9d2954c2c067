"""Measure a fleet: many tasks in few processes, beside the same tasks as one `exec` process each.

    python bench/fleet.py [--quick] [--spindle PATH] [--ray] [--only SCENARIO]... [--scratch DIR] [--write]

The model server is a process of its own and is not counted. CPU is that of the driver and of everything it started and
waited for: workers, git, sandboxes. Memory is that of all processes, shared pages counted once. `--ray` adds a cluster
of two nodes on this machine, one of which is killed; it needs Ray beside Spindle. `--write` puts the table into
docs/performance.md. Linux only.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from harness import Bench, BenchError, Program, environment, version_of, wait
from run import REPOSITORY, describe, limit, say, show, write_page
from scenarios import Judged, Sizes, says

BEGIN, END = "<!-- fleet: begin -->", "<!-- fleet: end -->"
AT_ONCE = 16
ROUNDS = 3
ROWS = (
    Judged("fleet_wall", "{tasks} tasks of one request", "s", "absolute", 60),
    Judged("fleet_memory", "memory of it, all processes", "MB", "absolute", 400),
    Judged("fleet_cpu", "CPU of a task, everything counted", "ms", "ratio", 1.0),
    Judged("overhead", "what the fleet adds to a bare session, CPU", "ms", "absolute", 25),
    Judged("waiting", "{waiting} tasks that wait, in one worker", "MB", "absolute", 300),
    Judged("interrupt", "Ctrl-C to the end, all of them waiting", "s", "absolute", 10),
    Judged("resume", "resume of {recorded} recorded tasks", "s", "absolute", 5),
    Judged("resume_list", "the same with the list given again", "s", "absolute", 5),
    Judged("left", "processes, locks and workspaces left behind", "", "absolute", 0),
    Judged("ray_lost", "Ray, one of two nodes killed: tasks lost or done twice", "", "absolute", 0),
)


@dataclass(frozen=True)
class Counts:
    """How many tasks of each kind."""

    tasks: int = 300
    waiting: int = 1000
    recorded: int = 100_000
    execs: int = 60


class Fleet:
    """The command, its list and its folders below the bench's scratch folder."""

    def __init__(self, bench: Bench, program: Program) -> None:
        self.bench = bench
        self.program = program
        self.home = bench.home(program, "fleet")
        self.cache = bench.scratch / "cache"
        self.environment = {**environment(self.home, bench.scratch), "XDG_CACHE_HOME": str(self.cache)}
        self.left = 0
        self._runs = 0

    def list_of(self, count: int) -> Path:
        path = self.bench.scratch / f"tasks-{count}.jsonl"
        repo = str(self.bench.workspace)
        with path.open("w") as file:
            for number in range(count):
                file.write(json.dumps({"id": f"t{number:06d}", "prompt": "hello", "repo": repo}) + "\n")
        return path

    def new_out(self) -> Path:
        self._runs += 1
        return self.bench.scratch / f"out-{self._runs}"

    def start(self, *words: object, **how: Any) -> subprocess.Popen[bytes]:
        with (self.bench.scratch / "fleet-stderr.txt").open("wb") as stderr:
            return subprocess.Popen(
                [*self.program.command, "fleet", "run", *map(str, words)],
                cwd=self.bench.workspace,
                env={**self.environment, **how.pop("more", {})},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
            )

    def end(self, driver: subprocess.Popen[bytes], expected: int = 0, limit_s: float = 300.0) -> float:
        """Wait for the end; gives its CPU seconds. What is left of it is counted."""
        code, usage = wait(driver, limit_s)
        if code != expected:
            tail = (self.bench.scratch / "fleet-stderr.txt").read_text(errors="replace")[-600:]
            raise BenchError(f"fleet run: exit {code}; {tail}")
        self.left += len(self.processes()) + len([*self.cache.glob("spindle/attempts/*")])
        return usage.ru_utime + usage.ru_stime

    def processes(self) -> list[int]:
        """Everything that has our home in its environment."""
        mark = f"CODEX_HOME={self.home}".encode()
        found: list[int] = []
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                with contextlib.suppress(OSError), open(f"/proc/{entry}/environ", "rb") as file:
                    if mark in file.read().split(b"\0"):
                        found.append(int(entry))
        return found

    def memory_mb(self) -> float:
        return sum(map(memory_of, self.processes())) / 1024

    def check_once(self, out: Path, count: int) -> int:
        """How many tasks have no record or more than one, and how many are not `ok`."""
        records = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
        counted = Counter(record["id"] for record in records)
        failed = sum(record["status"] != "ok" for record in records)
        return count - len(counted) + sum(times - 1 for times in counted.values()) + failed


def memory_of(process: int) -> int:
    """Kilobytes; a page that several processes have is shared out among them."""
    with contextlib.suppress(OSError), open(f"/proc/{process}/smaps_rollup", "rb") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith(b"Pss:"))
    return 0


Figures = dict[str, float]


def tasks(fleet: Fleet, counts: Counts, found: Figures, beside: Figures) -> None:
    """Tasks of one request: as a fleet, as bare sessions, and as processes of their own."""
    walls, cpus, bares = list[float](), list[float](), list[float]()
    for _ in range(ROUNDS):
        wall, cpu, _ = _as_fleet(fleet, counts, watches_memory=False)
        walls.append(wall)
        cpus.append(cpu)
        fleet.bench.load([[says("done")]] * counts.tasks)
        bares += fleet.bench.time_own(fleet.program, "bare_sessions.py", counts.tasks)["cpu_ms"]
    found["fleet_wall"] = median(walls)
    found["fleet_cpu"] = median(cpus)
    found["overhead"] = median(cpus) - median(bares)
    found["fleet_memory"] = _as_fleet(fleet, counts, watches_memory=True)[2]
    _as_processes(fleet, counts, beside)


def _as_fleet(fleet: Fleet, counts: Counts, *, watches_memory: bool) -> tuple[float, float, float]:
    """Seconds, milliseconds of CPU a task, and megabytes at the peak. To look at the memory of processes costs them
    time, so only one run is watched."""
    fleet.bench.load([[says("done")]] * counts.tasks)
    out, listed = fleet.new_out(), fleet.list_of(counts.tasks)
    started, peak = time.monotonic(), 0.0
    driver = fleet.start(listed, "--out", out, "--jobs", AT_ONCE)
    while watches_memory and os.waitid(os.P_PID, driver.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        peak = max(peak, fleet.memory_mb())
        time.sleep(0.2)
    cpu = fleet.end(driver)
    wall = time.monotonic() - started
    if bad := fleet.check_once(out, counts.tasks):
        raise BenchError(f"{bad} tasks were not done once")
    return wall, cpu * 1000 / counts.tasks, peak


def _as_processes(fleet: Fleet, counts: Counts, beside: Figures) -> None:
    fleet.bench.load([[says("done")]] * counts.tasks)
    words = [*fleet.program.command, "exec", "--json", "hello"]

    def one(_: int) -> float:
        child = subprocess.Popen(
            words,
            cwd=fleet.bench.workspace,
            env=fleet.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        code, usage = wait(child, 120)
        if code != 0:
            raise BenchError(f"exec: exit {code}")
        return usage.ru_utime + usage.ru_stime

    started = time.monotonic()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        cpu = sum(pool.map(one, range(counts.tasks)))
    beside["fleet_wall"] = time.monotonic() - started
    beside["fleet_cpu"] = cpu * 1000 / counts.tasks


def waiting(fleet: Fleet, counts: Counts, found: Figures, beside: Figures) -> None:
    """Tasks whose model does not answer, all in one worker; then Ctrl-C."""
    silent = {"items": [says("never")], "hang_s": 3600.0}
    fleet.bench.load([silent] * counts.waiting)
    out, listed = fleet.new_out(), fleet.list_of(counts.waiting)
    driver = fleet.start(listed, "--out", out, "--jobs", counts.waiting, "--workers", 1)
    _wait_for_requests(fleet.bench, counts.waiting)
    worker = json.loads((out / "attempts.jsonl").read_text().split("\n", 1)[0])["pid"]
    found["waiting"] = memory_of(worker) / 1024
    before = time.monotonic()
    driver.send_signal(signal.SIGINT)
    fleet.end(driver, expected=3)
    found["interrupt"] = time.monotonic() - before
    beside["waiting"] = _waiting_processes(fleet, counts) * counts.waiting


def _waiting_processes(fleet: Fleet, counts: Counts) -> float:
    """Megabytes of an `exec` that waits, of many at once."""
    fleet.bench.load([{"items": [says("never")], "hang_s": 3600.0}] * counts.execs)
    words = [*fleet.program.command, "exec", "--json", "hello"]
    quiet: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    children = [
        subprocess.Popen(words, cwd=fleet.bench.workspace, env=fleet.environment, **quiet) for _ in range(counts.execs)
    ]
    try:
        _wait_for_requests(fleet.bench, counts.execs)
        return sum(memory_of(child.pid) for child in children) / 1024 / counts.execs
    finally:
        for child in children:
            child.kill()
            child.wait()


def _wait_for_requests(bench: Bench, count: int, limit_s: float = 240.0) -> None:
    give_up = time.monotonic() + limit_s
    while (arrived := bench.arrived()) < count:
        if time.monotonic() > give_up:
            raise BenchError(f"{arrived} of {count} requests arrived")
        time.sleep(0.1)


def resume(fleet: Fleet, counts: Counts, found: Figures, beside: Figures) -> None:
    """A run that is all recorded: what is left is to read it and to say so."""
    fleet.bench.load([[says("done")]])
    out, listed = fleet.new_out(), fleet.list_of(counts.recorded)
    first = listed.with_name("first.jsonl")
    with listed.open() as file:
        first.write_text(file.readline())
    fleet.end(fleet.start(first, "--out", out))
    for name in ("tasks.jsonl", "results.jsonl", "attempts.jsonl", "spend.jsonl"):
        one = (out / name).read_text()
        with (out / name).open("w") as file:
            for number in range(counts.recorded):
                file.write(one.replace("t000000", f"t{number:06d}"))
    for key, words in (("resume", ()), ("resume_list", (listed,))):
        started = time.monotonic()
        fleet.end(fleet.start(*words, "--out", out, "--resume"))
        found[key] = time.monotonic() - started


def ray(fleet: Fleet, counts: Counts, found: Figures, beside: Figures) -> None:
    """Two nodes; one is killed while its tasks wait. Each task is recorded once all the same."""
    count = 40
    slow = {"items": [says("done")], "hang_s": 2.0}
    fleet.bench.load([slow] * (3 * count))
    token = fleet.bench.scratch / "token"
    token.write_text("0123456789abcdef" * 4)
    token.chmod(0o600)
    more = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token), "RAY_USAGE_STATS_ENABLED": "0"}
    out, listed = fleet.new_out(), fleet.list_of(count)
    with _cluster(fleet, more) as cluster:
        words = (listed, "--out", out, "--engine", "ray", "--address", cluster["address"], "--workers", 2, "--jobs", 8)
        driver = fleet.start(*words, more=more)
        give_up = time.monotonic() + 120
        while len(set(_workers_of(out))) < 2 and time.monotonic() < give_up:
            time.sleep(0.1)
        os.kill(cluster["raylets"][1], signal.SIGKILL)
        code, _ = wait(driver, 300)
    if code != 0:
        tail = (fleet.bench.scratch / "fleet-stderr.txt").read_text(errors="replace")[-600:]
        raise BenchError(f"fleet run: exit {code}; {tail}")
    found["ray_lost"] = fleet.check_once(out, count)
    fleet.left += len([*fleet.cache.glob("spindle/attempts/*")])


def _workers_of(out: Path) -> Iterator[int]:
    with contextlib.suppress(OSError):
        for line in (out / "attempts.jsonl").read_text().split("\n")[:-1]:
            yield json.loads(line)["pid"]


CLUSTER = """
import json, sys
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
nodes = [cluster.head_node, cluster.add_node(num_cpus=1)]
raylets = [node.all_processes["raylet"][0].process.pid for node in nodes]
print(json.dumps({"address": cluster.address, "raylets": raylets}), flush=True)
sys.stdin.read()
cluster.shutdown()
"""


@contextmanager
def _cluster(fleet: Fleet, more: dict[str, str]) -> Iterator[dict[str, Any]]:
    python = Path(fleet.program.command[0]).parent / "python"
    process = subprocess.Popen(
        [str(python), "-c", CLUSTER],
        env={**fleet.environment, **more},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())
    finally:
        process.stdin.close()
        process.wait(60)
        process.stdout.close()


SCENARIOS: tuple[Callable[[Fleet, Counts, Figures, Figures], None], ...] = (tasks, waiting, resume, ray)


def render(found: Figures, beside: Figures, counts: Counts) -> tuple[str, bool]:
    names = {name: f"{getattr(counts, name):,}" for name in ("tasks", "waiting", "recorded")}
    lines = ["| what | fleet | one `exec` each | must | |", "|---|--:|--:|--:|---|"]
    passed = True
    for row in ROWS:
        value = found.get(row.key)
        other = beside.get(row.key)
        judged = value / other if row.kind == "ratio" and value is not None and other else value
        verdict = "not measured" if judged is None else "meets" if judged <= row.must else "**misses**"
        passed = passed and verdict != "**misses**"
        cells = [row.label.format(**names), show(value, row), show(other, row), limit(row.must, row)]
        lines.append("| " + " | ".join([*cells, verdict]) + " |")
    return "\n".join(lines), passed


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure a fleet beside the same tasks as processes of their own.")
    parser.add_argument("--quick", action="store_true", help="a tenth of the tasks")
    parser.add_argument("--spindle", default=str(REPOSITORY / ".venv/bin/spindle"), help="the command to measure")
    parser.add_argument("--ray", action="store_true", help="also a cluster of two nodes, one of which is killed")
    parser.add_argument("--only", action="append", default=[], metavar="SCENARIO", help="a function of this file")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "spindle-bench"
    parser.add_argument("--scratch", type=Path, default=cache, help="work below this folder: its file system counts")
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    arguments = parser.parse_args()
    spindle = tuple(arguments.spindle.split())
    program = Program("spindle", spindle, "gpt-5.2-codex", version_of(spindle), is_spindle=True)
    counts = Counts(tasks=30, waiting=100, recorded=10_000, execs=6) if arguments.quick else Counts()
    bench = Bench(arguments.scratch / str(os.getpid()))
    found: Figures = {}
    beside: Figures = {}
    failed = False
    try:
        fleet = Fleet(bench, program)
        for scenario in SCENARIOS:
            name = scenario.__name__
            if name in arguments.only or (not arguments.only and (name != "ray" or arguments.ray)):
                say(f"{name} ...")
                try:
                    scenario(fleet, counts, found, beside)
                except BenchError as error:
                    say(f"{name}: {error}")
                    failed = True
                found["left"] = fleet.left
    finally:
        bench.close()
    table, passed = render(found, beside, counts)
    heading = describe([program], Sizes()).rpartition(" · ")[0]
    text = f"{heading} · one run\n\n{table}\n"
    print(text)
    if arguments.write:
        write_page(text, BEGIN, END)
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
