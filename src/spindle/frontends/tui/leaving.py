"""The end: what is said when a person leaves, and the signals that end it for them."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence

from spindle.api.door import OpenThread
from spindle.frontends.tui.first_paint import ENDING
from spindle.protocol.quote import shell_join
from spindle.protocol.request import TokenUsage

PATIENCE_S = 3.0
"""How long a thread may take to close before what it runs is killed."""

TASKS_S = 1.0
"""How long whatever else goes on may take to clean up behind itself."""


def farewell(usage: TokenUsage, thread_id: str | None, options: Sequence[str] = ()) -> list[str]:
    """Tokens, and the way back, which needs `options`; `thread_id` is None when nothing was said."""
    if thread_id is None:
        return []
    lines: list[str] = []
    if usage.input_tokens or usage.output_tokens:
        cached = f", of them {usage.cached_input_tokens:,} cached" if usage.cached_input_tokens else ""
        total = usage.input_tokens + usage.output_tokens
        lines.append(f"Tokens used: {total:,} (input {usage.input_tokens:,}{cached}; output {usage.output_tokens:,})")
    lines.append(f"To continue this session, run: {shell_join(['spindle', 'resume', *options, thread_id])}")
    return lines


async def close(thread: OpenThread) -> str:
    """Close a thread in bounded time: its turn ends, its commands are ended, its record is whole.

    Gives what went wrong, for a person.
    """
    try:
        async with asyncio.timeout(PATIENCE_S):
            await thread.close()
    except TimeoutError:
        thread.kill()
    except Exception as error:  # what ended the thread is told, and nothing keeps us from leaving
        thread.kill()
        return str(error)
    return ""


def catch_signals(end: Callable[[int], None]) -> None:
    """SIGTERM, SIGHUP, SIGINT and SIGQUIT from outside end the interface; `end` is told which. What was ignored stays
    so."""
    loop = asyncio.get_running_loop()
    for number in ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:
            loop.add_signal_handler(number, end, number)
