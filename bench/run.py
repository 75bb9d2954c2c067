"""Measure Spindle against the native Codex on this machine.

    python bench/run.py [--quick] [--codex PATH] [--spindle PATH] [--before PATH] [--only SCENARIO]... [--write]

Prints medians and ratios. With `--before`, the `spindle` of another checkout takes its turns in the same run, and a
second table says what the change between the two did. `--write` puts the first table into docs/performance.md. Needs
nothing but the standard library.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from pathlib import Path
from statistics import median

from harness import Bench, Program, find_codex, version_of
from scenarios import JUDGED, QUICK, Judged, Readings, Sizes, measure

REPOSITORY = Path(__file__).parent.parent
PAGE = REPOSITORY / "docs" / "performance.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def main() -> int:
    arguments = parse()
    sizes = QUICK if arguments.quick else Sizes()
    spindle = arguments.spindle.split()
    programs = [Program("spindle", tuple(spindle), arguments.model, version_of(tuple(spindle)), is_spindle=True)]
    if arguments.before:
        before = tuple(arguments.before.split())
        programs.append(Program("before", before, arguments.model, version_of(before), is_spindle=True))
    codex = None if arguments.alone else find_codex(arguments.codex)
    if codex is not None:
        programs.append(Program("codex", (codex,), arguments.codex_model, version_of((codex,))))
    elif not arguments.alone:
        say("No Codex on PATH and none given: only Spindle is measured.")
    # Not in the system's temporary folder: Codex leaves out part of its set-up there.
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    bench = Bench(cache / "spindle-bench" / str(os.getpid()))
    try:
        readings = measure(bench, programs, sizes, arguments.only, say)
    finally:
        bench.close()
    table, passed = render(readings, sizes)
    text = f"{describe(programs, sizes)}\n\n{table}\n"
    print(text)
    if arguments.before:
        print(render_change(readings["before"], readings["spindle"]))
    if arguments.write:
        write_page(text)
        say(f"written to {PAGE.relative_to(REPOSITORY)}")
    return 0 if passed else 1


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure Spindle against the native Codex on this machine.")
    parser.add_argument("--quick", action="store_true", help="smaller numbers, a minute instead of ten")
    parser.add_argument("--spindle", default=str(REPOSITORY / ".venv/bin/spindle"), help="the command to measure")
    parser.add_argument("--codex", help="the Codex to compare with (default: the one on PATH)")
    parser.add_argument("--before", help="the `spindle` of another checkout, to see what a change does")
    parser.add_argument("--alone", action="store_true", help="measure Spindle without a comparison")
    parser.add_argument("--model", default="gpt-5.2-codex", help="the model slug for Spindle")
    parser.add_argument("--codex-model", default="gpt-5.5", help="a slug the compared Codex knows")
    parser.add_argument("--only", action="append", default=[], metavar="SCENARIO", help="a function of scenarios.py")
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    return parser.parse_args()


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def describe(programs: list[Program], sizes: Sizes) -> str:
    versions = ", ".join(f"{program.name} {program.version}" for program in programs)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (
        f"{time.strftime('%Y-%m-%d')} · {versions} · Python {platform.python_version()} · "
        f"{platform.system()} {platform.release()} {platform.machine()} · {cores} cores · "
        f"medians of up to {sizes.repeats} interleaved runs"
    )


def render(readings: dict[str, Readings], sizes: Sizes) -> tuple[str, bool]:
    """The table, and whether every figure that could be judged is within its limit."""
    ours, theirs = readings["spindle"], readings.get("codex", {})
    names = {"calls": f"{sizes.calls:,}", "deltas": f"{sizes.deltas:,}", "flood": str(sizes.flood_mb)}
    names["files"] = f"{sizes.files:,}"
    lines = ["| what | Spindle | Codex | ratio | must | aim | |", "|---|--:|--:|--:|--:|--:|---|"]
    passed = True
    for row in JUDGED:
        mine = median(ours[row.key]) if ours.get(row.key) else None
        other = median(theirs[row.key]) if theirs.get(row.key) else None
        ratio = mine / other if mine is not None and other else None
        verdict = judge(row, mine, ratio)
        passed = passed and verdict != "**misses**"
        shown_ratio = f"{ratio:.2f}" if ratio is not None and row.kind == "ratio" else "–"
        cells = [row.label.format(**names), show(mine, row), show(other, row), shown_ratio, limit(row.must, row)]
        lines.append("| " + " | ".join([*cells, limit(row.aim, row), verdict]) + " |")
    return "\n".join(lines), passed


def render_change(before: Readings, after: Readings) -> str:
    """Each row before and after a change, both from this run: the median, and the best reading, which says more of the
    program and less of whatever else the machine did."""
    lines = ["| what | before | after | median | best |", "|---|--:|--:|--:|--:|"]
    for key, readings in after.items():
        old = before.get(key)
        if not old or not median(old) or not min(old):
            continue
        ratios = (median(readings) / median(old), min(readings) / min(old))
        cells = [f"{median(old):.4g}", f"{median(readings):.4g}", *(f"{ratio - 1:+.1%}" for ratio in ratios)]
        lines.append(f"| {key} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def judge(row: Judged, mine: float | None, ratio: float | None) -> str:
    value = ratio if row.kind == "ratio" else mine
    if value is None:
        return "not measured" if mine is None else "nothing to compare with"
    if value > row.must:
        return "**misses**"
    return "meets" if row.aim is None or value <= row.aim else "meets must, not aim"


def show(value: float | None, row: Judged) -> str:
    if value is None:
        return "–"
    digits = 2 if row.unit in ("s", "×") or value < 1 else 0 if row.unit == "" or value >= 100 else 1
    return f"{value:.{digits}f} {row.unit}".strip()


def limit(value: float | None, row: Judged) -> str:
    if value is None:
        return ""
    return f"≤ {value:g}" if row.kind == "ratio" else f"≤ {value:g} {row.unit}".strip()


def write_page(text: str, begin: str = BEGIN, end: str = END) -> None:
    """Put a table between its two marks."""
    page = PAGE.read_text()
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    PAGE.write_text(f"{before}{begin}\n{text}{end}{after}")


if __name__ == "__main__":
    sys.exit(main())
