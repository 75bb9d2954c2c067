"""A thread that starts programs with the rights it has given up itself.

`no_new_privs`, call filters, Landlock rules and the session keyring belong to a thread and are inherited by what it
starts. So nothing need be done between fork and exec, where Python is not safe to run, and no program need be put in
front of each command. What the thread started dies with it, so it lives until nothing of that can be running.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

Result = TypeVar("Result")
_Work = tuple[Callable[[], Any], "SimpleQueue[tuple[Any, BaseException | None]]"]
_END_S = 1.0


class SpawnerClosed(OSError):
    """The thread has ended: it starts nothing any more."""


class Spawner:
    """Runs functions in its own thread, one after the other. `prepare` runs there first; what it raises is raised."""

    def __init__(self, prepare: Callable[[], None], name: str = "spawner") -> None:
        self._work: SimpleQueue[_Work | None] = SimpleQueue()
        self._order = threading.Lock()
        """Nothing is asked for behind the end: nobody would answer, and the caller would wait for ever."""
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        self.call(prepare)

    def call(self, function: Callable[[], Result]) -> Result:
        """What `function` returns, or raises, in the thread. Waits for it. Raises SpawnerClosed."""
        answer: SimpleQueue[tuple[Result, BaseException | None]] = SimpleQueue()
        with self._order:
            if self._is_closed:
                raise SpawnerClosed("the sandbox was closed: it starts nothing any more")
            self._work.put((function, answer))
        result, error = answer.get()
        if error is not None:
            raise error
        return result

    def close(self, last: Callable[[], Result]) -> Result:
        """End the thread, when everything that it started is over. `last` is what runs there last."""
        answer: SimpleQueue[tuple[Result, BaseException | None]] = SimpleQueue()
        with self._order:
            self._is_closed = True
            self._work.put((last, answer))
            self._work.put(None)
        self._thread.join(_END_S)
        result, error = answer.get()
        if error is not None:
            raise error
        return result

    def _run(self) -> None:
        # Until it is closed. Launchers ask the kernel to be killed with their parent, and for that the kernel watches
        # the thread that forked, not its process: if this thread ended, every running command would be killed.
        while (work := self._work.get()) is not None:
            function, answer = work
            try:
                answer.put((function(), None))
            except BaseException as error:  # for the caller; here it would leave all later callers waiting for ever
                answer.put((None, error))
            # Else what they hold of the last command, descriptors among it, would stay open until the next command.
            del function, answer, work
