"""Starting over from what is known: a fresh context of the ledger and the person's own words, without a summary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from spindle.context.compaction import (
    KEPT_MESSAGE_TOKENS,
    LEDGER_TOKENS,
    IsSummary,
    kept_messages,
    ledger_message,
    standing_context,
)
from spindle.context.tokens import estimate_tokens
from spindle.context.wording import is_summary
from spindle.protocol.items import Item, said_text

if TYPE_CHECKING:
    from spindle.context.ledger import WorkLedger

FRESH_START = """\
The conversation up to here was set aside to begin with a clear head. The messages above are what was asked for, \
oldest first; the list below is what is known of the work on it. Files, running processes and everything else the \
tools did are as they were left. Do not redo what is done; look again at what you need before you rely on it."""


class SwapReport(msgspec.Struct, frozen=True, kw_only=True):
    tokens_before: int
    tokens_after: int

    def __str__(self) -> str:
        return f"started over, {self.tokens_before:,} → {self.tokens_after:,} tokens"


def start_over(
    items: Sequence[Item],
    ledger: WorkLedger | str = "",
    *,
    initial_context: Sequence[Item] | None = None,
    ledger_tokens: int = LEDGER_TOKENS,
    kept_tokens: int = KEPT_MESSAGE_TOKENS,
    is_summary: IsSummary = is_summary,
) -> tuple[list[Item], SwapReport]:
    """A thread that knows what `items` led to, but not how: context, the person's messages, the ledger.

    Without `initial_context` the newest context messages of `items` are taken. No model is asked, and the same items
    give the same list.
    """
    kept = kept_messages(items, budget_tokens=kept_tokens, is_summary=is_summary)
    if not isinstance(ledger, str):
        ledger = ledger.render(ledger_tokens, shown={said_text(item) for item in kept})
    new = [
        *(standing_context(items) if initial_context is None else initial_context),
        *kept,
        ledger_message(f"{FRESH_START}\n\n{ledger.strip()}"),
    ]
    return new, SwapReport(tokens_before=sum(map(estimate_tokens, items)), tokens_after=sum(map(estimate_tokens, new)))
