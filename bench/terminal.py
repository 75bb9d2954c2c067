"""Measure the terminal interface against Codex's, each in a pseudo-terminal, taking turns.

    python bench/terminal.py [--quick] [--codex PATH] [--spindle PATH] [--only SCENARIO]... [--write]

Prints medians. `--write` puts the table into docs/performance.md. Needs nothing but the standard library; Linux only.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

from harness import Bench, BenchError, Program, find_codex, version_of
from pseudo_terminal import Session, open_home
from run import REPOSITORY, describe, say, write_page
from scenarios import Readings, Sizes, rounds, says

BEGIN, END = "<!-- terminal: begin -->", "<!-- terminal: end -->"
LETTERS = [chr(0x430 + number) for number in range(30)]
"""Keys that nothing else on the screen contains."""
INTERRUPTED = re.compile(rb"[Ii]nterrupted")


@dataclass(frozen=True)
class Row:
    """One line of the table: a figure of ours with its limit and its aim, beside Codex's."""

    key: str
    label: str
    unit: str
    must: float
    aim: float


ROWS = (
    Row("first_paint", "first paint of the composer", "ms", 250, 150),
    Row("prompt", "PROMPT argument to request on the wire", "ms", 700, 350),
    Row("echo", "key echo, idle, median", "ms", 8, 4),
    Row("echo_p95", "the same, 95th percentile", "ms", 20, 10),
    Row("echo_busy", "key echo at 200 deltas/s, median", "ms", 15, 8),
    Row("echo_busy_p95", "the same, 95th percentile", "ms", 20, 12),
    Row("bytes_per_delta", "bytes written per delta", "", 100, 60),
    Row("deltas_cpu", "CPU for 1,400 deltas", "s", 2.0, 1.0),
    Row("idle_bytes", "bytes written in 10 s of idling", "", 0, 0),
    Row("idle_cpu", "CPU of 10 s of idling", "s", 0.02, 0.01),
    Row("long_shown", "thread of 2,000 items: start to last answer shown", "s", 1.4, 0.7),
    Row("long_echo", "key echo in it, median", "ms", 8, 4),
    Row("long_memory", "memory of it, all processes", "MB", 120, 90),
    Row("interrupt", "Esc to the end of the turn", "ms", 200, 100),
    Row("memory", "memory after start, all processes", "MB", 90, 60),
)
Scenario = Callable[[Bench, Program, Readings], None]


def start(bench: Bench, program: Program, into: Readings) -> None:
    with Session(bench, program) as session:
        shown_s = session.wait_for("›".encode())
        into.setdefault("first_paint", []).append((shown_s - session.started_s) * 1000)


def prompt(bench: Bench, program: Program, into: Readings) -> None:
    bench.load([[says("done")]])
    with Session(bench, program, "hello") as session:
        arrived_s = bench.first_request(timeout_s=20)
        into.setdefault("prompt", []).append((arrived_s - session.started_s) * 1000)


def idle(bench: Bench, program: Program, into: Readings) -> None:
    with Session(bench, program) as session:
        session.settle()
        found = session.echoes(LETTERS)
        into.setdefault("echo", []).append(median(found))
        into.setdefault("echo_p95", []).append(percentile_95(found))
        session.settle(2.0)
        into.setdefault("memory", []).append(session.memory_mb())
        cpu_s, written = session.cpu_s(), session.written
        time.sleep(10)
        into.setdefault("idle_cpu", []).append(session.cpu_s() - cpu_s)
        into.setdefault("idle_bytes", []).append(session.written - written)


def stream(bench: Bench, program: Program, into: Readings) -> None:
    text = " ".join(f"tok{number}" + ("\n\n" if number % 40 == 39 else "") for number in range(1400))
    bench.load([{"items": [says(text, 1400)], "gap_s": 0.005}])
    with Session(bench, program) as session:
        session.settle()
        cpu_s, written = session.cpu_s(), session.written
        session.enter("go")
        session.wait_for(b"tok9")
        found = session.echoes(LETTERS, gap_s=0.07)
        if session.has(b"tok1399"):
            raise BenchError(f"{program.name}: the stream ended before the keys were measured")
        session.wait_for(b"tok1399", timeout_s=30)
        session.settle()
        into.setdefault("echo_busy", []).append(median(found))
        into.setdefault("echo_busy_p95", []).append(percentile_95(found))
        into.setdefault("deltas_cpu", []).append(session.cpu_s() - cpu_s)
        into.setdefault("bytes_per_delta", []).append((session.written - written) / 1400)


def interrupt(bench: Bench, program: Program, into: Readings) -> None:
    bench.load([{"items": [says("begun")], "gap_s": 0.3, "hang_s": 30}, [says("done")]])
    with Session(bench, program) as session:
        session.settle()
        session.enter("go")
        bench.first_request(timeout_s=20)
        session.wait_for(b"begun")
        time.sleep(0.7)
        begun_s = session.send(b"\x1b")
        ended_s = session.wait_for(INTERRUPTED, since=session.written)
        into.setdefault("interrupt", []).append((ended_s - begun_s) * 1000)


def long_thread(bench: Bench, program: Program, into: Readings) -> None:
    """999 calls with their outputs, a question and an answer; made once for each program."""
    home = open_home(bench, program, "long-screen")
    marker = home / "thread-id"
    if not marker.exists():
        turns = rounds(999, "echo done")
        turns[-1] = [says("the-very-last-answer")]
        marker.write_text(bench.run(program, turns, home=home).thread_id)
    with Session(bench, program, "resume", marker.read_text(), home=home) as session:
        shown_s = session.wait_for(b"the-very-last-answer", timeout_s=60)
        into.setdefault("long_shown", []).append(shown_s - session.started_s)
        session.settle()
        into.setdefault("long_echo", []).append(median(session.echoes(LETTERS)))
        into.setdefault("long_memory", []).append(session.memory_mb())


SCENARIOS: tuple[tuple[Scenario, int], ...] = (
    (start, 15),
    (prompt, 10),
    (idle, 3),
    (stream, 3),
    (interrupt, 5),
    (long_thread, 5),
)


def percentile_95(found: list[float]) -> float:
    return quantiles(found, n=20)[-1]


def measure(bench: Bench, programs: list[Program], *, quick: bool, only: list[str]) -> dict[str, Readings]:
    readings: dict[str, Readings] = {program.name: {} for program in programs}
    for program in programs:
        attempt(start, bench, program, {})  # fills the page cache and the program's own caches
    for scenario, repeats in SCENARIOS:
        if only and scenario.__name__ not in only:
            continue
        say(f"{scenario.__name__} …")
        for number in range(min(2, repeats) if quick else repeats):
            for program in programs if number % 2 == 0 else reversed(programs):
                attempt(scenario, bench, program, readings[program.name])
    return readings


def attempt(scenario: Scenario, bench: Bench, program: Program, into: Readings) -> None:
    try:
        scenario(bench, program, into)
    except BenchError as error:
        say(f"  no figure: {error}")


def render(readings: dict[str, Readings]) -> tuple[str, bool]:
    lines = ["| what | Spindle | Codex | must | aim | |", "|---|--:|--:|--:|--:|---|"]
    passed = True
    for row in ROWS:
        ours, theirs = readings["spindle"].get(row.key), readings.get("codex", {}).get(row.key)
        verdict = judge(row, None if not ours else median(ours))
        passed = passed and verdict != "**misses**"
        cells = [row.label, show(ours, row), show(theirs, row), f"≤ {row.must:g} {row.unit}", f"≤ {row.aim:g}", verdict]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines), passed


def judge(row: Row, value: float | None) -> str:
    if value is None:
        return "not measured"
    if value > row.must:
        return "**misses**"
    return "meets" if value <= row.aim else "meets must, not aim"


def show(found: list[float] | None, row: Row) -> str:
    if not found:
        return "–"
    value = median(found)
    return f"{value:.{0 if value >= 100 or not row.unit else 3 if row.unit == 's' else 1}f} {row.unit}".strip()


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the terminal interface against Codex's.")
    parser.add_argument("--quick", action="store_true", help="two runs of everything")
    parser.add_argument("--spindle", default=str(REPOSITORY / ".venv/bin/spindle"), help="the command to measure")
    parser.add_argument("--codex", help="the Codex to compare with (default: the one on PATH)")
    parser.add_argument("--alone", action="store_true", help="measure Spindle without a comparison")
    parser.add_argument("--model", default="gpt-5.2-codex", help="the model slug for Spindle")
    parser.add_argument("--codex-model", default="gpt-5.5", help="a slug the compared Codex knows")
    parser.add_argument("--only", action="append", default=[], metavar="SCENARIO", help="a function of this file")
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    arguments = parser.parse_args()
    spindle = tuple(arguments.spindle.split())
    programs = [Program("spindle", spindle, arguments.model, version_of(spindle), is_spindle=True)]
    codex = None if arguments.alone else find_codex(arguments.codex)
    if codex is not None:
        programs.append(Program("codex", (codex,), arguments.codex_model, version_of((codex,))))
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    bench = Bench(cache / "spindle-bench" / str(os.getpid()))
    try:
        readings = measure(bench, programs, quick=arguments.quick, only=arguments.only)
    finally:
        bench.close()
    table, passed = render(readings)
    text = f"{describe(programs, Sizes())}\n\n{table}\n"
    print(text)
    if arguments.write:
        write_page(text, BEGIN, END)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
