"""The user's own program that is told when a turn is complete (`notify` in the configuration).

It is the user's, like an editor: it runs outside the sandbox, with the user's environment, and nobody waits for it. But
what the agent could have written is not the user's any more: that runs like a command of the agent.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from typing import TYPE_CHECKING

from spindle.core.feature import Feature
from spindle.errors import SandboxUnavailable
from spindle.policy.own_programs import Prepared, prepare
from spindle.policy.reach import Reach, find_program
from spindle.policy.sandbox import Boundary
from spindle.process.command import Command
from spindle.protocol.events import Warning
from spindle.protocol.items import encode_json
from spindle.protocol.quote import visible
from spindle.workspace.git import find_root

if TYPE_CHECKING:
    from spindle.core.running_turn import RunningTurn
    from spindle.process.table import ProcessTable

_CONFINED_S = 30.0
"""How long a program may run that is confined."""
_LAST_S = 3.0
"""How long the end of a session waits for one: it would be ended with the session."""


class Notify(Feature):
    """Starts the program once per completed turn, with one JSON argument."""

    def __init__(self, program: tuple[str, ...], *, is_trusted: bool) -> None:
        """`is_trusted`: the working folder is, so the program may start there."""
        self._program = program
        self._is_trusted = is_trusted
        self._has_warned = False
        self._started: list[subprocess.Popen[bytes]] = []
        self._confined: set[asyncio.Task[None]] = set()

    def end_turn(self, turn: RunningTurn) -> None:
        secrets, cwd = turn.thread.secrets, turn.settings.cwd
        payload = {
            "type": "agent-turn-complete",
            "thread-id": turn.thread.thread_id,
            "turn-id": turn.turn_id,
            "cwd": cwd,
            "input-messages": [secrets.mask_known(text, own_only=True) for text in turn.inputs],
            "last-assistant-message": turn.last_message and secrets.mask_known(turn.last_message),
        }
        workbench = turn.session.workbench
        boundary = workbench.boundary(turn.settings)
        reach = Reach(boundary, env=workbench.environment, also=(find_root(cwd) or cwd,))
        given = prepare(reach, self._program, os.environ, cwd=cwd, own_cwd=None, is_trusted=self._is_trusted)
        last = encode_json(payload).decode()
        if given.found is None:
            try:
                self._start(given, last)
            except OSError as error:
                turn.emit(Warning(message=f"the notify program {self._program[0]} cannot be started: {error.strerror}"))
            return
        if not self._has_warned:
            self._has_warned = True
            what = f"the agent can write {visible(given.found.what)}"
            turn.emit(Warning(message=f"the notify program runs inside the sandbox, because {what}"))
        task = asyncio.ensure_future(_run_confined(workbench.processes, given, last, boundary))
        self._confined.add(task)
        task.add_done_callback(self._confined.discard)

    async def aclose(self) -> None:
        if self._confined:
            await asyncio.wait(list(self._confined), timeout=_LAST_S)
        for task in self._confined:
            task.cancel()

    def _start(self, given: Prepared, last: str) -> None:
        nothing = subprocess.DEVNULL
        self._started = [process for process in self._started if process.poll() is None]
        program = find_program(given.argv[0], cwd=given.cwd, path=given.env.get("PATH", os.defpath))
        process = subprocess.Popen(
            [program or given.argv[0], *given.argv[1:], last],
            env=given.env,
            cwd=given.cwd,
            stdin=nothing,
            stdout=nothing,
            stderr=nothing,
            start_new_session=True,
        )
        self._started.append(process)


async def _run_confined(processes: ProcessTable, given: Prepared, last: str, boundary: Boundary) -> None:
    command = Command(argv=[*given.argv, last], cwd=given.cwd, boundary=boundary)
    try:
        await processes.run(command, timeout_s=_CONFINED_S)
    except (OSError, SandboxUnavailable):
        return  # nobody waits for it
