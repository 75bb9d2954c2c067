"""The user's own program that is told when a turn is complete (`notify` in the configuration).

It is the user's, like an editor: it runs outside the sandbox, with the user's environment, and nobody waits for it.
"""

from __future__ import annotations

import subprocess

from spindle.protocol.items import encode_json


class Notifier:
    """Starts the program once per completed turn, with one JSON argument."""

    def __init__(self, program: tuple[str, ...]) -> None:
        self._program = program
        self._started: list[subprocess.Popen[bytes]] = []

    def turn_completed(
        self, *, thread_id: str, turn_id: str, cwd: str, inputs: list[str], last_message: str | None
    ) -> str | None:
        """What to tell the person when the program cannot be started."""
        if not self._program:
            return None
        self._started = [process for process in self._started if process.poll() is None]
        payload = {
            "type": "agent-turn-complete",
            "thread-id": thread_id,
            "turn-id": turn_id,
            "cwd": cwd,
            "input-messages": inputs,
            "last-assistant-message": last_message,
        }
        nothing = subprocess.DEVNULL
        try:
            process = subprocess.Popen(
                [*self._program, encode_json(payload).decode()],
                cwd=cwd,
                stdin=nothing,
                stdout=nothing,
                stderr=nothing,
                start_new_session=True,
            )
        except OSError as error:
            return f"the notify program {self._program[0]} cannot be started: {error.strerror}"
        self._started.append(process)
        return None
