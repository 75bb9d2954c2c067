"""`/undo`: take back what the last turn did to files and to the conversation; `/undo redo` puts it back."""

from __future__ import annotations

import msgspec

from spindle.errors import SpindleError
from spindle.frontends.fit import counted
from spindle.frontends.tui.commands.lines import clean, note
from spindle.frontends.tui.desk import Desk
from spindle.frontends.tui.shown import Line
from spindle.frontends.tui.views.list import ListView, Row
from spindle.protocol.ops import Undo
from spindle.protocol.undo import UndoCompleted, UndoReport

_MOST_NAMED = 20


async def undo(desk: Desk, argument: str) -> None:
    if argument not in ("", "redo", "files"):
        raise SpindleError("/undo takes nothing, `files` for files alone, or `redo` to put back what it took")
    op = Undo(redo=argument == "redo", conversation=argument != "files")
    await carry_out(desk, op)


async def carry_out(desk: Desk, op: Undo) -> UndoReport | None:
    """Undo, ask what to do about files that somebody else has changed, and say what came of it; None = nothing did."""
    if desk.thread is None:
        raise SpindleError("nothing was said in this thread yet")
    report = await _ask(desk, op)
    if report.status == "conflict":
        names = "\n".join(f"{clean(one.path)}: {one.reason}" for one in report.conflicts[:_MOST_NAMED])
        rows = [
            Row(value=False, name="No, change nothing"),
            Row(value=True, name="Yes, restore the rest", about="these files stay as they are"),
        ]
        title = f"Somebody else has changed {counted(len(report.conflicts), 'file')} since. Undo all the same?"
        if not await desk.ask(ListView(title, rows, note=names)):
            desk.say("Nothing was changed.")
            return None
        report = await _ask(desk, msgspec.structs.replace(op, keep_mine=True))
    if report.status == "nothing":
        desk.warn(f"{report.message[:1].upper()}{report.message[1:]}.")
        return None
    desk.say(*_told(report))
    return report


async def _ask(desk: Desk, op: Undo) -> UndoReport:
    answer = await desk.call(op)
    assert isinstance(answer, UndoCompleted)
    return msgspec.convert(answer.report, UndoReport)


def _told(report: UndoReport) -> list[Line | str]:
    lines: list[Line | str] = [f"{report.message[:1].upper()}{clean(report.message[1:])}."]
    lines += [note(f"{one.action} {clean(one.path)}") for one in report.restored[:_MOST_NAMED]]
    if (more := len(report.restored) - _MOST_NAMED) > 0:
        lines.append(note(f"and {counted(more, 'file')} more"))
    for one in report.conflicts:
        saved = f"; the older version is {one.saved_as}" if one.saved_as else ""
        lines.append(note(f"left alone: {clean(one.path)} ({one.reason}{clean(saved)})"))
    lines += [note(f"skipped: {clean(one.path)} ({clean(one.reason)})") for one in report.skipped]
    if report.status == "undone":
        lines.append(note("/undo redo puts it back, until the next message"))
    return lines
