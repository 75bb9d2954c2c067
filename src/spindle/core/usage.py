"""How full a thread's window is, and what fills it: the data behind a status line or a context view."""

from __future__ import annotations

import msgspec

from spindle.context.account import breakdown
from spindle.context.tokens import percent_left
from spindle.core.live_thread import LiveThread
from spindle.protocol.answers import ContextUsage


def context_usage(thread: LiveThread) -> ContextUsage:
    """The state now; the sum is the server's as far as it has counted, the shares are estimates."""
    parts = breakdown(thread.instructions, thread.tools.specs_bytes, [entry.item for entry in thread.history.entries])
    used, window = thread.tokens_in_context, thread.window_tokens
    totals = thread.cache.ledger.totals()
    return ContextUsage(
        window=window,
        limit=thread.compact_limit,
        used=used,
        percent_left=None if window is None else percent_left(window, used),
        tokens={source: tokens for source, tokens in parts.tokens.items() if tokens},
        cache={**msgspec.to_builtins(totals), "hit_percent": totals.hit_percent},
    )
