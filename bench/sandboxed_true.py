"""The time from asking for a `true` to its end, confined and then not, in a process that has confined one before.

Run with the interpreter Spindle is installed in; prints two readings in milliseconds per line: confined, and not.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time

from spindle.policy.sandbox import boundary_of
from spindle.process.table import Command, ProcessTable
from spindle.protocol.clock import SystemClock
from spindle.protocol.settings import SandboxPolicy
from spindle.workspace.shell import Shell

WARM_UPS = 5


async def main(count: int, home: str) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": home}
    cwd = os.getcwd()
    table = ProcessTable(
        clock=SystemClock(), shell=Shell("bash", "/bin/bash"), environment=environment, home=f"{home}/.codex"
    )
    boundary = boundary_of(SandboxPolicy(mode="workspace-write"), cwd=cwd, env=environment, home=f"{home}/.codex")
    confined = Command(argv=["/bin/true"], cwd=cwd, boundary=boundary)
    free = Command(argv=["/bin/true"], cwd=cwd, boundary=None)

    async def timed_ms(command: Command) -> float:
        started_s = time.perf_counter()
        finished = await table.run(command, timeout_s=30)
        if finished.exit_code != 0:
            raise SystemExit("true failed")
        return (time.perf_counter() - started_s) * 1000

    for _ in range(WARM_UPS):
        await timed_ms(confined)
    readings = [await timed_ms(confined) for _ in range(count)]
    for reading in readings:
        print(reading, await timed_ms(free))
    await table.aclose()


asyncio.run(main(int(sys.argv[1]), sys.argv[2]))
