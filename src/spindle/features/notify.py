"""The user's own program that is told when a turn is complete (`notify` in the configuration).

It is the user's, like an editor: it runs outside the sandbox, with the user's environment, and nobody waits for it.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from spindle.core.feature import Feature
from spindle.protocol.events import Warning
from spindle.protocol.items import encode_json

if TYPE_CHECKING:
    from spindle.core.running_turn import RunningTurn


class Notify(Feature):
    """Starts the program once per completed turn, with one JSON argument."""

    def __init__(self, program: tuple[str, ...]) -> None:
        self._program = program
        self._started: list[subprocess.Popen[bytes]] = []

    def end_turn(self, turn: RunningTurn) -> None:
        secrets = turn.thread.secrets
        payload = {
            "type": "agent-turn-complete",
            "thread-id": turn.thread.thread_id,
            "turn-id": turn.turn_id,
            "cwd": turn.settings.cwd,
            "input-messages": [secrets.mask_known(text, own_only=True) for text in turn.inputs],
            "last-assistant-message": turn.last_message and secrets.mask_known(turn.last_message),
        }
        try:
            self._start(payload, turn.settings.cwd)
        except OSError as error:
            turn.emit(Warning(message=f"the notify program {self._program[0]} cannot be started: {error.strerror}"))

    def _start(self, payload: dict[str, object], cwd: str) -> None:
        nothing = subprocess.DEVNULL
        self._started = [process for process in self._started if process.poll() is None]
        process = subprocess.Popen(
            [*self._program, encode_json(payload).decode()],
            cwd=cwd,
            stdin=nothing,
            stdout=nothing,
            stderr=nothing,
            start_new_session=True,
        )
        self._started.append(process)
