"""What the composer does beside the typing, without keeping anybody waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from spindle.errors import SpindleError

if TYPE_CHECKING:
    from spindle.frontends.tui.composer.composer import Composer, Host
    from spindle.frontends.tui.composer.past_messages import PastMessages
    from spindle.frontends.tui.composer.search import Search


async def record(past: PastMessages, text: str, session_id: str, host: Host) -> None:
    """Add a message to the history's file, which may be locked for a moment."""
    try:
        await asyncio.to_thread(past.add, text, session_id)
    except OSError as error:
        host.warn(f"The message could not be added to history.jsonl: {error.strerror}.")


async def keep_looking(search: Search, host: Host, is_open: Callable[[], bool]) -> None:
    """Go through a long history in slices, so that no key has to wait for it."""
    query = search.query
    while is_open() and search.is_looking and search.query == query:
        await asyncio.sleep(0)
        search.look()
    host.redraw()


async def paste_image(composer: Composer, host: Host) -> None:
    """Attach what is on the clipboard."""
    from spindle.frontends.tui.composer.images import clipboard_image  # seldom

    try:
        composer.attach_images([await clipboard_image()])
    except SpindleError as error:
        host.warn(str(error))
    host.redraw()
