"""`/plan`: the mode in which the model thinks first and changes nothing."""

from __future__ import annotations

from spindle.frontends.tui.desk import Desk


async def plan(desk: Desk, argument: str) -> None:
    """Switching sends nothing by itself; a text is sent in the new mode."""
    desk.set_mode("plan")
    if argument:
        desk.send(argument)
    else:
        desk.say("Planning: the model looks and plans, and changes nothing. Shift-Tab leaves it.")
