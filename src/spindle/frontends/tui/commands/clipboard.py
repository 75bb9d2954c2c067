"""`/copy` and `/raw`: the last answer as the model wrote it, in the clipboard or on the screen."""

from __future__ import annotations

import asyncio
import os
from asyncio.subprocess import DEVNULL, PIPE

from spindle.errors import SpindleError
from spindle.frontends.fit import counted, cut
from spindle.frontends.tui.commands.lines import block, clean
from spindle.frontends.tui.desk import Desk
from spindle.frontends.tui.shown import Line, Span
from spindle.frontends.tui.text.clean import safe_lines
from spindle.process.lookup import find_installed

_PROGRAMS = (
    ("WAYLAND_DISPLAY", ("wl-copy",)),
    ("DISPLAY", ("xclip", "-selection", "clipboard")),
    ("DISPLAY", ("xsel", "--clipboard", "--input")),
    ("", ("pbcopy",)),
    ("", ("clip.exe",)),
)
"""Which program keeps the clipboard, and the variable without which it cannot work."""
_PATIENCE_S = 2.0
_SHOWN = 60


async def copy(desk: Desk, argument: str) -> None:
    text = desk.seen.last_answer
    if not text:
        raise SpindleError("there is no answer to copy yet")
    program = await _by_program(text)
    if program is None:
        desk.copy(text)
    lines = counted(text.count("\n") + 1, "line")
    how = f"with {program}" if program else "by the terminal; some terminals must be told to allow that"
    desk.say(f"Copied the last answer ({lines}, {len(text):,} characters) {how}: {cut(clean(text), _SHOWN)}")


async def _by_program(text: str) -> str | None:
    """Give it to the clipboard's own program; its name, or None when there is none, or we are on another machine."""
    if os.environ.get("SSH_CONNECTION") or os.environ.get("SSH_TTY"):
        return None  # the clipboard that is meant is at the other end, and only the terminal can reach it
    for variable, words in _PROGRAMS:
        path = find_installed(words[0])
        if path is None or (variable and not os.environ.get(variable)):
            continue
        try:
            running = await asyncio.create_subprocess_exec(
                path, *words[1:], stdin=PIPE, stdout=DEVNULL, stderr=DEVNULL, start_new_session=True
            )
        except OSError:
            continue
        try:
            await asyncio.wait_for(running.communicate(text.encode("utf-8", "replace")), _PATIENCE_S)
        except (TimeoutError, OSError):
            if running.returncode is None:
                running.kill()
                await running.wait()
            continue
        if running.returncode == 0:
            return words[0]
    return None


async def raw(desk: Desk, argument: str) -> None:
    """Answers without our rendering, on or off: their Markdown, every blank and line end. The last one is shown so."""
    is_on = {"on": True, "off": False}.get(argument.lower(), not desk.facts.is_raw)
    desk.use_setting("tui.raw_output_mode", is_on)
    if not is_on:
        desk.say("Answers are rendered from now on.")
        return
    desk.say("Answers are shown as they were written from now on; /raw switches back.")
    if text := desk.seen.last_answer:
        desk.say(*block("The last answer", [Line((Span(each),), (), True) for each in safe_lines(text)]))
