"""The append-only record of one thread, and the list of items that results from it.

Every append goes to the rollout file and is folded at once: items are added, a compaction replaces what stood before,
a rollback drops the last turns, a bookmark leads back to an earlier state. Reading a file again is the same fold. What
the model is shown of the items is computed in `context` and `prompt`; what people are shown, in `view`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from spindle.errors import ThreadError
from spindle.protocol.items import (
    Item,
    call_id_of,
    decode_json,
    encode_payload,
    is_call,
    is_external,
    is_output,
    is_user_input,
    item_text,
)
from spindle.protocol.provenance import ModelOrigin, Provenance
from spindle.thread.bookmarks import Bookmark, Context, compacted_payload
from spindle.thread.call_order import KIND, AllAnswered, in_call_order
from spindle.thread.entry import Entry, decode_made, encode_made, encode_made_in, entries_of
from spindle.thread.payloads import decode_bookmark, decode_compacted, decode_event, decode_refused, decode_world_state
from spindle.thread.rollout import Record, RolloutData, RolloutWriter
from spindle.thread.summary import rebuild_after_summary

REFUSED = "spindle_opaque_refused"
"""The kind of the line that says so."""

_KEEPS_WORLD_STATE = "root_turn_id"
"""A field only the contexts of that generation have; theirs never hold the user's instructions."""
_TURN_ENDS = ("task_complete", "turn_complete")


class History:
    """One thread. `entries` is the folded list: read it, never change it."""

    def __init__(self, writer: RolloutWriter | None = None) -> None:
        self.writer = writer
        self.mask: Callable[..., bytes] | None = None
        """`mask(raw, own_only=…)`: takes out of JSON what must not be recorded; `own_only` for a person's own words.

        Applied to what is appended, never to what was recorded before: a prompt's prefix keeps its bytes.
        """
        self.seal: Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]] | None = None
        """`seal(meta, context)`: marks the settings of a turn as written by this home; see `seal`."""
        self.records: list[Record] = []
        """Everything that was recorded, in the order in which it is told, whether or not there is a file."""
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
        self._batch: list[Entry] = []
        """What was recorded since then, in that order; empty until one of the calls is answered."""
        self._results: dict[int, Record] = {}
        """By the identity of its entry, the record of what a call gave; it waits for the other calls."""
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

    @classmethod
    def replay(cls, data: RolloutData, writer: RolloutWriter | None = None) -> History:
        """The history that a rollout file holds. `writer` goes on with the same file."""
        history = cls(writer)
        history.meta = data.meta
        history.records = data.records
        for record in data.records:
            history._fold(record)
        return history

    @classmethod
    def steps(cls, data: RolloutData) -> Iterator[tuple[Record, History]]:
        """The same, record by record: each with the history as it stands after it. It is always the same object."""
        history = cls()
        history.meta = data.meta
        for record in data.records:
            history.records.append(record)
            history._fold(record)
            yield record, history

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
        return self._contexts[-1][1] if self._contexts else None

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

    # ---- appending ----

    def append_meta(self, payload: dict[str, Any]) -> None:
        """The first record of a thread."""
        self.meta = payload
        if self.writer is not None:
            raw = encode_payload(payload)
            self.writer.append("session_meta", raw if self.mask is None else self.mask(raw))

    def begin_file(self) -> None:
        """Make the rollout file, though no person has written a message yet. A second call is nothing."""
        if self.writer is not None:
            self.writer.begin()

    def append_item(self, item: Item, made: Provenance | None = None) -> Entry:
        """Record a finished item, and who made it. The first message that starts work makes the rollout file."""
        entry, record = self._write_item(item, made)
        self.records.append(record)
        if self._batch:
            self._batch.append(entry)
        self._fold_item(entry)
        if self.writer is not None and self.writer.is_waiting and (self._turn_starts or is_external(item)):
            self.writer.begin()
        return entry

    def append_result(self, output: Item, follow_up: Sequence[Item] = ()) -> None:
        """Write down what a call gave, at once: it must not get lost while other calls run.

        With `settle_calls` it joins the list; until then no server has counted it, and its place is not known.
        """
        if not self._batch and self._first_call is not None:
            self._batch = self.entries[self._first_call :]
        for item in (output, *follow_up):
            entry, record = self._write_item(item)
            self._batch.append(entry)
            self._results[id(entry)] = record

    def settle_calls(self) -> None:
        """Every call of a response is answered: what they gave joins the list, in the order of the calls."""
        batch, self._batch = self._batch, []
        results, self._results = self._results, {}
        said, given = in_call_order(batch)
        if said + given != batch and self.writer is not None:
            line = AllAnswered(call_id_of(batch[0].item), len(batch))
            self.writer.append(KIND, encode_payload(line))
        for entry in given:
            if (record := results.get(id(entry))) is not None:
                self.records.append(record)
                self._fold_item(entry)

    def _write_item(self, item: Item, made: Provenance | None = None) -> tuple[Entry, Record]:
        entry = Entry.of(item, made)
        if self.mask is not None:
            entry = entry.masked(self.mask, own_only=is_user_input(item))
            if (
                made is not None
                and made.opaque
                and self.mask(encode_payload(made.opaque)) != encode_payload(made.opaque)
            ):
                # Its server would not take a changed text for its own; what can be read of it is in the item.
                entry.made = Provenance(made.origin)
        return entry, self._write("response_item", entry.raw, encode_made(entry.made))

    def append_event(self, payload: dict[str, Any], beside: bytes = b"") -> None:
        """Record an event message in its wire form, and what we have to say of it."""
        raw = encode_payload(payload)
        self._record("event_msg", raw, own_only=payload.get("type") == "user_message", beside=beside)
        self._fold_event(raw)

    def append_turn_context(self, payload: dict[str, Any]) -> None:
        """Record the settings that the model was told for this turn."""
        if self.seal is not None and self.writer is not None:
            payload = self.seal(self.meta, payload)
        self._record("turn_context", encode_payload(payload))
        self._contexts.append((len(self.entries), payload))

    def append_compacted(
        self,
        message: str,
        replacement_history: list[Item],
        cause: str = "compaction",
        made: Mapping[int, Provenance | None] = {},
    ) -> None:
        """From here on, `replacement_history` stands for everything before; `cause` says why, in a few words.

        Items that were in the list before keep their maker; `made` names those of others, by the identity of the item.
        """
        known = {id(entry.item): entry.made for entry in self.entries} | dict(made)
        entries = [Entry.of(item, known.get(id(item))) for item in replacement_history]
        if self.mask is not None:  # what stands in the list is what stands in the record
            entries = [entry.masked(self.mask) for entry in entries]
        payload = compacted_payload(message, entries, "spindle_cause", cause)
        self._record("compacted", payload, beside=encode_made_in(entries))
        self._replace(entries, message)
        self._is_counted = False

    def append_rolled_back(self, num_turns: int) -> None:
        """Drop the last `num_turns` turns of the person."""
        self.append_event({"type": "thread_rolled_back", "num_turns": num_turns})

    def append_undo_mark(self, mark: str, message: str) -> None:
        """Turns are about to be undone; the mark leads back to the state before that."""
        self.append_event({"type": "undo_started", "message": message, "response_id": mark})

    def append_bookmark(self, response_id: str, cache: dict[str, Any] | None = None) -> None:
        """Remember the state after a response, so that a later turn can start from it, and what the cache did."""
        payload: dict[str, Any] = {"response_id": response_id, "items": len(self.entries)}
        if cache is not None:
            payload["cache"] = cache
        self._record("spindle_bookmark", encode_payload(payload))
        self._fold_bookmark(response_id)

    def append_refused(self, origin: ModelOrigin) -> None:
        """Remember that a server cannot read what it is said to have written."""
        self._record(REFUSED, encode_payload({"origin": origin}))
        self.refused_origins.append(origin)

    def append_extra(self, kind: str, payload: dict[str, Any]) -> None:
        """A line of our own (`spindle_…`) that the fold ignores."""
        self._record(kind, encode_payload(payload))

    def append_unmasked(self, kind: str, raw: bytes) -> None:
        """The same for JSON without words of others: no mask may change it."""
        self.records.append(self._write(kind, raw))

    def cut_to_bookmark(self, response_id: str) -> int:
        """Go back to the state after a response; gives the number of turns that were dropped.

        One line does it: readers that know no bookmarks see a rollback, or a replaced history when the bookmark lies
        on a branch that was left before.
        """
        mark = self._bookmarks.get(response_id)
        if mark is None:
            raise ThreadError(f"no response {response_id!r} is recorded in this thread")
        shared = mark.shared_with(self.entries)
        dropped = sum(1 for start in self._turn_starts if start >= shared)
        if shared == mark.length:
            if mark.length == len(self.entries):
                return 0
            payload = {"type": "thread_rolled_back", "num_turns": dropped, "spindle_bookmark": response_id}
            self._record("event_msg", encode_payload(payload))
        else:
            entries = mark.entries[: mark.length]
            payload = compacted_payload("", entries, "spindle_bookmark", response_id)
            self._record("compacted", payload, beside=encode_made_in(entries))
        self._restore(mark)
        return dropped

    def close(self) -> None:
        """Release the rollout file."""
        if self.writer is not None:
            self.writer.close()

    def _record(self, kind: str, raw: bytes, *, own_only: bool = False, beside: bytes = b"") -> None:
        if self.mask is not None:
            raw = self.mask(raw, own_only=own_only)
        self.records.append(self._write(kind, raw, beside))

    def _write(self, kind: str, raw: bytes, beside: bytes = b"") -> Record:
        timestamp = "" if self.writer is None else self.writer.append(kind, raw, beside)
        return Record(kind, raw, timestamp, beside=beside)

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
                self._fold_context(record.payload)
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

    def _fold_context(self, payload: dict[str, Any]) -> None:
        """Complete a context of the reference's current generation, so that nothing it told is told again."""
        if _KEEPS_WORLD_STATE not in payload:
            self._user_instructions = payload.get("user_instructions")
        elif self._user_instructions is not None:
            payload = {"user_instructions": self._user_instructions, **payload}
        self._contexts.append((len(self.entries), payload))

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
        after = next(([(cut, payload)] for length, payload in self._contexts if length >= cut), [])
        self._go_back(self.entries[:cut], before + after)

    def _restore(self, mark: Bookmark) -> None:
        self._go_back(mark.entries[: mark.length], mark.contexts[: mark.told])

    def _replace(self, entries: list[Entry], message: str) -> None:
        if message:
            self._summaries.add(message)
        context = self.last_turn_context
        self._become(entries, [] if context is None else [(0, context)])

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
