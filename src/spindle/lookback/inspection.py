"""What the model saw at each request of a recorded thread, and what that cost: one fold over the record.

Every response leaves a bookmark, with what the cache ledger knew, and a count of tokens. Records of other programs, and
older ones, hold only a part of it: there a request is where a count or an answer stands, and what is missing is
estimated by the same rules that a live thread uses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from spindle.context.account import Breakdown, breakdown
from spindle.context.cache import CacheEntry, CacheLedger, RequestParts
from spindle.context.tokens import estimate_tokens, tokens_of_bytes
from spindle.context.visible import VisibleFold
from spindle.core.notes import Notes
from spindle.errors import UsageError
from spindle.lookback.audience import audience_of
from spindle.lookback.deeds import Answers, Turns, is_answer, is_count
from spindle.lookback.lenient import as_list, cache_entry_in, number_in, seconds_between, text_in, usage_in
from spindle.lookback.report import VERSION, Break, Cache, ContextReport, RequestReport, sum_up
from spindle.protocol.items import Item, decode_json, encode_payload, is_external, is_output, is_user_input
from spindle.protocol.request import Prices, TokenUsage
from spindle.thread.entry import Entry, Record
from spindle.thread.history import History
from spindle.thread.reading import RolloutData

_CAUSE_OF = {
    "compaction": "compaction",
    "edit": "context_edit",
    "rollback": "rollback",
    "branch": "fork",
    "picture_removed": "picture_removed",
}

_BREAKS = {
    "compaction": "compaction",
    "start_over": "compaction",
    "context_edit": "edit",
    "picture_removed": "picture_removed",
    "fork": "branch",
    "undo": "rollback",
}
"""What the causes that a record names are called in a report."""


class Inspection:
    """A report, and the inputs behind it."""

    def __init__(
        self,
        report: ContextReport,
        instructions: str,
        tools_tokens: Sequence[int],
        inputs: list[tuple[list[bytes], int]],
    ) -> None:
        self.report = report
        self.instructions = instructions
        self._tools_tokens = tools_tokens
        self._inputs = inputs
        self.since: list[Item] = []
        """What the thread holds beyond the last request: its answer, and what came after."""
        self.ledger_text = ""

    def input_of(self, number: int, start: int = 0) -> list[Item]:
        """The items of a request from `start` on, as they were sent. Raises UsageError when there is no such one."""
        if not 1 <= number <= len(self._inputs):
            count = len(self._inputs)
            known = f"there {'is' if count == 1 else 'are'} {count}" if count else "none is recorded"
            raise UsageError(f"no request {number} in this thread; {known}")
        wire, count = self._inputs[number - 1]
        return [decode_json(raw) for raw in wire[start:count]]

    def costs_of(self, number: int) -> Breakdown:
        """The same request item by item, with what each costs."""
        items = self.input_of(number)
        parts = breakdown(encode_payload(self.instructions) if self.instructions else b"", b"", items, each=True)
        return msgspec.structs.replace(parts, tokens={**parts.tokens, "tools": self._tools_tokens[number - 1]})


PriceOf = Callable[[str], Prices | None]
"""The prices of a model, in US dollars for a million tokens; None when they are not known."""


def inspect_thread(data: RolloutData, price_of: PriceOf = lambda model: None) -> Inspection:
    """Everything a record tells about its requests."""
    return _Fold(data, price_of).inspection()


class _Fold:
    """The state while a record is read. A segment is what stands between the ends of two requests."""

    def __init__(self, data: RolloutData, price_of: PriceOf) -> None:
        self._data = data
        self._price_of = price_of
        self._history = History()
        self._former: list[Entry] = []
        """The folded list before the present record."""
        kinds = {record.kind for record in data.records}
        self._is_ours = "spindle_bookmark" in kinds
        self._is_marked = self._is_ours or any(map(is_count, data.records))
        """Something tells where each request ends; else a request ends where its answer does."""
        self._requests: list[RequestReport] = []
        self._breaks: list[Break] = []
        self._inputs: list[tuple[list[bytes], int]] = []
        self._tools_tokens: list[int] = []
        self._fold = VisibleFold(audience_of((), (), data.meta))
        self._ledger = CacheLedger()
        self._window: int | None = None
        self._total = TokenUsage()
        self._turns = Turns()
        self._answers = Answers()
        self._wire: list[bytes] = []
        self._sent = 0
        """How many entries of the present list the last request covered."""
        self._generation = 0
        self._sources: dict[str, int] = {}
        self._known: tuple[int, int] = (-1, 0)
        """For which list, and how much of it, `_sources` holds."""
        self._counted = (0, -1, 0)
        """The server's last total; for which list, and how many entries, it holds."""
        self._answer: int | None = None
        """Where in the list the newest answer begins."""
        self._was_answer = False
        self._is_report = False
        """The next message is the report of a review."""
        self._input_at = ""
        self._declared: list[Any] = []
        self._pending: tuple[str | None, dict[str, Any] | None, str] | None = None
        """A bookmark whose count has not come yet."""
        self._own_since = str(data.meta.get("timestamp") or "") if data.meta.get("forked_from_id") else ""

    def inspection(self) -> Inspection:
        length = 0
        for place, (record, history) in enumerate(History.steps(self._data)):
            self._history = history
            self._take(place, record, length)
            self._former, length = history.entries, len(history.entries)
        self._close_pending(None)
        inspection = Inspection(self._report(), self._instructions, self._tools_tokens, self._inputs)
        inspection.since = [entry.item for entry in self._history.entries[self._sent :]]
        inspection.ledger_text = Notes(self._history).ledger().render(8_000, requests=False)
        return inspection

    @property
    def _instructions(self) -> str:
        return self._history.base_instructions or ""

    # ---- one record ----

    def _take(self, place: int, record: Record, length: int) -> None:
        if self._pending is not None and not is_count(record):
            self._close_pending(None)
        match record.kind:
            case "response_item":
                if len(self._history.entries) > length:
                    self._take_item(self._history.entries[-1].item, record.timestamp)
            case "spindle_bookmark":
                payload = record.payload
                cache, response_id = payload.get("cache"), payload.get("response_id")
                self._pending = (
                    response_id if isinstance(response_id, str) else None,
                    cache if isinstance(cache, dict) else None,
                    record.timestamp,
                )
            case "event_msg":
                self._take_event(place, record)
            case "compacted":
                self._take_replaced(place, record, length)
            case "turn_context":
                self._turns.take_id(text_in(record.payload.get("turn_id")) or "")
            case _:
                pass
        if record.kind == "event_msg" and b'"thread_rolled_back"' in record.raw[:60]:
            self._break("rollback", record.timestamp, length)
        if self._generation != self._history.generation:
            self._generation = self._history.generation
            self._answer, self._was_answer, self._sent = None, False, 0
        if self._answer is not None and not self._is_marked and self._ends_after(place):
            self._add(None, None, record.timestamp, None)

    def _ends_after(self, place: int) -> bool:
        """The list as it stands will not be there any more after the next record."""
        rest = self._data.records[place + 1 : place + 2]
        return not rest or self._is_replaced_after(place) or b'"thread_rolled_back"' in rest[0].raw[:60]

    def _is_replaced_after(self, place: int) -> bool:
        """The next record is a shorter list. Some programs write its size before it."""
        return any(record.kind == "compacted" for record in self._data.records[place + 1 : place + 2])

    def _take_item(self, item: Item, timestamp: str) -> None:
        if self._is_report and item.get("role") == "assistant":
            self._is_report = False  # written by a reviewer, whose requests are in a record of its own
            return
        if is_answer(item):
            self._answers.take(item)
            if self._answer is None or not self._was_answer:
                # What stands before it was sent, also the remains of an answer that broke off.
                self._answer = len(self._history.entries) - 1
            self._was_answer = True
            return
        if item.get("type") != "message" and not is_output(item) and not is_external(item):
            return  # of an unknown type: whoever wrote it, no model is shown it
        if self._was_answer and not self._is_marked:
            self._add(None, None, self._input_at or timestamp, None, before=len(self._history.entries) - 1)
        self._was_answer = False
        self._input_at = timestamp
        if is_output(item):
            self._answers.take(item)
        elif is_user_input(item) and not self._history.is_summary(item):
            self._turns.take_input(item, timestamp)

    def _take_event(self, place: int, record: Record) -> None:
        if not is_count(record):
            self._take_end(record)
            return
        info = record.payload.get("info")
        if not isinstance(info, dict):
            self._close_pending(None)
            return
        window = info.get("model_context_window")
        self._window = window if isinstance(window, int) else self._window
        total, last = usage_in(info.get("total_token_usage")), usage_in(info.get("last_token_usage"))
        is_new = total != self._total
        self._total = total
        if self._pending is not None:
            self._close_pending(last if last.total_tokens else None)
        elif last.input_tokens and is_new and self._answer is not None:
            self._add(None, last, record.timestamp, None)
        elif not last.input_tokens and last.total_tokens and not self._is_replaced_after(place):
            # The size of a thread that was just shortened, or of a window that the server called full.
            self._counted = (last.total_tokens, self._history.generation, len(self._history.entries))
            if self._breaks and self._breaks[-1].kind == "compaction" and self._declared:
                self._breaks[-1] = msgspec.structs.replace(self._breaks[-1], tokens_after=last.total_tokens)

    def _take_end(self, record: Record) -> None:
        """The end of a turn, if this is one."""
        start = record.raw[:60]
        if b'"turn_aborted"' in start:
            end = "interrupted"
        elif b'"task_complete"' in start or b'"turn_complete"' in start:
            end = "answered" if record.payload.get("last_agent_message") else "failed"
        else:
            self._is_report = self._is_report or b'"exited_review_mode"' in start
            return
        if self._answer is not None and not self._is_marked:
            self._add(None, None, record.timestamp, None)  # nothing else says that its last request is over
        self._turns.note_end(end, len(self._requests) + 1)

    def _close_pending(self, usage: TokenUsage | None) -> None:
        if self._pending is not None:
            (response_id, cache, at), self._pending = self._pending, None
            self._add(response_id, usage, at, cache)

    # ---- breaks ----

    def _take_replaced(self, place: int, record: Record, length: int) -> None:
        if b'"spindle_bookmark"' in record.raw[-200:]:
            self._break("rollback", record.timestamp, length)
            return
        edit, is_said = self._look_ahead(place)
        if (kind := _BREAKS.get(str(record.payload.get("spindle_cause")))) is not None:
            self._break(kind, record.timestamp, length, edit)
        elif edit is not None:
            self._break("edit", record.timestamp, length, edit)
        elif is_said or record.payload.get("message") or not self._is_ours:
            self._break("compaction", record.timestamp, length)
        else:
            # Before we wrote down causes, we wrote no compaction without saying so.
            kind = "picture_removed" if len(self._history.entries) == length else "branch"
            self._break(kind, record.timestamp, length)

    def _look_ahead(self, place: int) -> tuple[dict[str, Any] | None, bool]:
        """What the records right after a replaced list say about it: an edit, or that it was a compaction."""
        for record in self._data.records[place + 1 : place + 8]:
            if record.kind in ("response_item", "compacted", "spindle_bookmark"):
                break
            if record.kind != "event_msg":
                continue
            if b'"context_edited"' in record.raw[:60]:
                return record.payload, False
            if b'"context_compacted"' in record.raw[:60] or b'"ContextCompaction"' in record.raw:
                return None, True
        return None, False

    def _break(self, kind: str, at: str, length: int, edit: dict[str, Any] | None = None) -> None:
        if self._history.generation == self._generation:
            return  # nothing was dropped
        said = edit or {}
        before = number_in(said.get("tokens_before")) or self._used(self._former[:length], self._generation)
        after = number_in(said.get("tokens_after")) or self._estimated(self._history.entries)
        message, decision = said.get("message"), said.get("decision")
        self._breaks.append(
            Break(
                kind=kind,
                at=at,
                after_request=len(self._requests),
                items_before=length,
                items_after=len(self._history.entries),
                tokens_before=before,
                tokens_after=after,
                message=message if isinstance(message, str) else "",
                decision=decision if isinstance(decision, dict) else None,
            )
        )
        self._counted = (after, self._history.generation, len(self._history.entries))
        self._declared.append(_CAUSE_OF[kind])

    # ---- requests ----

    def _add(
        self,
        response_id: str | None,
        usage: TokenUsage | None,
        at: str,
        recorded: dict[str, Any] | None,
        *,
        before: int | None = None,
    ) -> None:
        """A request whose answer stands in the list, up to `before`."""
        entries, generation = self._history.entries, self._history.generation
        known = cache_entry_in(recorded)
        end = len(entries) if before is None else before
        cut = self._end_of_input(end, None if known is None else known.items)
        former = self._inputs[-1] if self._inputs else ([], 0)
        wire = [visible.raw for visible in self._fold.update(entries[:cut], generation)]
        is_continued = self._known[0] == generation
        shared = former[1] if is_continued else _shared(former[0][: former[1]], wire)
        self._count_sources(wire, generation)
        items_tokens = sum(self._sources.values())
        context = self._history.last_turn_context or {}
        tools = self._tools(known, usage, items_tokens)
        derived = self._derived(wire, tools, context, usage, at)
        answered = next((place for place in range(cut, end) if is_output(entries[place].item)), end)
        total = 0 if usage is None else usage.total_tokens
        self._counted = (total, generation, answered)
        self._sent = cut
        sources = {"instructions": self._fixed_tokens + self._sources.get("instructions", 0), "tools": tools}
        sources |= {source: tokens for source, tokens in self._sources.items() if source not in sources}
        number = len(self._requests) + 1
        model = known.model if known is not None else text_in(context.get("model"))
        self._answers.close_request()
        self._requests.append(
            RequestReport(
                number=number,
                at=at,
                turn=self._turns.note_request(number),
                model=model,
                response_id=response_id,
                items=len(wire),
                shared_items=shared,
                usage=usage,
                estimated_input=self._fixed_tokens + tools + items_tokens,
                sources={source: tokens for source, tokens in sources.items() if tokens},
                window=self._window,
                used=self._used(entries[:answered], generation),
                cache=self._cache(known, derived, is_first=number == 1, at=at),
                cost_usd=self._cost(model, usage),
            )
        )
        self._tools_tokens.append(tools)
        # Within one list each input is the beginning of the next, so the longest one serves them all.
        if is_continued:
            self._wire[:] = wire
        else:
            self._wire = wire
        self._inputs.append((self._wire, len(wire)))
        self._known = (generation, len(wire))
        self._answer, self._was_answer = None, False
        self._declared = []

    def _end_of_input(self, end: int, items: int | None) -> int:
        """Where the list ends that was sent: where the answer begins, or where as many items are as were recorded."""
        likely = end if self._answer is None else self._answer
        answer, refused = self._history.entries[likely:end], self._history.refused_origins
        if self._fold.address(audience_of(answer, refused, self._data.meta)):
            self._known = (-1, 0)
            self._declared.append("provider_changed")
        if items is None or self._length(likely) == items:
            return likely
        return next((cut for cut in range(end, self._sent, -1) if self._length(cut) == items), likely)

    def _length(self, cut: int) -> int:
        """How many items a request with the entries up to `cut` has."""
        entries, is_continued = self._history.entries, self._known[0] == self._history.generation
        start = self._sent if is_continued else 0
        new = VisibleFold(self._fold.audience).update(entries[start:cut], 0)
        return (self._known[1] if is_continued else 0) + len(new)

    def _count_sources(self, wire: list[bytes], generation: int) -> None:
        if self._known[0] != generation:
            self._sources, self._known = {}, (generation, 0)
        new = [decode_json(raw) for raw in wire[self._known[1] :]]
        for source, tokens in breakdown(b"", b"", new).tokens.items():
            self._sources[source] = self._sources.get(source, 0) + tokens

    def _tools(self, known: CacheEntry | None, usage: TokenUsage | None, items_tokens: int) -> int:
        """What the list of tools costs. It is not recorded: it is what is left of the whole."""
        if known is not None:
            return max(0, known.tokens - self._fixed_tokens - items_tokens)
        if self._tools_tokens:
            return self._tools_tokens[-1]
        return 0 if usage is None else max(0, usage.input_tokens - self._fixed_tokens - items_tokens)

    def _derived(
        self, wire: list[bytes], tools: int, context: dict[str, Any], usage: TokenUsage | None, at: str
    ) -> CacheEntry:
        """What a cache ledger says about the requests as far as they can be told from the record."""
        parts = RequestParts(
            text_in(context.get("model")) or "",
            encode_payload(self._instructions),
            b" " * (4 * tools),
            wire,
            encode_payload([context.get("effort"), context.get("summary")]),
        )
        last = self._requests[-1].at if self._requests else ""
        idle_s = seconds_between(last, self._input_at or at)
        entry = self._ledger.note_request(parts, idle_s=idle_s, declared=self._declared)
        counted = None if usage is None else self._ledger.note_usage(usage.input_tokens, usage.cached_input_tokens)
        return counted or entry

    def _cache(self, known: CacheEntry | None, derived: CacheEntry, *, is_first: bool, at: str) -> Cache:
        # A program that starts knows nothing of the requests that an earlier one made; the record does.
        is_new_process = known is not None and "first_request" in known.causes and not is_first
        entry = derived if known is None or is_new_process else known
        cause = entry.missed if entry.lost_tokens else entry.cause if entry.causes else None
        if is_new_process and cause in ("provider_miss", "settings_changed"):
            own = self._requests[-1].at if self._requests else ""
            cause = "fork" if self._own_since and own < self._own_since <= at else "resume"
        return Cache(
            prefix_items=entry.prefix_items,
            prefix_tokens=entry.prefix_tokens,
            expected_tokens=entry.expected_cached,
            cause=cause,
            causes=entry.causes,
            lost_tokens=entry.lost_tokens,
            is_alarm=entry.is_alarm and entry is known,
            idle_s=None if entry.idle_s is None else round(entry.idle_s, 3),
            is_derived=entry is not known,
        )

    def _used(self, entries: Sequence[Entry], generation: int) -> int:
        """Tokens in context: the server's last count, and an estimate of what it has not counted."""
        total, counted_in, counted = self._counted
        if not total or counted_in != generation:
            return self._estimated(entries)
        return total + sum(estimate_tokens(entry.raw) for entry in entries[counted:])

    def _estimated(self, entries: Sequence[Entry]) -> int:
        fixed = self._fixed_tokens + (self._tools_tokens[-1] if self._tools_tokens else 0)
        return fixed + sum(estimate_tokens(entry.raw) for entry in entries)

    @property
    def _fixed_tokens(self) -> int:
        return tokens_of_bytes(len(encode_payload(self._instructions))) if self._instructions else 0

    def _cost(self, model: str | None, usage: TokenUsage | None) -> float | None:
        prices = None if not model or usage is None else self._price_of(model)
        return None if prices is None or usage is None else prices.cost_of(usage) / 1_000_000

    # ---- all of it ----

    def _report(self) -> ContextReport:
        for place, deeds in enumerate(self._answers.deeds()):
            self._requests[place] = msgspec.structs.replace(self._requests[place], deeds=deeds)
        data, ledger = self._data, Notes(self._history).ledger()
        record = ledger.to_record()
        pins = [{"text": pin.text, "by": pin.by} for pin in ledger.pins.values()]
        kept = ("requests", "plan", "reads", "changes", "commands", "approvals", "questions")
        return ContextReport(
            version=VERSION,
            thread_id=data.thread_id,
            path=data.path,
            cwd=text_in(data.meta.get("cwd")),
            provider=text_in(data.meta.get("model_provider")),
            totals=sum_up(
                self._requests,
                self._breaks,
                spent=self._total,
                turns=len(self._turns.found),
                files_changed=len(ledger.changes),
                cost_of=self._cost,
            ),
            turns=self._turns.found,
            requests=self._requests,
            breaks=self._breaks,
            pins=pins,
            ledger={name: as_list(record[name]) for name in kept},
            notices=data.notices(),
        )


def _shared(former: Sequence[bytes], now: Sequence[bytes]) -> int:
    return next((place for place, pair in enumerate(zip(former, now, strict=False)) if pair[0] != pair[1]), len(former))
