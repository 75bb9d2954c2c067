"""A thread that starts programs with the rights it has given up itself.

`no_new_privs`, call filters, Landlock rules and the session keyring belong to a thread and are inherited by what it
starts. So nothing need be done between fork and exec, where Python is not safe to run, and no program need be put in
front of each command. The thread lives as long as the process: what it started dies with it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

Result = TypeVar("Result")


class Spawner:
    """Runs functions in its own thread, one after the other. `prepare` runs there first; what it raises is raised."""

    def __init__(self, prepare: Callable[[], None], name: str = "spawner") -> None:
        self._work: SimpleQueue[tuple[Callable[[], Any], SimpleQueue[tuple[Any, BaseException | None]]]] = SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()
        self.call(prepare)

    def call(self, function: Callable[[], Result]) -> Result:
        """What `function` returns, or raises, in the thread. Waits for it."""
        answer: SimpleQueue[tuple[Result, BaseException | None]] = SimpleQueue()
        self._work.put((function, answer))
        result, error = answer.get()
        if error is not None:
            raise error
        return result

    def _run(self) -> None:
        # Never ends. Launchers ask the kernel to be killed with their parent, and for that the kernel watches the
        # thread that forked, not its process: if this thread ended, every running command would be killed.
        while True:
            function, answer = self._work.get()
            try:
                answer.put((function(), None))
            except BaseException as error:  # for the caller; here it would leave all later callers waiting for ever
                answer.put((None, error))
            # Else what they hold of the last command, descriptors among it, would stay open until the next command.
            del function, answer
