"""`/quit` and `/exit`."""

from __future__ import annotations

from spindle.frontends.fit import counted
from spindle.frontends.tui.desk import Desk
from spindle.frontends.tui.views.list import ListView, Row


async def quit_session(desk: Desk, argument: str) -> None:
    """Leave; but never lose a queued message without asking."""
    if desk.queued:
        many = counted(len(desk.queued), "queued message")
        rows = [
            Row(value=False, name="Stay", about="Alt-Up takes the last one back into the composer"),
            Row(value=True, name="Quit", about=f"{many} will not be sent"),
        ]
        verb = "is" if len(desk.queued) == 1 else "are"
        if not await desk.ask(ListView(f"{many} {verb} not sent yet and would be lost. Quit all the same?", rows)):
            return
    desk.quit()
