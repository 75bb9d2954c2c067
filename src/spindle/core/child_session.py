"""A session that another session opens and owns: a sub-agent's, or a reviewer's.

What such a session is opened with, and how its owner opens, hears and ends it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import msgspec

from spindle.core.stream import Subscription
from spindle.errors import SpindleError
from spindle.policy.rulebook import RuleBook
from spindle.protocol.events import Event
from spindle.protocol.ops import Shutdown, Submission
from spindle.protocol.request import TokenUsage
from spindle.protocol.settings import ThreadSettings

if TYPE_CHECKING:
    from spindle.core.budget import BudgetLedger
    from spindle.core.session import Session

CLOSE_S = 10.0
"""How long a session may take to stop before its task is cancelled."""

Charge = Callable[[TokenUsage], None]


class SessionOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What the composition root needs to know of the session above."""

    parent_thread_id: str
    parent_transcript: str | None = None
    """The record of the parent's thread."""
    depth: int
    name: str
    """What hooks are told it is."""
    header: str
    """What model servers are told it is."""
    source: dict[str, Any]
    """Where the thread comes from, as its record says."""
    settings: ThreadSettings
    cap: Callable[[ThreadSettings], ThreadSettings]
    """Takes out of settings what the session may not do now."""
    charge: Charge
    """Books what it, or one of its own, has cost."""
    rules: RuleBook
    """The parent's own, as they were read when its session began."""
    budget: Callable[[], BudgetLedger | None]
    """What the parent's thread may use, at the moment of asking; what this session uses counts there."""


class Tap(Subscription):
    """Hears every event at once, in the order in which the session's own readers get them."""

    def __init__(self, hear: Callable[[Event], None]) -> None:
        super().__init__(())
        self._hear = hear

    def push(self, event: Event) -> None:
        self._hear(event)


async def open_whole(opening: Coroutine[Any, Any, Session]) -> Session:
    """Open a session; if the caller is cancelled meanwhile, nothing half-open is left behind."""
    task = asyncio.ensure_future(opening)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        # Half-open, a session would leave its file locked and its connection open.
        await asyncio.wait([task])
        if not task.cancelled() and task.exception() is None:
            await task.result().aclose()
        raise
    except SpindleError:
        raise
    except Exception as error:  # our bug: the parent's turn goes on without this session
        raise SpindleError(f"internal error: {type(error).__name__}: {error}") from error


async def end_session(session: Session, actor: asyncio.Task[None]) -> None:
    """Stop what it does and close it, within a bound."""
    session.submit(Submission("", Shutdown()))
    try:
        await asyncio.wait([actor], timeout=CLOSE_S)
    finally:
        if not actor.done():
            actor.cancel()
            await asyncio.wait([actor], timeout=CLOSE_S)
