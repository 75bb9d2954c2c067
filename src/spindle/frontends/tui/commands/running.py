"""What becomes of a text that begins with a slash: which command it is, whether it may run now, and running it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import NamedTuple, cast

from spindle.errors import SpindleError, reason_of
from spindle.frontends.options import nearest
from spindle.frontends.tui.commands import table
from spindle.frontends.tui.commands.table import SlashCommand
from spindle.frontends.tui.desk import Desk
from spindle.protocol.quote import visible

_COMMAND = re.compile(r"/([A-Za-z][A-Za-z0-9_-]*)(?:\s+(.*))?\s*\Z", re.DOTALL)
_LONGEST_NAME = 40
AT_ANY_TIME = ("quit", "exit")
"""Those that do not wait for the session to be open."""
Handler = Callable[[Desk, str], Awaitable[None]]


class Entered(NamedTuple):
    """A command as it was entered."""

    name: str
    argument: str = ""


def read(text: str) -> Entered | None:
    """The command a text is; None when it is a message, such as `/usr/bin/env what is it?`.

    A command that takes nothing behind it is none when something is there (`/status is broken`): no word gets lost.
    """
    found = _COMMAND.match(text)
    if found is None:
        return None
    entered = Entered(found[1], (found[2] or "").strip())
    command = table.find(entered.name)
    return None if command is not None and entered.argument and not command.argument else entered


def problem_with(text: str, *, is_working: bool) -> str | None:
    """Why this command cannot be used now, in one sentence; None when it can. It then stays in the composer."""
    entered = read(text)
    if entered is None:
        return None
    command = table.find(entered.name)
    if command is None:
        return _unknown(entered.name)
    if is_working and not command.is_allowed_in_turn:
        return f"/{command.name} cannot be used while a turn runs; Esc interrupts it"
    return None


async def run(desk: Desk, text: str) -> None:
    """Run the command that was entered. What goes wrong becomes an error cell; nothing is ever sent by mistake."""
    if (problem := problem_with(text, is_working=desk.is_working)) is not None:
        desk.fail(problem)
        return
    entered = read(text)
    command = table.find(entered.name) if entered is not None else None
    if entered is None or command is None:
        return
    try:
        await handler_of(command)(desk, entered.argument)
    except (SpindleError, OSError) as error:
        desk.fail(reason_of(error))


def handler_of(command: SlashCommand) -> Handler:
    module, _, function = command.run.partition(":")
    return cast(Handler, getattr(import_module(f"{__package__}.{module}"), function))


def _unknown(name: str) -> str:
    shown = visible(name[:_LONGEST_NAME])
    near = nearest(name.lower(), table.names())
    hint = f"did you mean /{near}?" if near else "/help lists those there are"
    return f"unknown command /{shown}; {hint}"
