"""The event loop of the synchronous client: in a daemon thread of its own, so that any thread may call.

A caller waits for its answer like for any blocking call. It may itself be inside a running loop, as in a notebook.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import sys
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")

_JOIN_S = 10.0
_END_S = 1.0
_LOOK_S = 0.1
_callers: contextvars.ContextVar[list[FrameType]] = contextvars.ContextVar("callers")


def caller_frame() -> FrameType | None:
    """Where the program waits for the coroutine that asks, if it waits in another thread."""
    callers = _callers.get([])
    return callers[0] if callers else None


@contextmanager
def _calling_from(frame: FrameType) -> Iterator[contextvars.Context]:
    """The context of a call. It forgets the frame in the end: tasks that were begun by the call may live long."""
    callers = [frame]
    context = contextvars.copy_context()
    context.run(_callers.set, callers)
    try:
        yield context
    finally:
        callers.clear()


class Engine:
    """A loop in a thread. Made when it is first needed; ended by `stop`."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(self._complain)
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._run, name="spindle", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(_end_all(self._loop))
            self._loop.close()

    def _complain(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """A task was forgotten, or a callback raised. No news in a forked child, whose copies of tasks are dead."""
        if os.getpid() == self._pid:
            loop.default_exception_handler(context)

    @property
    def is_current(self) -> bool:
        """Is the caller a coroutine on this very loop? It cannot wait for what only the loop can do."""
        return threading.get_ident() == self._thread.ident

    def check_outside(self) -> None:
        """Raise RuntimeError for a coroutine on this very loop."""
        if self.is_current:
            raise RuntimeError(
                "a coroutine on the client's own loop cannot wait for the client; use `await asyncio.to_thread(…)`, "
                "a plain function, or AsyncSpindle"
            )

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and wait for what it gives.

        Interrupted by Ctrl-C, the coroutine is cancelled, and the interrupt goes on when it has ended.
        """
        try:
            self.check_outside()
        except RuntimeError:
            work.close()
            raise
        with _calling_from(sys._getframe(1)) as context:
            return self._call(work, context)

    def _call(self, work: Coroutine[Any, Any, T], context: contextvars.Context) -> T:
        done: Future[tuple[T | None, BaseException | None]] = Future()
        tasks: list[asyncio.Task[Any]] = []

        def start() -> None:
            tasks.append(self._loop.create_task(_outcome(work), context=context))
            tasks[0].add_done_callback(finish)

        def finish(task: asyncio.Task[tuple[T | None, BaseException | None]]) -> None:
            done.set_result((None, asyncio.CancelledError()) if task.cancelled() else task.result())

        try:
            self._loop.call_soon_threadsafe(start)
        except RuntimeError:
            work.close()
            raise
        try:
            result, error = _wait(done)
        except BaseException:  # Ctrl-C, while we waited
            self._loop.call_soon_threadsafe(lambda: tasks[0].cancel())
            done.result()
            raise
        if error is not None:
            raise error
        return result  # pyright: ignore[reportReturnType]

    def end_with(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run a last coroutine, then stop; without waiting for either."""
        try:
            asyncio.run_coroutine_threadsafe(work, self._loop).add_done_callback(
                lambda _: self._loop.call_soon_threadsafe(self._loop.stop)
            )
        except RuntimeError:
            work.close()  # the loop has ended

    def stop(self) -> None:
        """End the loop and its thread; without waiting when called from the loop itself."""
        try:
            self._loop.call_soon_threadsafe(self._loop.stop)
        except RuntimeError:
            return  # ended already
        if not self.is_current:
            self._thread.join(_JOIN_S)


def _wait(done: Future[T]) -> T:
    """What a future gives. On the main thread it takes a look at the signals now and then.

    The system may hand Ctrl-C to any thread of the process, and Python deals with it on the main thread alone, which
    nothing would wake: it would sit out the whole turn.
    """
    if threading.current_thread() is not threading.main_thread():
        return done.result()
    while True:
        try:
            return done.result(_LOOK_S)
        except TimeoutError:
            if done.done():  # an outcome that is handed over, never raised: so it has come just now
                return done.result()


async def _end_all(loop: asyncio.AbstractEventLoop) -> None:
    """End what still waits: for a function of the program that has not returned, say."""
    left = asyncio.all_tasks(loop) - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=_END_S)
    await loop.shutdown_asyncgens()


async def _outcome(work: Coroutine[Any, Any, T]) -> tuple[T | None, BaseException | None]:
    """What came of it. Handed over, not raised: an exit or Ctrl-C that left a task would end the loop."""
    try:
        return await work, None
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        return None, error
