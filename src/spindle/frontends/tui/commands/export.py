"""`/export`: the thread as a file, as Markdown, JSON or a page of HTML."""

from __future__ import annotations

import asyncio
import os

from spindle.api.exports import export as exported
from spindle.api.records import live_record
from spindle.config.agent_reach import widest_reach
from spindle.config.schema import Config
from spindle.errors import SpindleError, reason_of
from spindle.frontends.tui.commands.folders import folder_of
from spindle.frontends.tui.desk import Desk
from spindle.frontends.tui.text.clean import name
from spindle.frontends.tui.views.list import ListView, Row
from spindle.workspace.output_file import OutputFile

_FORMATS = {".md": "markdown", ".markdown": "markdown", ".json": "json", ".html": "html", ".htm": "html"}


async def export(desk: Desk, argument: str) -> None:
    """The format is told by the end of the file's name; a file that is there is not overwritten without asking."""
    thread = desk.thread
    if thread is None or not thread.records:
        raise SpindleError("nothing was said in this thread yet, so there is nothing to export")
    given = argument
    if not given:
        chosen = await desk.ask(ListView("Export the thread as", _formats(thread.id)))
        if chosen is None:
            return
        given = chosen
    elif given.lower() in ("markdown", "md", "json", "html"):
        given = f"thread-{thread.id}.{'md' if given.lower() == 'markdown' else given.lower()}"
    path = os.path.expanduser(given)
    path = os.path.abspath(path if path.startswith("/") else f"{folder_of(desk)}/{path}")
    kind = _FORMATS.get(os.path.splitext(path)[1].lower())
    if kind is None:
        raise SpindleError(f"{name(given)}: the name must end in .md, .json or .html, which says what is written")
    if os.path.lexists(path) and not await _may_replace(desk, path):
        return
    called = desk.facts.thread_name or thread.name
    record = await asyncio.to_thread(lambda: live_record(thread, called, include_turns=True))
    text = await asyncio.to_thread(exported, record, kind)
    await asyncio.to_thread(_write, path, text.encode("utf-8", "replace"), desk.config)
    desk.say(f"Exported as {kind} to {name(path)} ({len(text):,} characters, readable by you alone).")


def _formats(thread_id: str) -> list[Row[str]]:
    words = {"md": "Markdown, to read", "json": "JSON, for programs", "html": "a page for a browser"}
    return [Row(value=f"thread-{thread_id}.{end}", name=f"thread-{thread_id}.{end}", about=words[end]) for end in words]


async def _may_replace(desk: Desk, path: str) -> bool:
    if not os.path.isfile(path) or os.path.islink(path):
        raise SpindleError(f"{name(path)} already exists and is not an ordinary file; choose another name")
    rows = [Row(value=False, name="No"), Row(value=True, name="Yes, replace it")]
    return bool(await desk.ask(ListView(f"{name(path)} is there already. Replace it?", rows)))


def _write(path: str, data: bytes, config: Config) -> None:
    """As a whole or not at all, through no link of the agent's; what was said in a thread is for its owner only."""
    try:
        output = OutputFile(path, reach=widest_reach(config), mode=0o600)
        output.write(data)
        output.close()
    except OSError as error:
        raise SpindleError(f"{name(path)} cannot be written: {reason_of(error)}") from error
