"""Our own CPU time to make a long thread shorter: by compaction, with a model that answers at once, or by rule.

    python bench/own_time.py CALLS FOLDER

Run with the interpreter Spindle is installed in; prints lines of a name and a reading in milliseconds. A compaction is
timed from the word that asks for it to the first request of the thread that came out.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time

from spindle.assembly import SessionRequest, open_session
from spindle.config.load import load_config
from spindle.context.rule import compress_by_rule
from spindle.context.tokens import estimate_tokens
from spindle.core.turn import next_request
from spindle.model.client import Completed
from spindle.model.scripted import ScriptedModel, says
from spindle.protocol.events import TERMINAL
from spindle.protocol.items import Item, user_message
from spindle.protocol.ops import Compact, Op, Shutdown, Submission, UserTurn
from spindle.protocol.request import TokenUsage

EVERYTHING = {
    "trigger": {"type": "tool_uses", "value": 1},
    "clear_tool_inputs": True,
    "clear_thinking": "all",
    "duplicate_reads": True,
    "superseded_reads": True,
    "old_images": 0,
}
REPEATS = 5


def work(calls: int) -> list[Item]:
    """Commands and reads in turn, with reasoning before each, and outputs of 2 KB."""
    items: list[Item] = [user_message("Do it all.")]
    for number in range(calls):
        command = f"make test{number}" if number % 2 else f"cat src/part{number % 100}.py"
        printed = f"line {number % 7} of the output\n" * 87
        call = {"type": "function_call", "name": "exec_command", "call_id": f"c{number}"}
        head = "Chunk ID: 0f\nWall time: 0.1 seconds\nProcess exited with code 0\nOutput:\n"
        items += [
            {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": "e" * 600},
            {**call, "arguments": f'{{"cmd":"{command}"}}'},
            {"type": "function_call_output", "call_id": f"c{number}", "output": head + printed},
        ]
    return items


async def time_compaction(items: list[Item], folder: str) -> float:
    times: list[float] = []

    def answers(text: str):
        def answer(request: object):
            times.append(time.process_time())
            return says(text)

        return answer

    # A window that holds the thread: what is timed is a compaction that is due, not one that comes too late.
    config = load_config(
        cwd=folder,
        env={"CODEX_HOME": f"{folder}/home"},
        config={"features": {"remote_compaction": False}, "model_context_window": 4_000_000},
    )
    model = ScriptedModel(says("begun"), answers("What was done, in short. " * 60), answers("done"))
    session = await open_session(SessionRequest(config=config, source="exec", originator="bench", client=model))
    events = session.subscribe()
    actor = asyncio.ensure_future(session.run())

    async def run(sub_id: str, op: Op) -> None:
        session.submit(Submission(sub_id, op))
        async for event in events:
            if event.id == sub_id and isinstance(event.msg, TERMINAL):
                return

    await run("1", UserTurn(items=[{"type": "text", "text": "hi"}]))
    thread = session.thread
    for number, item in enumerate(items):
        thread.history.append_item(item)
        if number % 3 == 0:
            # As if each response had come by itself: counted, and shown in the next request.
            completed = Completed(usage=TokenUsage(total_tokens=number * 200))
            thread.note_completed(completed, lambda event: None)
            thread.note_counted(completed)
            next_request(thread, session.settings, None)
    started = time.process_time()
    await run("2", Compact())
    await run("3", UserTurn(items=[{"type": "text", "text": "go on"}]))
    session.submit(Submission("4", Shutdown()))
    await actor
    return (times[-1] - started) * 1000


def time_rule(items: list[Item], **rule: object) -> float:
    costs = [estimate_tokens(item) for item in items]  # the agent has them from the requests before
    gc.collect()  # what the session before it has left behind is not the rule's
    started = time.process_time()
    _, report = compress_by_rule(items, cwd="/project", costs=costs, **rule)  # pyright: ignore[reportArgumentType]
    if not report.applied:
        raise SystemExit("the rule cleared nothing")
    return (time.process_time() - started) * 1000


def main() -> None:
    items = work(int(sys.argv[1]))
    for _ in range(REPEATS):
        print("compaction", asyncio.run(time_compaction(items, sys.argv[2])))
        print("rule", time_rule(items))
        print("rule_everything", time_rule(items, **EVERYTHING))


main()
