"""`/cd` and `/pwd`: the folder that is worked in."""

from __future__ import annotations

import asyncio
import os

from spindle.errors import SpindleError
from spindle.frontends.tui.commands.lines import clean
from spindle.frontends.tui.desk import Desk
from spindle.frontends.tui.text.clean import name
from spindle.frontends.tui.views.list import ListView, Row
from spindle.protocol.ops import OverrideTurnContext


def folder_of(desk: Desk) -> str:
    return desk.thread.settings.cwd if desk.thread is not None else desk.config.cwd


async def pwd(desk: Desk, argument: str) -> None:
    desk.say(name(folder_of(desk)))


async def cd(desk: Desk, argument: str) -> None:
    """Go on in another folder. One that the person has not said they trust is asked about: commands may write there."""
    if desk.thread is None:
        raise SpindleError("the session is still being opened; try again in a moment")
    is_quoted = len(argument) > 1 and argument[0] in "'\"" and argument[-1] == argument[0]
    wanted = os.path.expanduser((argument[1:-1] if is_quoted else argument) or "~")
    path = os.path.realpath(wanted if wanted.startswith("/") else f"{folder_of(desk)}/{wanted}")
    if not os.path.isdir(path):
        raise SpindleError(f"{clean(wanted)!r}: no such folder; the working folder is still {name(folder_of(desk))}")
    config = await asyncio.to_thread(desk.config_for, path)
    if config.trust_level != "trusted" and desk.thread.settings.sandbox.mode != "read-only":
        rows = [
            Row(value=False, name="No, stay here"),
            Row(value=True, name="Yes, work there", about="with the permissions that are in force now"),
        ]
        note = (
            "You have not said that you trust it. Its files may hold instructions that are meant to mislead the model."
        )
        if not await desk.ask(ListView(f"Work in {name(path)}?", rows, note=note)):
            return
    desk.submit(OverrideTurnContext(cwd=path))
    await desk.thread.settle()
    desk.redraw()
    desk.say(f"Working in {name(path)} from the next message on.")
