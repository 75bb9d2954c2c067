"""What is measured, in which unit, and what counts as good.

A scenario returns readings by name for one program; `JUDGED` says how the medians are compared. The figures are the
project's own promises: *must* is the limit, *aim* is where we want to be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median
from subprocess import CalledProcessError
from typing import Any, Literal

from harness import Bench, BenchError, Program
from interrupts import STATES, time_interrupt

Readings = dict[str, list[float]]
Item = dict[str, Any]


@dataclass(frozen=True)
class Judged:
    """One row of the table. A ratio is Spindle's median over Codex's; an absolute row judges Spindle's median alone."""

    key: str
    label: str
    unit: Literal["ms", "MB", "s", "×", ""]
    kind: Literal["ratio", "absolute"]
    must: float
    aim: float | None = None


JUDGED = [
    Judged("warm_start", "warm start to first request", "ms", "ratio", 0.8, 0.55),
    Judged("fresh_start", "start in a fresh home to first request", "ms", "ratio", 0.6, 0.4),
    Judged("one_message", "one message, start to exit", "ms", "ratio", 0.8, 0.55),
    Judged("round", "tool round without sandbox", "ms", "ratio", 0.13, 0.05),
    Judged("sandboxed_round", "tool round in the sandbox", "ms", "ratio", 0.25, 0.08),
    Judged("sandboxed_true", "a sandboxed `true`, agent running (Codex: `codex sandbox`)", "ms", "absolute", 12.0),
    Judged("sandbox_adds", "what the sandbox adds to it", "ms", "absolute", 12.0),
    Judged("late_round", "tool round after {calls} calls of 2 KB", "ms", "ratio", 0.4, 0.2),
    Judged("late_cpu", "its CPU, against the tenth call's", "×", "absolute", 2.0),
    Judged("chat_round", "tool round on Chat Completions, against Responses", "×", "absolute", 1.15),
    Judged("messages_round", "tool round on Messages, against Responses", "×", "absolute", 1.15),
    Judged("late_chat_round", "the former after {calls} calls of 2 KB", "×", "absolute", 1.3),
    Judged("late_messages_round", "the latter after {calls} calls of 2 KB", "×", "absolute", 1.3),
    Judged("deltas_cpu", "{deltas} text deltas, CPU", "ms", "ratio", 1.0, 0.45),
    Judged("resume", "resume of a thread with {calls} calls to first request", "ms", "ratio", 0.8, 0.4),
    Judged("flood", "a command that prints {flood} MB", "ms", "ratio", 1.0, 0.6),
    Judged("flood_growth", "its peak memory over that of one message", "MB", "absolute", 16.0, 4.0),
    Judged("parallel", "eight `sleep 0.5` in parallel", "s", "absolute", 0.6),
    Judged("peak_small", "peak memory, one message", "MB", "absolute", 60.0, 40.0),
    Judged("peak_large", "peak memory, {calls} calls", "MB", "absolute", 120.0, 60.0),
    Judged("connections", "TCP connections of a session", "", "absolute", 1.0),
    Judged("interrupt", "interrupt to idle, the slowest state", "ms", "absolute", 200.0),
    Judged("compaction", "compaction of 1,000 calls, our own CPU", "ms", "absolute", 50.0, 30.0),
    Judged("rule", "clearing 1,000 calls by rule, CPU", "ms", "absolute", 20.0, 10.0),
    Judged("rule_everything", "the same with every option", "ms", "absolute", 20.0, 15.0),
    Judged("undo_turn", "keeping files for undo, a turn in {files} files", "ms", "absolute", 300.0, 50.0),
    Judged("undo_nothing", "the same for a turn that only looks", "ms", "absolute", 5.0),
    Judged("version", "`--version`", "ms", "ratio", 2.0),
    Judged("import_spindle", "`import spindle` over a bare interpreter", "ms", "absolute", 1.0),
    Judged("api_round", "what `Spindle.run` adds to a turn over the engine", "ms", "absolute", 2.0),
    Judged("idle_thread", "memory of an idle thread, of 100 in one process", "MB", "absolute", 0.15),
]


@dataclass(frozen=True)
class Sizes:
    """How much of everything; `--quick` takes the small ones."""

    repeats: int = 15
    rounds: int = 60
    calls: int = 1000
    deltas: int = 20_000
    flood_mb: int = 50
    repeats_of_long: int = 5
    files: int = 100_000


QUICK = Sizes(repeats=5, rounds=20, calls=150, deltas=5_000, flood_mb=20, repeats_of_long=2, files=10_000)


def says(text: str, pieces: int = 1) -> Item:
    size = -(-len(text) // pieces)
    return {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
        "pieces": [text[at : at + size] for at in range(0, len(text), size)],
    }


def runs(command: str, call_id: str) -> Item:
    arguments = f'{{"cmd":"{command}"}}'
    return {"type": "function_call", "name": "exec_command", "arguments": arguments, "call_id": call_id}


def rounds(count: int, command: str) -> list[list[Item]]:
    """A script of `count` calls of one command, one a request, and a closing message."""
    return [*([runs(command, f"call_{number}")] for number in range(count)), [says("done")]]


ONE_MESSAGE = [[says("done")]]
Scenario = Callable[[Bench, Program, Sizes, Readings], None]


def warm(bench: Bench, program: Program, sizes: Sizes, into: Readings) -> None:
    run = bench.run(program, ONE_MESSAGE)
    into.setdefault("warm_start", []).append(run.to_first_request_s * 1000)
    into.setdefault("one_message", []).append(run.wall_s * 1000)
    into.setdefault("one_message_cpu", []).append(run.cpu_s * 1000)
    into.setdefault("peak_small", []).append(run.peak_mb)


def fresh(bench: Bench, program: Program, sizes: Sizes, into: Readings) -> None:
    readings = into.setdefault("fresh_start", [])
    run = bench.run(program, ONE_MESSAGE, home=bench.home(program, f"fresh-{len(readings)}"))
    readings.append(run.to_first_request_s * 1000)


def tool_rounds(bench: Bench, program: Program, sizes: Sizes, into: Readings) -> None:
    run = bench.run(program, rounds(sizes.rounds, "true"))
    # The first rounds warm caches (the user's shell environment, the sandbox probe); both programs have them.
    into.setdefault("round", []).append(median(run.rounds_s[3:]) * 1000)
    into.setdefault("connections", []).append(run.connections)


WIRES = ("responses", "chat", "messages")


def other_wires(bench: Bench, program: Program, sizes: Sizes, into: Readings) -> None:
    """The same rounds in every dialect, one after the other; Codex speaks only one of them."""
    if not program.is_spindle:
        return
    took = {wire: median(bench.run(program, rounds(sizes.rounds, "true"), wire=wire).rounds_s[3:]) for wire in WIRES}
    for wire in WIRES[1:]:
        into.setdefault(f"{wire}_round", []).append(took[wire] / took["responses"])


def long_on_other_wires(bench: Bench, program: Program, sizes: Sizes, into: Readings) -> None:
    """The last rounds of a long thread in every dialect."""
    if not program.is_spindle:
        return
    script = rounds(sizes.calls, "printf %02048d 0")
    took = {wire: median(bench.run(program, script, wire=wire).rounds_s[-50:]) for wire in WIRES}
    for wire in WIRES[1:]:
        into.setdefault(f"late_{wire}_round", []).append(took[wire] / took["responses"])


def sandboxed_rounds(bench: Bench, program: Program, sizes: Sizes, into: Readings) -> None:
    run = bench.run(program, rounds(sizes.rounds, "true"), options=("-s", "workspace-write"))
    into.setdefault("sandboxed_round", []).append(median(run.rounds_s[3:]) * 1000)


def sandboxed_true(bench: Bench, program: Program, sizes: Sizes, into: Readings) -> None:
    confined, free = bench.time_sandbox(program, sizes.rounds)
    into.setdefault("sandboxed_true", []).append(median(confined))
    if free:
        into.setdefault("sandbox_adds", []).append(median(confined) - median(free))


def deltas(bench: Bench, program: Program, sizes: Sizes, into: Readings) -> None:
    run = bench.run(program, [[says("word " * sizes.deltas, pieces=sizes.deltas)]])
    into.setdefault("deltas_cpu", []).append(run.cpu_s * 1000)


def flood(bench: Bench, program: Program, sizes: Sizes, into: Readings) -> None:
    if "peak_small" not in into:
        raise BenchError(f"{program.name}: nothing to compare the memory with")
    run = bench.run(program, rounds(1, f"yes 0123456789abcdef | head -c {sizes.flood_mb}000000"))
    into.setdefault("flood", []).append(run.rounds_s[0] * 1000)
    into.setdefault("flood_growth", []).append(run.peak_mb - median(into["peak_small"]))


def parallel(bench: Bench, program: Program, sizes: Sizes, into: Readings) -> None:
    run = bench.run(program, [[runs("sleep 0.5", f"call_{n}") for n in range(8)], [says("done")]])
    into.setdefault("parallel", []).append(run.rounds_s[0])


def interrupts(bench: Bench, program: Program, sizes: Sizes, into: Readings) -> None:
    """Through protocol v1, which only Spindle speaks; the slowest of all states counts."""
    if not program.is_spindle:
        return
    slowest = max(time_interrupt(bench, program, state) for state in STATES)
    into.setdefault("interrupt", []).append(slowest * 1000)


def version(bench: Bench, program: Program, sizes: Sizes, into: Readings) -> None:
    into.setdefault("version", []).append(bench.time_version(program) * 1000)


LONG_THREAD = 1000
"""Calls of the thread that is made shorter; a shorter one would not trigger the rule."""


def shorter(bench: Bench, program: Program, sizes: Sizes, into: Readings) -> None:
    """Compaction and clearing by rule, our own CPU. The best of a few: what else the machine does is not ours."""
    if not program.is_spindle:
        return
    for name, readings in bench.time_own(program, "own_time.py", LONG_THREAD).items():
        into.setdefault(name, []).append(min(readings))


def embedded(bench: Bench, program: Program, sizes: Sizes, into: Readings) -> None:
    """What the Python API adds. The best of a few again."""
    if not program.is_spindle:
        return
    for name, readings in bench.time_own(program, "embedded.py", sizes.rounds).items():
        into.setdefault(name, []).append(min(readings))


def keeping(bench: Bench, program: Program, sizes: Sizes, into: Readings) -> None:
    """What checkpoints add to a turn in a large tree, once its files are known."""
    if not program.is_spindle:
        return
    for name, readings in bench.time_own(program, "checkpoints.py", sizes.files).items():
        into.setdefault(name, []).append(min(readings))


def many_calls(bench: Bench, program: Program, sizes: Sizes, into: Readings) -> None:
    """One long thread, and then its resume; each program resumes what it wrote itself."""
    home = bench.home(program, "long")
    run = bench.run(program, rounds(sizes.calls, "printf %02048d 0"), home=home, watch_cpu=True)
    into.setdefault("late_round", []).append(median(run.rounds_s[-10:]) * 1000)
    into.setdefault("early_round", []).append(median(run.rounds_s[5:15]) * 1000)
    into.setdefault("late_cpu", []).append(median(run.rounds_cpu_s[-20:]) / median(run.rounds_cpu_s[5:15]))
    into.setdefault("late_cpu_ms", []).append(median(run.rounds_cpu_s[-20:]) * 1000)
    into.setdefault("peak_large", []).append(run.peak_mb)
    for _ in range(max(3, sizes.repeats_of_long)):
        resumed = bench.run(program, ONE_MESSAGE, home=home, resume=run.thread_id)
        into.setdefault("resume", []).append(resumed.to_first_request_s * 1000)


def plan(sizes: Sizes) -> Iterator[tuple[str, Scenario, int]]:
    """Every scenario with how often it is repeated."""
    yield "warm start and one message", warm, sizes.repeats
    yield "fresh home", fresh, sizes.repeats
    yield "--version", version, sizes.repeats
    yield "interrupts", interrupts, sizes.repeats_of_long
    yield "tool rounds", tool_rounds, sizes.repeats_of_long
    yield "tool rounds on other wires", other_wires, sizes.repeats_of_long
    yield "a long thread on other wires", long_on_other_wires, max(1, sizes.repeats_of_long - 2)
    yield "sandboxed tool rounds", sandboxed_rounds, sizes.repeats_of_long
    yield "a sandboxed true", sandboxed_true, sizes.repeats_of_long
    yield "text deltas", deltas, sizes.repeats_of_long
    yield "a flood of output", flood, sizes.repeats_of_long
    yield "parallel calls", parallel, sizes.repeats_of_long
    yield "a long thread", many_calls, 1
    yield "making one shorter", shorter, 1
    yield "in a program of one's own", embedded, 1
    yield "keeping files for undo", keeping, 1


def measure(
    bench: Bench, programs: list[Program], sizes: Sizes, only: list[str], say: Callable[[str], None]
) -> dict[str, Readings]:
    """Run everything, the programs taking turns so that a slow minute of the machine is shared by both."""
    readings: dict[str, Readings] = {program.name: {} for program in programs}
    for program in programs:
        attempt(warm, bench, program, sizes, {}, say)  # fills the page cache and the program's own caches
    for title, scenario, repeats in plan(sizes):
        if only and scenario.__name__ not in only and scenario is not warm:
            continue
        say(f"{title} …")
        for number in range(repeats):
            for program in programs if number % 2 == 0 else reversed(programs):
                attempt(scenario, bench, program, sizes, readings[program.name], say)
    return readings


def attempt(
    scenario: Scenario, bench: Bench, program: Program, sizes: Sizes, into: Readings, say: Callable[[str], None]
) -> None:
    try:
        scenario(bench, program, sizes, into)
    except (BenchError, CalledProcessError) as error:  # the other figures are worth having all the same
        say(f"  no figure: {error}")
