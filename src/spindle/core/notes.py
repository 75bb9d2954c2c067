"""What Spindle itself notes about a thread: pinned facts, the user's answers, and the ledger made from them.

Notes are lines of the record like everything else, so they survive resume and fork; a compaction writes their sum
into the thread. The record also keeps everything that compactions removed, and `recall` searches it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from spindle.protocol.items import Item, call_id_of, decode_json, item_text
from spindle.thread.entry import Record
from spindle.thread.history import History

if TYPE_CHECKING:
    from spindle.context.ledger import WorkLedger

KIND = "spindle_note"
_EXCERPT = 600
_MANY_RECORDS = 200
"""From here on a thread may be compacted some day; shorter ones do not load the ledger."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the record that a search met."""

    entry: int
    kind: str
    text: str
    is_cut: bool = False


class Notes:
    """The notes of one thread. Costs nothing until somebody asks for the ledger."""

    PAST = ("_ledger",)
    """What is packed while the thread rests (`core/resting.py`)."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._ledger: WorkLedger | None = None
        self._noted = 0
        """How many records the ledger has seen."""
        self._former = len(history.records)
        """What was recorded before this session; its sub-agents are gone, also if nobody lived to say so."""
        self._cwd = ""

    # ---- writing -------------------------------------------------------------------------------

    def pin(self, text: str, by: str = "user") -> None:
        """Keep a fact, word for word, through every compaction."""
        self._append({"kind": "pin", "text": text, "by": by})

    def unpin(self, text: str) -> bool:
        """Unpin a fact; false when it was not pinned."""
        is_there = text.strip() in self.ledger().pins
        if is_there:
            self._append({"kind": "unpin", "text": text})
        return is_there

    def approval(self, what: str, *, is_granted: bool, reason: str = "") -> None:
        self._append({"kind": "approval", "what": what, "is_granted": is_granted, "reason": reason})

    def read(self, path: str, **known: Any) -> None:
        """A file was shown to the model; `known` are its hash and lines."""
        self._append({"kind": "read", "path": path, **known})

    def _append(self, payload: dict[str, Any]) -> None:
        self._history.append_extra(KIND, payload)

    # ---- the ledger ----------------------------------------------------------------------------

    @property
    def pins(self) -> list[str]:
        return list(self.ledger().pins)

    @property
    def unread_records(self) -> int:
        """How many records the ledger has not taken in yet."""
        return len(self._history.records) - self._noted

    def keep_up(self) -> None:
        """Take in what is new, once there is a lot: a compaction then finds the ledger as good as done."""
        if len(self._history.records) >= _MANY_RECORDS:
            self.ledger()

    def ledger(self) -> WorkLedger:
        """What the record adds up to, now."""
        from spindle.context.ledger import WorkLedger  # not before somebody asks

        if self._ledger is None:
            self._ledger = WorkLedger()
        for number, record in enumerate(self._history.records[self._noted :], self._noted):
            self._note(record, self._ledger, is_former=number < self._former)
        self._noted = len(self._history.records)
        return self._ledger

    def _note(self, record: Record, ledger: WorkLedger, *, is_former: bool) -> None:
        match record.kind:
            case "response_item":
                if (item := _item_of(record)) is not None:
                    ledger.note_item(item, self._cwd)
            case "turn_context":
                self._cwd = record.payload.get("cwd") or self._cwd
            case "event_msg" if b'"thread_rolled_back"' in record.raw[:60]:
                turns = record.payload.get("num_turns")
                ledger.note_rolled_back(turns if isinstance(turns, int) else 0)
            case "spindle_note":
                _note_fact(record.payload, ledger)
            case "spindle_agent":
                _note_agent(record.payload, ledger, is_former=is_former)
            case _:
                pass

    # ---- looking back --------------------------------------------------------------------------

    def search(self, query: str, limit: int) -> list[Found]:
        """The newest entries that hold every word of the query, whatever the case."""
        words = query.casefold().split()
        found: list[Found] = []
        for number, kind, text in self._texts():
            if words and all(word in text.casefold() for word in words):
                found.append(Found(entry=number, kind=kind, text=_around(text, words[0]), is_cut=len(text) > _EXCERPT))
        return found[::-1][:limit]

    def entry(self, number: int) -> str | None:
        """The whole text of an entry; None when there is none."""
        return next((text for at, _, text in self._texts() if at == number), None)

    def _texts(self) -> Iterator[tuple[int, str, str]]:
        """Number, kind and text of everything that was said, called and returned, but for earlier searches."""
        searches: set[str] = set()
        for number, record in enumerate(self._history.records):
            if record.kind != "response_item":
                continue
            item = _item_of(record)
            if item is None or item.get("role") == "developer":
                continue
            if item.get("name") == "recall":
                searches.add(call_id_of(item))
            if "call_id" in item and call_id_of(item) in searches:
                continue
            kind, text = _readable(item)
            if text:
                yield number, kind, text


def _item_of(record: Record) -> Item | None:
    try:
        item = decode_json(record.raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return item if isinstance(item, dict) and isinstance(item.get("type"), str) else None


def _readable(item: Item) -> tuple[str, str]:
    kind = str(item.get("type"))
    if kind == "message":
        return str(item.get("role")), item_text(item)
    if kind == "reasoning":
        parts = item.get("summary")
        return kind, "\n".join(str(part.get("text", "")) for part in parts or () if isinstance(part, dict))
    for name in ("arguments", "input", "output"):
        value = item.get(name)
        if isinstance(value, str):
            return (str(item["name"]) if "name" in item else kind), value
        if isinstance(value, list):
            texts = (part.get("text") for part in value if isinstance(part, dict))
            return kind, "\n".join(text for text in texts if isinstance(text, str))
    return kind, ""


def _around(text: str, word: str) -> str:
    """The part of a text around the first place where a word occurs."""
    at = max(0, text.casefold().find(word) - _EXCERPT // 2)
    return text[at : at + _EXCERPT]


def _note_agent(fact: dict[str, Any], ledger: WorkLedger, *, is_former: bool) -> None:
    match fact:
        case {"id": str(agent_id), "state": str(state)}:
            ledger.note_agent(agent_id, "closed" if is_former else state, str(fact.get("task") or ""))
        case _:
            pass


def _note_fact(fact: dict[str, Any], ledger: WorkLedger) -> None:
    match fact:
        case {"kind": "pin", "text": str(text), "by": "user" | "model" | "config" as by}:
            ledger.note_pin(text, by)
        case {"kind": "unpin", "text": str(text)}:
            ledger.unpin(text)
        case {"kind": "approval", "what": str(what), "is_granted": bool(is_granted)}:
            ledger.note_approval(what, is_granted=is_granted, reason=str(fact.get("reason") or ""))
        case {"kind": "read", "path": str(path)}:
            known = {name: fact[name] for name in ("hash", "first_line", "last_line", "is_cut") if name in fact}
            ledger.note_read(path, **known)
        case _:
            pass
