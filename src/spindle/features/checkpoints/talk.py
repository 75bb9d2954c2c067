"""The turns of a thread as its record has them: which there are, which still count, and how to go back before one."""

from __future__ import annotations

from typing import Any

import msgspec

from spindle.core.briefing import Briefing
from spindle.core.live_thread import LiveThread
from spindle.protocol.items import is_external, item_text, name_of_external
from spindle.thread.entry import Entry, Record
from spindle.thread.history import History
from spindle.thread.reading import RolloutData

_STARTS = ("task_started", "turn_started")
_SHELL = "<user_shell_command>"
_GOAL = '<codex_internal_context source="goal">'


class TalkTurn(msgspec.Struct):
    """One turn of the record."""

    number: int
    """How many turns the record has up to this one."""
    id: str
    length: int
    """How long the list of items was when it began."""
    before: list[Entry]
    """That list; another may have taken its place since."""
    context: dict[str, Any] | None
    """The settings that the model had last been told then."""
    prompt: str = ""
    """What was said first in it, or the command that a person ran, or the goal that it was for."""
    has_input: bool = False
    """A person said something to the model in it."""
    first: Entry | None = None
    """The first item that belongs to it."""
    position: int | None = None
    """Where that item stands in the present list; None when it is not in it."""
    is_dropped: bool = False
    """It was rolled back: the model is not shown it any more."""


def starts_turn(record: Record) -> bool:
    return record.kind == "event_msg" and b"_started" in record.raw[:64] and record.payload.get("type") in _STARTS


class TurnCount:
    """How many turns have begun. Asked before each command that may write, so it looks at each record only once."""

    def __init__(self) -> None:
        self._seen = 0
        self._turns = 0

    def of(self, history: History) -> int:
        """`history` is the same at each call."""
        records = history.records
        self._turns += sum(starts_turn(record) for record in records[self._seen :])
        self._seen = len(records)
        return self._turns


def turns_of(history: History) -> list[TalkTurn]:
    """Every turn of the record, in order."""
    data = RolloutData(path="", thread_id="", meta=history.meta, records=[])
    data.records = list(history.records)
    turns: list[TalkTurn] = []
    marks: dict[str, set[int]] = {}
    """By bookmark, the turns that counted there."""
    entries: list[Entry] = []
    for record, now in History.steps(data):
        if starts_turn(record):
            turn_id = str(record.payload.get("turn_id") or f"turn-{len(turns) + 1}")
            turns.append(TalkTurn(len(turns) + 1, turn_id, len(now.entries), now.entries, now.last_turn_context))
        elif record.kind == "response_item":
            _note_item(turns, now)
        elif record.kind in ("event_msg", "compacted", "spindle_bookmark"):
            _note_going_back(turns, record, now, marks)
        entries = now.entries
    places = {id(entry): place for place, entry in enumerate(entries)}
    for turn in turns:
        turn.position = places.get(id(turn.first)) if turn.first is not None else None
    return turns


def _note_item(turns: list[TalkTurn], now: History) -> None:
    if not turns or not now.entries:
        return
    turn, entry = turns[-1], now.entries[-1]
    turn.first = turn.first or entry
    if is_external(entry.item) and not turn.prompt:
        turn.prompt = f"Message from {name_of_external(entry.item)}"
    if entry.item.get("role") != "user" or (turn.has_input and turn.prompt):
        return
    text = item_text(entry.item)
    if now.is_user_turn(entry.item):
        turn.prompt, turn.has_input = text, True
    elif text.startswith(_SHELL) and not turn.prompt:
        turn.prompt = "!" + text.partition("<command>")[2].partition("</command>")[0].strip()
    elif text.startswith(_GOAL) and not turn.prompt:
        turn.prompt = "Goal: " + text.partition("<objective>")[2].partition("</objective>")[0].strip()


def _note_going_back(turns: list[TalkTurn], record: Record, now: History, marks: dict[str, set[int]]) -> None:
    """A rollback, or the way back to a bookmark: which turns still count after it?"""
    payload = record.payload
    known = marks.get(str(payload.get("spindle_bookmark")))
    if known is not None:
        for turn in turns:
            turn.is_dropped = turn.number not in known
    elif payload.get("type") == "thread_rolled_back":
        there = {id(entry) for entry in now.entries}
        for turn in turns:
            # What a compaction has replaced cannot be found there either; then the list it stood in is another one.
            stood_here = bool(now.entries) and bool(turn.before[:1]) and turn.before[0] is now.entries[0]
            is_gone = turn.first is not None and id(turn.first) not in there
            turn.is_dropped |= is_gone and (stood_here or not now.entries or turn.length == 0)
    if isinstance(payload.get("response_id"), str):
        marks[payload["response_id"]] = {turn.number for turn in turns if not turn.is_dropped}


def mark_of(undo_id: str) -> str:
    """The bookmark that an undo leaves, for the way back."""
    return f"undo-{undo_id}"


def has_gone_back(history: History, mark: str) -> bool:
    """Has the thread gone back since this mark was made?"""
    needle = mark.encode()
    goes_back = False
    for record in reversed(history.records):
        if needle in record.raw:
            return goes_back
        goes_back = goes_back or record.kind == "compacted" or b'"thread_rolled_back"' in record.raw[:64]
    return False


def go_back(thread: LiveThread, briefing: Briefing, turn: TalkTurn) -> int:
    """The thread goes on as if this turn and all after it had not been; gives how many inputs that drops."""
    history = thread.history
    if turn.position is None:
        # A compaction has replaced it: only the whole list of then leads back.
        dropped = history.inputs_from(0)
        before = turn.before[: turn.length]
        made = {id(entry.item): entry.made for entry in before if entry.made is not None}
        thread.replace_visible([entry.item for entry in before], "undo", made=made)
        briefing.forget_since(turn.context)
        return dropped
    dropped = history.inputs_from(turn.position)
    if turn.has_input and dropped and _begins_with_person(history, turn.position):
        history.append_rolled_back(dropped)
        thread.cache.declare("rollback")
    elif (mark := history.bookmark_at(turn.position)) is not None:
        history.cut_to_bookmark(mark)
        thread.cache.declare("rollback")
    else:
        thread.replace_visible([entry.item for entry in history.entries[: turn.position]], "undo")
    briefing.forget_since(history.last_turn_context)
    return dropped


def _begins_with_person(history: History, position: int) -> bool:
    """A rollback cuts before a person's input; what a program brought before that would stay."""
    inputs = (entry.item for entry in history.entries[position:])
    return next((not is_external(item) for item in inputs if is_external(item) or history.is_user_turn(item)), False)


def come_back(thread: LiveThread, briefing: Briefing, mark: str) -> None:
    """The opposite: to where the thread stood when the mark was made."""
    thread.history.cut_to_bookmark(mark)
    thread.cache.declare("rollback")
    briefing.forget_since(thread.history.last_turn_context)
