"""What the sessions of a fleet's tasks cost by themselves, without a fleet around them.

    python bench/bare_sessions.py COUNT FOLDER

Run with the interpreter Spindle is installed in. Opens COUNT threads in this process, sixteen at a time, each with one
prompt to the configured server, and prints `cpu_ms`: milliseconds of CPU a thread, imports included.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time

AT_ONCE = 16


async def one(places: asyncio.Semaphore, folder: str) -> None:
    from spindle.api.door import SessionRequest, open_thread
    from spindle.api.hearing import Hearing
    from spindle.config.load import LoadOptions, load_config
    from spindle.protocol.ops import UserTurn

    async with places:
        config = load_config(cwd=folder, env=os.environ, options=LoadOptions(headless=True))
        request = SessionRequest(config=config, source="exec", originator="bench", is_attended=False)
        thread = await open_thread(request)
        hearing = Hearing(thread)
        thread.begin()
        hearing.start_turn(UserTurn(items=[{"type": "text", "text": "go"}]))
        await hearing.turn_end()
        await thread.close()


async def run(count: int, folder: str) -> None:
    places = asyncio.Semaphore(AT_ONCE)
    await asyncio.gather(*(one(places, folder) for _ in range(count)))


def main() -> None:
    count, folder = int(sys.argv[1]), sys.argv[2]
    asyncio.run(run(count, folder))
    print("cpu_ms", time.process_time() * 1000 / count)


main()
