"""The context kit: pure functions over a list of items. What is shown of a thread, what it costs, how it is kept small.

`from spindle.context import …` gives the whole kit; docs/context.md shows it. Each name is loaded when it is first
used: a program that starts needs few of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spindle.context.account import (
        SOURCES,
        Breakdown,
        ContextUsage,
        ItemCost,
        breakdown,
        classify,
        compaction_limit,
        context_usage,
    )
    from spindle.context.cache import CacheEntry, CacheLedger, CacheTotals, Forecast, RequestParts
    from spindle.context.compaction import (
        CompactionReport,
        SummaryModel,
        compress_by_model,
        drop_oldest,
        fit,
        keep_section,
        kept_messages,
        ledger_message,
        remote_replacement,
        replacement,
        retention_rules,
        standing_context,
        summary_request,
        summary_text,
        with_standing_rules,
    )
    from spindle.context.isolation import IsolationReport, TaskAnswer, TaskModel, isolate
    from spindle.context.ledger import WorkLedger
    from spindle.context.order import order_tools
    from spindle.context.rule import EditOption, RuleReport, check_rule, compress_by_rule, is_cleared
    from spindle.context.swap import SwapReport, start_over
    from spindle.context.tokens import ServerCount, context_tokens, estimate_tokens, percent_left
    from spindle.context.trade import HybridPolicy, Outlook, Prices, TradeDecision
    from spindle.context.truncate import truncate_output, truncate_text
    from spindle.context.visible import VisibleFold, pair_calls, to_wire
    from spindle.context.wording import SUMMARY_PREAMBLE, SUMMARY_PROMPT, compaction_warning, is_summary

__all__ = [
    "SOURCES",
    "SUMMARY_PREAMBLE",
    "SUMMARY_PROMPT",
    "Breakdown",
    "CacheEntry",
    "CacheLedger",
    "CacheTotals",
    "CompactionReport",
    "ContextUsage",
    "EditOption",
    "Forecast",
    "HybridPolicy",
    "IsolationReport",
    "ItemCost",
    "Outlook",
    "Prices",
    "RequestParts",
    "RuleReport",
    "ServerCount",
    "SummaryModel",
    "SwapReport",
    "TaskAnswer",
    "TaskModel",
    "TradeDecision",
    "VisibleFold",
    "WorkLedger",
    "breakdown",
    "check_rule",
    "classify",
    "compaction_limit",
    "compaction_warning",
    "compress_by_model",
    "compress_by_rule",
    "context_tokens",
    "context_usage",
    "drop_oldest",
    "estimate_tokens",
    "fit",
    "is_cleared",
    "is_summary",
    "isolate",
    "keep_section",
    "kept_messages",
    "ledger_message",
    "order_tools",
    "pair_calls",
    "percent_left",
    "remote_replacement",
    "replacement",
    "retention_rules",
    "standing_context",
    "start_over",
    "summary_request",
    "summary_text",
    "to_wire",
    "truncate_output",
    "truncate_text",
    "with_standing_rules",
]

_HOMES = {
    "account": "SOURCES Breakdown ContextUsage ItemCost breakdown classify compaction_limit context_usage",
    "cache": "CacheEntry CacheLedger CacheTotals Forecast RequestParts",
    "compaction": """CompactionReport SummaryModel compress_by_model drop_oldest fit keep_section kept_messages
        ledger_message remote_replacement replacement retention_rules standing_context summary_request summary_text
        with_standing_rules""",
    "isolation": "IsolationReport TaskAnswer TaskModel isolate",
    "ledger": "WorkLedger",
    "order": "order_tools",
    "rule": "EditOption RuleReport check_rule compress_by_rule is_cleared",
    "swap": "SwapReport start_over",
    "tokens": "ServerCount context_tokens estimate_tokens percent_left",
    "trade": "HybridPolicy Outlook Prices TradeDecision",
    "truncate": "truncate_output truncate_text",
    "visible": "VisibleFold pair_calls to_wire",
    "wording": "SUMMARY_PREAMBLE SUMMARY_PROMPT compaction_warning is_summary",
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names.split():
            from importlib import import_module  # only for users of the library; the program imports the modules

            found = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
