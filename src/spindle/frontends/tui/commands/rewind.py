"""`/rewind`: back to an earlier message, to say it in other words and go on from there; files, the talk, or both."""

from __future__ import annotations

import asyncio

from spindle.errors import SpindleError
from spindle.frontends.fit import counted
from spindle.frontends.tui.desk import Desk
from spindle.frontends.tui.views.list import ListView, Row
from spindle.protocol.ops import ThreadRollback, Undo
from spindle.thread.view import TurnView, transcript

_BOTH, _TALK, _FILES = "both", "talk", "files"


async def rewind(desk: Desk, argument: str) -> None:
    from spindle.frontends.tui.views.rewind import RewindView  # seldom

    if desk.thread is None or not desk.thread.records:
        raise SpindleError("nothing was said in this thread yet")
    turns = await asyncio.to_thread(transcript, list(desk.thread.records))
    said = [(turn, number, _text(item)) for turn in turns for number, item in enumerate(_inputs(turn))]
    chosen = await desk.ask(RewindView([text for _, _, text in said]))
    if chosen is None:
        return
    turn, number, _ = said[-chosen.turns_back]
    later = turns[turns.index(turn) :]
    files = await asyncio.to_thread(_changed_files, desk, [one.id for one in later])
    what = await _what(desk, files) if files else _TALK
    if what is None:
        return
    if what == _TALK or number:
        # What was steered into a turn is a message of its own; files go back by whole turns.
        await desk.call(ThreadRollback(num_turns=chosen.turns_back))
        if what != _TALK:
            desk.warn(
                "Files were not taken back: that message was sent into a running turn; go back to the one before."
            )
    else:
        from spindle.frontends.tui.commands.undo import carry_out  # only where files go back

        if await carry_out(desk, Undo(to=turn.id, conversation=what == _BOTH)) is None:
            return
    if what != _FILES:
        desk.begin_draft(chosen.text)
        desk.say("Back before that message: what came after it is left out of the thread.")


async def _what(desk: Desk, files: int) -> str | None:
    rows = [
        Row(value=_BOTH, name="Talk and files", about=f"{counted(files, 'file')} as before that message"),
        Row(value=_TALK, name="Talk alone", about="files stay as they are"),
        Row(value=_FILES, name="Files alone", about="your next message tells the model"),
    ]
    return await desk.ask(ListView("What should go back?", rows))


def _changed_files(desk: Desk, turns: list[str]) -> int:
    """How many files these turns have changed."""
    from spindle.api.undoing import undo_list  # only where somebody goes back
    from spindle.thread.store import ThreadStore  # likewise

    assert desk.thread is not None
    store = ThreadStore(desk.config.home, desk.clock)
    ref = store.find(desk.thread.id)
    listed = [] if ref is None else undo_list(store, ref)
    return len({change["path"] for turn in listed if turn["id"] in turns for change in turn["changes"]})


def _inputs(turn: TurnView) -> list[dict[str, object]]:
    return [item for item in turn.items if item["type"] == "UserMessage"]


def _text(item: dict[str, object]) -> str:
    content = item["content"]
    assert isinstance(content, list)
    return next((str(part.get("text") or "") for part in content if part.get("type") == "text"), "")
