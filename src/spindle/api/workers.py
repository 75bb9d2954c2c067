"""Runs the caller's functions outside the event loop, each in a thread of its own.

Not the loop's own pool of threads: that one is bounded, so that a few slow functions would hold up everything else.
The threads are daemons: a function that never returns does not keep the program alive.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


class Outcome(msgspec.Struct, frozen=True):
    """How a function ended: with a value, or with an exception of any kind, `KeyboardInterrupt` included."""

    value: Any = None
    error: BaseException | None = None


async def outcome_in_thread(function: Callable[[], Any], name: str) -> Outcome:
    """Call the function in a new thread. When the waiting task is cancelled, what the function gives is dropped."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Outcome] = loop.create_future()
    context = contextvars.copy_context()

    def deliver(outcome: Outcome) -> None:
        if not future.done():
            future.set_result(outcome)

    def work() -> None:
        try:
            outcome = Outcome(context.run(function))
        except BaseException as error:  # handed over, whatever it is: nobody else looks into this thread
            outcome = Outcome(error=error)
        try:
            loop.call_soon_threadsafe(deliver, outcome)
        except RuntimeError:
            pass  # the loop has been closed meanwhile: nobody waits any more

    threading.Thread(target=work, name=f"spindle {name}", daemon=True).start()
    return await future


async def outcome_on_loop(function: Callable[[], Any]) -> Outcome:
    """Await what a coroutine function gives. Only a cancellation of the waiting task itself goes through."""
    task = asyncio.current_task()
    before = task.cancelling() if task is not None else 0
    try:
        return Outcome(await function())
    except asyncio.CancelledError as error:
        if task is not None and task.cancelling() > before:
            raise
        return Outcome(error=error)
    except BaseException as error:  # an exit or Ctrl-C that left a task would stop the whole loop
        return Outcome(error=error)


async def in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """What the function returns, or raises, in a thread of its own."""
    outcome = await outcome_in_thread(lambda: function(*arguments), function.__name__)
    if outcome.error is not None:
        raise outcome.error
    return outcome.value
