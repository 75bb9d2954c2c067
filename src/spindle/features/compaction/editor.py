"""Clearing old outputs from a thread by rule: when the user's context policy says so, and what is recorded of it.

What is cleared is `context.rule`, whether it pays is `context.trade`. Loaded only for threads whose policy is not
append-only.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from spindle.context.rule import RuleReport, check_rule, compress_by_rule
from spindle.context.tokens import estimate_tokens
from spindle.context.trade import HybridPolicy, Outlook, TradeDecision
from spindle.core.live_thread import LiveThread
from spindle.errors import ConfigError
from spindle.features.compaction.options import CompactionOptions
from spindle.model.prices import find_prices
from spindle.protocol.events import ContextEdited, Msg
from spindle.protocol.items import Item, call_id_of, is_output
from spindle.protocol.settings import ThreadSettings

_AFTER_COMPACTION_TOKENS = 20_000
"""About what a compacted thread begins with: base text, tools, context, ledger, messages and summary."""


class Editor:
    """Applies the rule to one thread. `edit` as soon as it saves anything, `hybrid` only when that pays."""

    def __init__(self, thread: LiveThread, options: CompactionOptions) -> None:
        self._thread = thread
        self._options = options
        try:
            self._rule = dict(check_rule(options.rule))
        except ConfigError as error:
            raise ConfigError(f"spindle.context.rule: {error}") from error
        self._policy = HybridPolicy() if options.mode == "hybrid" else None
        self._priced = ""
        self._requests = 0
        self._start = (-1, 0, 0)
        """Generation of the history, requests done and tokens in context when the thread last became shorter."""
        self._costs: list[int] = []
        self._counted = -1
        """Of which generation the costs are."""

    def before_request(self, settings: ThreadSettings, emit: Callable[[Msg], None]) -> bool:
        """Clear what the rule clears, if that is to be done now; true when the thread should be compacted instead."""
        thread = self._thread
        if self._policy is not None and not self._requests and not thread.cache.is_cold:
            self._go_on(self._policy)
        self._requests += 1
        used = thread.tokens_in_context
        if self._start[0] != thread.history.generation:
            self._start = (thread.history.generation, self._requests, used)
        items = [entry.item for entry in thread.history.entries]
        rule = {**self._rule, "cwd": settings.cwd, "used_tokens": used, "costs": self._item_costs()}
        cleared, report = compress_by_rule(items, **rule)
        decision = self._decision(report, used)
        if decision is not None and decision.compact:
            return True
        if not report.applied or (decision is not None and not decision.edit):
            return False
        first = 0 if decision is None else decision.first_index or 0
        kept = self._keep_outputs(items, report, first)
        if first or kept:
            cleared, report = compress_by_rule(items, **rule, first_index=first, offloaded=kept)
            if not report.applied:
                return False  # the names of the files would be longer than what they hold
        self._apply(cleared, report, decision, emit)
        return False

    def note_compacted(self) -> None:
        if self._policy is not None:
            self._policy.note_compacted(self._thread.tokens_in_context)

    def _go_on(self, policy: HybridPolicy) -> None:
        """Another process made the requests so far, and the provider still has them in its cache."""
        self._price(policy)
        self._requests = sum(record.kind == "spindle_bookmark" for record in self._thread.history.records)
        total, last = self._thread.total_usage, self._thread.last_usage
        policy.note_resumed(last.total_tokens, total.input_tokens, total.cached_input_tokens)

    def _price(self, policy: HybridPolicy) -> None:
        """Tokens of another model have other prices."""
        thread = self._thread
        if self._priced != thread.traits.slug:
            self._priced = thread.traits.slug
            found = find_prices(self._priced, thread.catalog, self._options.prices)
            policy.use(found.prices, found.source)

    def _item_costs(self) -> list[int]:
        """The tokens of each entry; those that were there before are not counted again."""
        history = self._thread.history
        if self._counted != history.generation:
            self._counted, self._costs = history.generation, []
        self._costs += [estimate_tokens(entry.raw) for entry in history.entries[len(self._costs) :]]
        return self._costs

    def _keep_outputs(self, items: list[Item], report: RuleReport, first: int) -> dict[str, str]:
        """Put what is about to be cleared into files; the file of each call."""
        home = self._options.offload_home
        if home is None:
            return {}
        from spindle.thread.offload import store_output  # only where outputs are put aside

        wanted = {cleared.call_id for cleared in report.cleared}
        kept: dict[str, str] = {}
        for item in items[first:]:
            text = item.get("output")
            if is_output(item) and isinstance(text, str) and (call_id := call_id_of(item)) in wanted:
                handle = store_output(home, self._thread.thread_id, call_id, text)
                if handle is not None:
                    kept[call_id] = handle.path
        return kept

    def _decision(self, report: RuleReport, used: int) -> TradeDecision | None:
        """The arithmetic of a hybrid policy; None for one that does not calculate."""
        policy, thread = self._policy, self._thread
        if policy is None:
            return None
        self._price(policy)
        _, requests, tokens = self._start
        outlook = Outlook(
            used=used,
            growth=max(0, used - tokens) / max(1, self._requests - requests),
            limit=thread.compact_limit,
            after_compaction=min(used, _AFTER_COMPACTION_TOKENS),
            head=thread.fixed_tokens,
        )
        return policy.decide(report, requests_done=self._requests, outlook=outlook, cache_is_lost=thread.cache.is_cold)

    def _apply(
        self,
        items: list[Item],
        report: RuleReport,
        decision: TradeDecision | None,
        emit: Callable[[Msg], None],
    ) -> None:
        thread = self._thread
        before = thread.tokens_in_context
        thread.replace_visible(items, "context_edit")
        thread.note_edited(before - (report.tokens_before - report.tokens_after))
        event = ContextEdited(
            message=str(report),
            cleared_tool_uses=report.cleared_tool_uses,
            tokens_before=before,
            tokens_after=thread.tokens_in_context,
            decision=None if decision is None else {**msgspec.to_builtins(decision), "explanation": str(decision)},
        )
        thread.history.append_event(msgspec.to_builtins(event))
        emit(event)
