"""`/rewind`: back to an earlier message, to say it in other words and go on from there."""

from __future__ import annotations

import asyncio

from spindle.errors import SpindleError
from spindle.frontends.tui.desk import Desk
from spindle.protocol.ops import ThreadRollback
from spindle.thread.view import initial_messages


async def rewind(desk: Desk, argument: str) -> None:
    """The talk goes back; files stay as they are, which is said."""
    from spindle.frontends.tui.views.rewind import RewindView  # seldom

    if desk.thread is None or not desk.thread.records:
        raise SpindleError("nothing was said in this thread yet")
    records = list(desk.thread.records)
    events = await asyncio.to_thread(initial_messages, records)
    said = [str(event["message"]) for event in events if event["type"] == "user_message"]
    chosen = await desk.ask(RewindView(said))
    if chosen is None:
        return
    await desk.call(ThreadRollback(num_turns=chosen.turns_back))
    desk.set_draft(chosen.text)
    desk.say("Back before that message: what came after it is left out of the thread.")
    desk.warn("Files were not taken back: rewinding files is not built yet; /diff shows what has changed.")
