"""Commands whose engine part is not built yet. Each says so in one sentence, and what there is instead."""

from __future__ import annotations

from spindle.frontends.tui.desk import Desk


async def goal(desk: Desk, argument: str) -> None:
    desk.warn("/goal is not built yet: say in a message what is to be reached, and /pin keeps it in view.")
