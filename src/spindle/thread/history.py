"""The append-only record of one thread, and the list of items that results from it.

Every append goes to the rollout file and is folded at once (`folding`); reading a file again is the same fold.
`context` and `prompt` compute what the model sees of the items; `view`, what people see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from spindle.errors import ThreadError
from spindle.protocol.items import Item, call_id_of, encode_payload, is_external, is_user_input
from spindle.protocol.provenance import ModelOrigin, Provenance
from spindle.thread.bookmarks import compacted_payload
from spindle.thread.call_order import KIND, AllAnswered, in_call_order
from spindle.thread.entry import Entry, Record, encode_made, encode_made_in
from spindle.thread.folding import Folded
from spindle.thread.payloads import REFUSED
from spindle.thread.records import Records
from spindle.thread.rollout import RolloutWriter

if TYPE_CHECKING:
    from spindle.thread.reading import RolloutData


class History(Folded):
    """One thread: what is recorded of it, and, as `Folded`, what that comes to."""

    PAST = (*Folded.PAST, "records", "_batch", "_results")

    def __init__(self, writer: RolloutWriter | None = None) -> None:
        super().__init__()
        self.writer = writer
        self.mask: Callable[..., bytes] | None = None
        """`mask(raw, own_only=…)`: takes out of JSON what must not be recorded; `own_only` for a person's own words.

        Applied to what is appended, never to what was recorded before: a prompt's prefix keeps its bytes.
        """
        self.seal: Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]] | None = None
        """`seal(meta, context)`: marks the settings of a turn as written by this home; see `seal`."""
        self.records = Records()
        """Everything that was recorded, in the order in which it is told, whether or not there is a file."""
        self._batch: list[Entry] = []
        """What was recorded since the first open call, in that order; empty until one of the calls is answered."""
        self._results: dict[int, Record] = {}
        """By the identity of its entry, the record of what a call gave; it waits for the other calls."""

    @classmethod
    def replay(cls, data: RolloutData, writer: RolloutWriter | None = None) -> History:
        """The history that a rollout file holds. `writer` goes on with the same file."""
        history = cls(writer)
        history.meta = data.meta
        history.records = Records(data.records)
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
        raw = encode_payload(payload)
        self._record("turn_context", raw)
        self._contexts.append((len(self.entries), raw))

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
        """Go back to the state after a response, with one line; gives the number of turns that were dropped."""
        mark = self._bookmarks.get(response_id)
        if mark is None:
            raise ThreadError(f"no response {response_id!r} is recorded in this thread")
        shared = mark.shared_with(self.entries)
        if shared == mark.length == len(self.entries):
            return 0
        dropped = self.inputs_from(shared)
        kind, payload, beside = mark.way_back(response_id, shared, dropped)
        self._record(kind, payload, beside=beside)
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
