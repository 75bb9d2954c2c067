"""What the Python API costs a program that embeds the engine.

    python bench/embedded.py ROUNDS FOLDER

Run with the interpreter Spindle is installed in; prints lines of a name and a reading: milliseconds for
`import spindle` over an interpreter that imports nothing, milliseconds that `Spindle.run` adds to a turn over the
engine itself (with a model that answers at once), and megabytes for each of a hundred threads that are open and idle.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from statistics import median

REPEATS = 5
STARTS = 9
IDLE = 100


def time_import() -> float:
    """Milliseconds of the import itself, in interpreters that have imported nothing else; the best of several."""
    path = os.path.dirname(os.path.dirname(_package()))
    code = (
        f"import sys, time; sys.path.insert(0, {path!r}); started = time.perf_counter(); import spindle; "
        "print((time.perf_counter() - started) * 1000)"
    )
    words = [sys.executable, "-I", "-S", "-c", code]
    return min(
        float(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout) for _ in range(STARTS)
    )


def _package() -> str:
    import spindle

    return spindle.__file__


async def engine_rounds(rounds: int, folder: str) -> list[float]:
    """Milliseconds of turns that are driven through the door, one after the other."""
    from spindle.api.door import SessionRequest, open_thread
    from spindle.api.hearing import Hearing
    from spindle.config.load import load_config
    from spindle.protocol.ops import UserTurn
    from spindle.testing import ScriptedModel, says

    config = load_config(cwd=folder, env={"CODEX_HOME": folder, "HOME": folder})
    model = ScriptedModel(default=says("done"))
    thread = await open_thread(SessionRequest(config=config, source="exec", originator="bench", client=model))
    hearing = Hearing(thread)
    thread.begin()
    readings: list[float] = []
    for _ in range(rounds):
        started = time.perf_counter()
        hearing.start_turn(UserTurn(items=[{"type": "text", "text": "go"}]))
        await hearing.turn_end()
        readings.append((time.perf_counter() - started) * 1000)
        hearing.take_ready()
    await thread.close()
    return readings


def api_rounds(rounds: int, folder: str) -> list[float]:
    """The same with `Spindle.run`, and each other turn with all its events."""
    from spindle import Spindle
    from spindle.testing import ScriptedModel, says

    readings: list[float] = []
    with Spindle(home=folder, model_client=ScriptedModel(default=says("done"))) as client:
        thread = client.thread_start(cwd=folder)
        for _ in range(rounds):
            started = time.perf_counter()
            thread.run("go")
            readings.append((time.perf_counter() - started) * 1000)
    return readings


def idle_memory(folder: str) -> float:
    """Megabytes of resident memory for each thread that has run a turn and waits."""
    from spindle import Spindle
    from spindle.testing import ScriptedModel, says

    model = ScriptedModel(default=says("done"))
    with Spindle(home=folder, model_client=model) as client:
        kept = []

        def open_some(count: int) -> None:
            for _ in range(count):
                thread = client.thread_start(cwd=folder)
                thread.run("go")
                kept.append(thread)
                model.requests.clear()

        open_some(10)  # what is loaded with the first ones belongs to no thread
        before = _resident()
        open_some(IDLE)
        return (_resident() - before) / IDLE


def _resident() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> None:
    rounds, folder = int(sys.argv[1]), sys.argv[2]
    for _ in range(REPEATS):
        print("import_spindle", time_import())
        engine = median(asyncio.run(engine_rounds(rounds, folder)))
        print("api_round", median(api_rounds(rounds, folder)) - engine)
    if sys.platform == "linux":
        print("idle_thread", idle_memory(folder))


main()
