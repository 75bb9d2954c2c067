"""`/compact`, `/pin` and `/unpin`: what the thread keeps in view."""

from __future__ import annotations

from spindle.errors import SpindleError
from spindle.frontends.tui.commands.lines import clean, fields, heading
from spindle.frontends.tui.desk import Desk
from spindle.frontends.tui.shown import Line
from spindle.protocol.events import PinsUpdated
from spindle.protocol.ops import Compact, Pin, Unpin


async def compact(desk: Desk, argument: str) -> None:
    """The notice that it is done comes with the event."""
    desk.submit(Compact(instructions=argument or None))


async def pin(desk: Desk, argument: str) -> None:
    if not argument:
        desk.set_draft("/pin ")
        desk.say("Say what to keep: /pin TEXT. It stays in view, word for word, through every compaction.")
        return
    answer = await desk.call(Pin(text=argument))
    desk.say(f"Pinned: {clean(argument)}")
    if isinstance(answer, PinsUpdated) and len(answer.pins) > 1:
        desk.say(*_listed(answer.pins))


def _listed(pins: list[str]) -> list[Line]:
    return [heading("Pinned facts"), *fields((str(number), text) for number, text in enumerate(pins, 1))]


async def unpin(desk: Desk, argument: str) -> None:
    if argument:
        await desk.call(Unpin(text=argument))
        desk.say(f"No longer pinned: {clean(argument)}")
        return
    raise SpindleError("say what to let go: /unpin TEXT, as it was pinned")
