"""Functions that may block, run beside the event loop: each in a thread of its own.

Not in a pool: one that is full would let a thread of conversation wait for another one's tool. And in daemon threads: a
function that never returns must not keep the program from ending.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


async def in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """What `function` returns or raises. Cancelled, we no longer wait for it; it runs on, and its answer is dropped."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            outcome: tuple[Any, BaseException | None] = (context.run(function, *arguments), None)
        except BaseException as error:
            outcome = (None, error)
        try:
            loop.call_soon_threadsafe(_tell, answer, outcome)
        except RuntimeError:
            pass  # the loop is closed; nobody waits any more

    threading.Thread(target=work, name="spindle-worker", daemon=True).start()
    result, error = await answer
    if error is not None:
        raise error
    return result


def _tell(answer: asyncio.Future[Any], outcome: tuple[Any, BaseException | None]) -> None:
    if not answer.done():
        answer.set_result(outcome)
