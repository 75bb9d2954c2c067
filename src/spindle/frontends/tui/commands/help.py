"""`/help`: keys and commands."""

from __future__ import annotations

from spindle.errors import SpindleError
from spindle.frontends.fit import cells
from spindle.frontends.options import nearest
from spindle.frontends.tui.commands import table
from spindle.frontends.tui.commands.lines import heading, note
from spindle.frontends.tui.commands.table import SlashCommand
from spindle.frontends.tui.composer.keymap import Keymap
from spindle.frontends.tui.desk import Desk
from spindle.frontends.tui.key_list import key_lines
from spindle.frontends.tui.shown import BLANK, Line, Span


async def show(desk: Desk, argument: str) -> None:
    """Everything in the pager; `/help model` about one command."""
    if argument:
        _about_one(desk, argument.lstrip("/"))
        return
    await desk.page("Keys and commands", [*key_lines(keymap_of(desk)), BLANK, *command_lines()])


def keymap_of(desk: Desk) -> Keymap:
    return Keymap(desk.config.tui.keys, desk.config.tui.keymap)


def command_lines() -> list[Line]:
    shown = [(_usage(command), command) for command in table.COMMANDS]
    width = max(cells(usage) for usage, _ in shown) + 4
    lines = [heading("Commands"), note("* also while a turn runs")]
    for usage, command in shown:
        also = f" (also {', '.join('/' + alias for alias in command.aliases)})" if command.aliases else ""
        mark = "* " if command.is_allowed_in_turn else "  "
        start = mark + usage + " " * (width - cells(usage) - 2)
        lines.append(Line((Span(start, "accent"), Span(command.summary), Span(also, "dim")), (Span(" " * width),)))
    return lines


def _usage(command: SlashCommand) -> str:
    return f"/{command.name} {command.argument}".rstrip()


def _about_one(desk: Desk, name: str) -> None:
    command = table.find(name)
    if command is None:
        near = nearest(name.lower(), table.names())
        raise SpindleError(f"unknown command /{name[:40]}" + (f"; did you mean /{near}?" if near else ""))
    desk.say(Line((Span(_usage(command), "accent"), Span(f"  {command.summary}"))))
    if command.aliases:
        desk.say(note(f"also {', '.join('/' + alias for alias in command.aliases)}"))
    if not command.is_allowed_in_turn:
        desk.say(note("not while a turn runs"))
