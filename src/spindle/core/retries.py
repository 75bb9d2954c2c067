"""Asking again after a stream that broke off."""

from __future__ import annotations

import asyncio

from spindle.core.running_turn import RunningTurn
from spindle.errors import StreamDropped
from spindle.model.retry import backoff_s
from spindle.protocol.events import StreamError


async def wait_before_retry(turn: RunningTurn, dropped: StreamDropped, attempt: int) -> None:
    """Announce the retry and wait: as long as the server asked for, else with growing, jittered pauses."""
    limit = turn.thread.provider.stream_retries
    if attempt > limit:
        raise dropped.given_up(limit)
    asked = dropped.delay_s
    delay_s = backoff_s(attempt, turn.thread.clock) if asked is None else asked
    pause = f"; waiting {asked:.0f} s as the server asks" if asked is not None and asked >= 1 else ""
    turn.emit(
        StreamError(
            message=f"Reconnecting... {attempt}/{limit} ({dropped}{pause})",
            codex_error_info=dropped.info,
            additional_details=str(dropped),
            delay_s=round(delay_s, 1),
        )
    )
    await asyncio.sleep(delay_s)
