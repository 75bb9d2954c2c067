"""`/recap`: what was asked and done so far, from the record. No model is asked."""

from __future__ import annotations

import asyncio
from typing import Any

from spindle.context.calls import command_of, patched_files
from spindle.errors import SpindleError
from spindle.frontends.fit import counted, cut
from spindle.frontends.tui.commands.lines import INDENT, block, clean, note
from spindle.frontends.tui.desk import Desk
from spindle.frontends.tui.shown import Line, Span
from spindle.frontends.tui.text.clean import name
from spindle.thread.view import TurnView, transcript

_WORDS = 160
_SHOWN = 20


async def show(desk: Desk, argument: str) -> None:
    if desk.thread is None or not desk.thread.records:
        raise SpindleError("nothing was said in this thread yet")
    records = list(desk.thread.records)
    turns = [turn for turn in await asyncio.to_thread(lambda: transcript(records, with_calls=True)) if turn.items]
    lines = [line for number, turn in enumerate(turns, 1) for line in _turn(number, turn)][-_SHOWN * 4 :]
    desk.say(*block(f"{counted(len(turns), 'turn')} so far", lines))


def _turn(number: int, turn: TurnView) -> list[Line]:
    asked = " ".join(clean(_text(item)) for item in turn.items if item.get("type") == "UserMessage")
    answers = [clean(_text(item)) for item in turn.items if item.get("type") == "AgentMessage"]
    start = f"{INDENT}{number}. "
    lines = [Line((Span(start), Span(cut(asked, _WORDS), "user")), (Span(" " * len(start)),))]
    if did := _deeds(turn.items):
        lines.append(note(f"   {did}"))
    if answers:
        lines.append(note(f"   {cut(answers[-1], _WORDS)}"))
    if turn.status in ("failed", "interrupted"):
        lines.append(note(f"   the turn {'failed' if turn.status == 'failed' else 'was interrupted'}"))
    return lines


def _text(item: dict[str, Any]) -> str:
    content = item.get("content")
    if isinstance(content, list):
        return " ".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return str(item.get("text") or item.get("message") or "")


def _deeds(items: list[dict[str, Any]]) -> str:
    calls = [item["call"] for item in items if item.get("type") == "Call" and isinstance(item.get("call"), dict)]
    commands = sum(command_of(call) is not None for call in calls)
    files = list(dict.fromkeys(name(file.path) for call in calls for file in patched_files(call)))
    parts = [counted(commands, "command") + " run"] if commands else []
    if files:
        parts.append(f"patched {', '.join(files[:5])}" + (f" and {len(files) - 5} more" if len(files) > 5 else ""))
    return "; ".join(parts)
