"""The state that the lines of a thread add up to: the list of items, and everything else they say.

Items are added, a compaction replaces the earlier items, a rollback drops the last turns, a bookmark leads back to an
earlier state. `history` folds what it appends, line by line; reading a file again is the same fold.
"""

from __future__ import annotations

from typing import Any

import msgspec

from spindle.protocol.items import (
    Item,
    decode_json,
    encode_payload,
    is_call,
    is_external,
    is_output,
    is_user_input,
    item_text,
)
from spindle.protocol.provenance import ModelOrigin
from spindle.thread.bookmarks import Bookmark, Context
from spindle.thread.entry import Entry, Record, decode_made, entries_of
from spindle.thread.payloads import (
    decode_bookmark,
    decode_compacted,
    decode_event,
    decode_refused,
    decode_world_state,
)

_KEEPS_WORLD_STATE = "root_turn_id"
"""A field only the contexts of that generation have; theirs never hold the user's instructions."""
_TURN_ENDS = ("task_complete", "turn_complete")


class Folded:
    """What the lines so far come to. `entries` is the folded list: read it, never change it."""

    PAST = ("entries", "_contexts", "_turn_starts", "_bookmarks", "_summaries", "request_lines")
    """What is packed while the thread rests (`core/resting.py`)."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.generation = 0
        """Grows whenever `entries` was not just appended to: whoever follows it step by step must start over."""
        self.meta: dict[str, Any] = {}
        self.name: str | None = None
        self.token_info: dict[str, Any] | None = None
        """The `info` of the last token_count that had one."""
        self.counted = (0, 0)
        """Which generation of `entries` it counted, and how many of them."""
        # Like `entries`, these two are appended to or replaced, never cut in place: bookmarks hold on to them.
        self._contexts: list[Context] = []
        self._user_instructions: str | None = None
        self._turn_starts: list[int] = []
        """Where in `entries` the person's turns begin."""
        self._first_call: int | None = None
        """Where in `entries` the calls begin that have no output yet."""
        self._bookmarks: dict[str, Bookmark] = {}
        self._summaries: set[str] = set()
        self.compaction_count = 0
        """How often a summary, or a server, has replaced what stood before."""
        self._is_counted = False
        """The last of them was counted by its own line."""
        self.compacted_tokens = 0
        """How long the thread was right after the last of them: as the server counted the next request, if it has."""
        self._awaits_count = False
        self.has_had_goal = False  # a line tells of a goal; which one there is now, `goals` knows
        self.refused_origins: list[ModelOrigin] = []
        """Servers that could not read the opaque parts which are said to be theirs: those are not sent again."""
        self.request_lines: list[Record] = []  # those of earlier requests, for `core/request_log.py`

    # ---- what is known about the thread ----

    @property
    def thread_id(self) -> str | None:
        return self.meta.get("id")

    @property
    def base_instructions(self) -> str | None:
        """The base text the thread was started with."""
        base = self.meta.get("base_instructions")
        text = base.get("text") if isinstance(base, dict) else base
        return text if isinstance(text, str) else None

    @property
    def last_turn_context(self) -> dict[str, Any] | None:
        """The settings the model was last told, as far as the list still says so."""
        return decode_json(self._contexts[-1][1]) if self._contexts else None

    @property
    def model(self) -> str | None:
        """The model the thread was last recorded with."""
        context = self.last_turn_context
        return context.get("model") if context else None

    @property
    def user_turn_count(self) -> int:
        return len(self._turn_starts)

    @property
    def last_turn_start(self) -> int:
        """Where the newest input of a person stands in `entries`; 0 when there is none."""
        return self._turn_starts[-1] if self._turn_starts else 0

    def is_user_turn(self, item: Item) -> bool:
        """A message that a person wrote: neither context nor the summary of a compaction."""
        return is_user_input(item) and not self.is_summary(item)

    def is_summary(self, item: Item) -> bool:
        return bool(self._summaries) and item.get("role") == "user" and item_text(item) in self._summaries

    def has_bookmark(self, response_id: str) -> bool:
        return response_id in self._bookmarks

    def bookmark_at(self, length: int) -> str | None:
        """A bookmark of the state in which the list was the first `length` entries of the present one."""
        for name, mark in reversed(self._bookmarks.items()):
            if mark.length == length and mark.shared_with(self.entries) == length:
                return name
        return None

    def inputs_from(self, position: int) -> int:
        """How many inputs of a person stand at or behind a place in `entries`."""
        return sum(start >= position for start in self._turn_starts)

    # ---- folding ----

    def _fold(self, record: Record) -> None:
        match record.kind:
            case "response_item":
                entry = Entry.from_bytes(record.raw, decode_made(record.beside))
                if entry is not None:
                    self._fold_item(entry)
            case "event_msg":
                self._fold_event(record.raw)
            case "turn_context":
                self._fold_context(record)
            case "world_state":
                self._fold_world_state(record.raw)
            case "compacted":
                self._fold_compacted(record)
            case "spindle_bookmark":
                try:
                    self._fold_bookmark(decode_bookmark(record.raw).response_id)
                except msgspec.DecodeError:
                    pass
            case "spindle_request" | "spindle_terms":
                self.request_lines.append(record)
            case "spindle_opaque_refused":
                try:
                    self.refused_origins.append(decode_refused(record.raw).origin)
                except msgspec.DecodeError:
                    pass
            case _:
                pass  # lines of others stay in the record and mean nothing here

    def _fold_item(self, entry: Entry) -> None:
        item = entry.item
        if is_call(item):
            if self._first_call is None:
                self._first_call = len(self.entries)
        elif is_output(item) or "role" in item or is_external(item):
            if item.get("role") == "user" and self.is_user_turn(item):
                self._turn_starts.append(len(self.entries))
            if item.get("role") != "assistant":
                self._first_call = None
        self.entries.append(entry)

    def _fold_event(self, raw: bytes) -> None:
        try:
            event = decode_event(raw)
        except msgspec.DecodeError:
            return
        if event.type == "context_compacted":
            self.compaction_count += not self._is_counted
            self._is_counted = False
            self.compacted_tokens, self._awaits_count = 0, True
        elif event.type == "token_count":
            try:
                info = decode_json(bytes(event.info))
            except (msgspec.DecodeError, UnicodeDecodeError):
                return
            if isinstance(info, dict) and info:
                self._fold_count(info)
        elif event.type == "thread_rolled_back":
            mark = self._bookmarks.get(event.spindle_bookmark) if event.spindle_bookmark else None
            if mark is not None:
                self._restore(mark)
            elif isinstance(event.num_turns, int):
                self._roll_back(event.num_turns)
        elif event.type == "thread_goal_updated":
            self.has_had_goal = True
        elif event.type == "undo_started" and isinstance(event.response_id, str):
            self._fold_bookmark(event.response_id)
        elif (
            event.type in _TURN_ENDS and isinstance(event.response_id, str) and not self.has_bookmark(event.response_id)
        ):
            # Usually marked already, by the response's own line; a file without such lines is marked here.
            self._fold_bookmark(event.response_id)

    def _fold_count(self, info: dict[str, Any]) -> None:
        """How far a count reaches: the outputs just recorded answer the calls of a response that it is about."""
        former, self.token_info = self.token_info or {}, info
        last = info.get("last_token_usage")
        if self._awaits_count and isinstance(last, dict):
            self._note_compacted_size(last)
        is_told_again = info.get("total_token_usage") == former.get("total_token_usage")
        if is_told_again and self.counted[0] == self.generation:
            return
        reach = len(self.entries)
        if isinstance(last, dict) and last.get("input_tokens"):
            while reach and is_output(self.entries[reach - 1].item):
                reach -= 1
        self.counted = (self.generation, reach)

    def _note_compacted_size(self, last: dict[str, Any]) -> None:
        """The first counts after a compaction: an estimate, written with it, then what the server says."""
        counted, estimated = last.get("input_tokens"), last.get("total_tokens")
        if isinstance(counted, int) and counted:
            self.compacted_tokens, self._awaits_count = counted, False
        elif isinstance(estimated, int):
            self.compacted_tokens = self.compacted_tokens or estimated

    def _fold_context(self, record: Record) -> None:
        """Complete a context of the reference's current generation, so that nothing it told is told again."""
        payload = record.payload
        raw = record.raw if payload else b"{}"  # a damaged rollout may hold anything
        if _KEEPS_WORLD_STATE not in payload:
            self._user_instructions = payload.get("user_instructions")
        elif self._user_instructions is not None:
            raw = encode_payload({"user_instructions": self._user_instructions, **payload})
        self._contexts.append((len(self.entries), raw))

    def _fold_world_state(self, raw: bytes) -> None:
        try:
            recorded = decode_world_state(raw)
        except msgspec.DecodeError:
            return
        told = recorded.state.agents_md or {}
        if recorded.full or "text" in told:
            self._user_instructions = told.get("text")

    def _fold_bookmark(self, response_id: str) -> None:
        self._bookmarks[response_id] = Bookmark(self.entries, self._contexts)

    def _fold_compacted(self, record: Record) -> None:
        try:
            compacted = decode_compacted(record.raw)
        except msgspec.DecodeError:
            return
        mark = self._bookmarks.get(compacted.spindle_bookmark) if compacted.spindle_bookmark else None
        if mark is not None:
            self._restore(mark)
            return
        message = compacted.message if isinstance(compacted.message, str) else ""
        if compacted.replacement_history is None:
            from spindle.thread.summary import rebuild_after_summary  # only for old files, which hold no list

            items = rebuild_after_summary((entry.item for entry in self.entries), message, self.is_summary)
            entries = [Entry.of(item) for item in items]
        else:
            parts = [bytes(part) for part in compacted.replacement_history]
            entries = list(entries_of(parts, record.beside))
        self._replace(entries, message)
        self._is_counted = compacted.window_number is not None
        self.compaction_count += self._is_counted

    def _roll_back(self, num_turns: int) -> None:
        if num_turns <= 0 or not self._turn_starts:
            return
        cut = self._turn_starts[-num_turns] if num_turns <= len(self._turn_starts) else self._turn_starts[0]
        # A turn's settings are recorded beside its first message, while the messages that told the model about them
        # stand before it and stay.
        before = [context for context in self._contexts if context[0] < cut]
        after = next(([(cut, raw)] for length, raw in self._contexts if length >= cut), [])
        self._go_back(self.entries[:cut], before + after)

    def _restore(self, mark: Bookmark) -> None:
        self._go_back(mark.entries[: mark.length], mark.contexts[: mark.told])

    def _replace(self, entries: list[Entry], message: str) -> None:
        if message:
            self._summaries.add(message)
        self._become(entries, [(0, raw) for _, raw in self._contexts[-1:]])

    def _go_back(self, entries: list[Entry], contexts: list[Context]) -> None:
        """Return to an earlier state, in which the last compaction may not have happened yet."""
        self.compacted_tokens, self._awaits_count = 0, False
        self._become(entries, contexts)

    def _become(self, entries: list[Entry], contexts: list[Context]) -> None:
        """Take over another folded list. The old one lives on as long as a bookmark leads to it."""
        self.entries = entries
        self.generation += 1
        self._first_call = None
        self._contexts = contexts
        self._turn_starts = [index for index, entry in enumerate(entries) if self.is_user_turn(entry.item)]
