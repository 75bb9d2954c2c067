"""Clearing old outputs from a thread by rule: when the user's context policy says so, and what is recorded of it.

What is cleared is `context.rule`, whether it pays is `context.trade`. Loaded only for threads whose policy is not
append-only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from spindle.context.rule import RuleReport, check_rule, compress_by_rule
from spindle.context.trade import HybridPolicy, Outlook, prices_of
from spindle.core.live_thread import CompactionOptions, LiveThread
from spindle.protocol.events import ContextEdited, Msg
from spindle.protocol.items import Item, call_id_of, is_output
from spindle.protocol.settings import ThreadSettings

_AFTER_COMPACTION_TOKENS = 20_000
"""About what a compacted thread begins with: base text, tools, context, ledger, messages and summary."""


class Editor:
    """Applies the rule to one thread. `edit` as soon as it saves anything, `hybrid` only when that pays."""

    def __init__(self, thread: LiveThread, options: CompactionOptions) -> None:
        self._thread = thread
        self._mode = options.mode
        self._home = options.offload_home
        self._rule = dict(check_rule(options.rule))
        self._policy = HybridPolicy(prices_of(thread.traits.slug, options.prices))
        self._requests = 0
        self._start = (-1, 0, 0)
        """Generation of the history, requests done and tokens in context when the thread last became shorter."""

    def before_request(self, settings: ThreadSettings, emit: Callable[[Msg], None]) -> bool:
        """Clear what the rule clears, if that is to be done now; true when something was."""
        thread = self._thread
        self._requests += 1
        used = thread.tokens_in_context
        if self._start[0] != thread.history.generation:
            self._start = (thread.history.generation, self._requests, used)
        items = [entry.item for entry in thread.history.entries]
        cleared, report = compress_by_rule(items, **self._rule, cwd=settings.cwd, used_tokens=used)
        if report.applied and self._home is not None:
            kept = self._keep_outputs(items, report)
            cleared, report = compress_by_rule(items, **self._rule, cwd=settings.cwd, used_tokens=used, offloaded=kept)
        arithmetic = self._decision(report, used)
        if not report.applied or (arithmetic is not None and not arithmetic["edit"]):
            return False
        self._apply(cleared, report, arithmetic, emit)
        return True

    def _keep_outputs(self, items: list[Item], report: RuleReport) -> dict[str, str]:
        """Put what is about to be cleared into files; the file of each call."""
        from spindle.thread.offload import store_output

        wanted = {cleared.call_id for cleared in report.cleared}
        kept: dict[str, str] = {}
        for item in items:
            text = item.get("output")
            if is_output(item) and isinstance(text, str) and (call_id := call_id_of(item)) in wanted:
                handle = store_output(self._home or "", self._thread.thread_id, call_id, text)
                if handle is not None:
                    kept[call_id] = handle.path
        return kept

    def _decision(self, report: RuleReport, used: int) -> dict[str, Any] | None:
        """The arithmetic of a hybrid policy; None for one that does not calculate."""
        if self._mode != "hybrid":
            return None
        limit = self._thread.compact_limit
        _, requests, tokens = self._start
        growth = max(0, used - tokens) / max(1, self._requests - requests)
        outlook = (
            Outlook(used=used, growth=growth, limit=limit, after_compaction=min(used, _AFTER_COMPACTION_TOKENS))
            if limit is not None
            else None
        )
        decision = self._policy.decide(
            report,
            requests_done=self._requests,
            outlook=outlook,
            cache_is_lost=self._thread.cache.is_cold,
        )
        return {**msgspec.to_builtins(decision), "explanation": str(decision)}

    def _apply(
        self,
        items: list[Item],
        report: RuleReport,
        arithmetic: dict[str, Any] | None,
        emit: Callable[[Msg], None],
    ) -> None:
        thread = self._thread
        before = thread.tokens_in_context
        thread.history.append_compacted("", items)
        thread.cache.declare("context_edit")
        thread.note_edited(before - (report.tokens_before - report.tokens_after))
        event = ContextEdited(
            message=str(report),
            cleared_tool_uses=report.cleared_tool_uses,
            tokens_before=before,
            tokens_after=thread.tokens_in_context,
            decision=arithmetic,
        )
        thread.history.append_event(msgspec.to_builtins(event))
        emit(event)
