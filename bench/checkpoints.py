"""What keeping files for undo costs a turn in a large tree: the same turn with checkpoints and without.

    python bench/checkpoints.py FILES FOLDER

Run with the interpreter Spindle is installed in; prints lines of a name and a reading in milliseconds. Each turn runs
one command that changes a file; the model answers from a script, and there is no sandbox. The first turn, in which all
files are read once, is not counted; of the others the best is, on both sides: what else the
machine does is not ours.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time

from spindle.assembly import SessionRequest, open_session
from spindle.config.load import load_config
from spindle.model.scripted import ScriptedModel, calls, says
from spindle.protocol.events import TERMINAL
from spindle.protocol.ops import Shutdown, Submission, UserTurn

TURNS = 7
PER_FOLDER = 100


def plant(folder: str, files: int) -> None:
    """A tree of small files."""
    for number in range(files):
        inner = f"{folder}/part{number // PER_FOLDER // 50}/module{number // PER_FOLDER}"
        if number % PER_FOLDER == 0:
            os.makedirs(inner, exist_ok=True)
        with open(f"{inner}/file{number % PER_FOLDER}.py", "w") as file:
            file.write(f"value = {number}\n" * 20)


async def time_turns(tree: str, home: str, *, is_kept: bool, script: str) -> list[float]:
    """How long each turn took but the first, in milliseconds."""
    config = load_config(
        cwd=tree,
        env={"CODEX_HOME": home},
        flags={"sandbox_mode": "danger-full-access", "approval_policy": "never"},
        config={"spindle": {"checkpoints": {"enabled": is_kept}}},
    )
    model = ScriptedModel()
    session = await open_session(SessionRequest(config=config, source="exec", originator="bench", client=model))
    reader = session.subscribe()
    actor = asyncio.ensure_future(session.run())
    times: list[float] = []
    for number in range(TURNS):
        command = script.format(number=number)
        model.script(calls("exec_command", {"cmd": command, "login": False}, f"c{number}"), says("done"))
        started = time.perf_counter()
        session.submit(Submission(f"s{number}", UserTurn(items=[{"type": "text", "text": "go"}])))
        async for event in reader:
            if isinstance(event.msg, TERMINAL):
                break
        times.append((time.perf_counter() - started) * 1000)
    session.submit(Submission("", Shutdown()))
    await actor
    return times[1:]


def main(files: int, folder: str) -> None:
    tree, home = f"{folder}/tree", f"{folder}/home"
    os.makedirs(home, exist_ok=True)
    if not os.path.isdir(tree):
        plant(tree, files)
    writes = "echo {number} >> part0/module1/file1.py"
    for name, script in (("undo_turn", writes), ("undo_nothing", "ls part0")):
        kept = min(asyncio.run(time_turns(tree, home, is_kept=True, script=script)))
        plain = min(asyncio.run(time_turns(tree, home, is_kept=False, script=script)))
        print(f"{name} {max(0.0, kept - plain):.3f}")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
