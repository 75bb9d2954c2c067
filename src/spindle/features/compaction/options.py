"""What the user may choose about compaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from spindle.model.prices import PriceList


class CompactionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The user's choices about compaction."""

    prompt: str | None = None
    """Replaces our text that asks for the summary."""
    keep: tuple[str, ...] = ()
    """Facts that every summary must hold."""
    keeps_tools: bool | None = None
    """The tool list stays in the request for a summary, and with it the provider's cache of it; None = where that is
    known to work."""
    asks_server: bool = False
    """A provider that can shorten a thread itself is asked to."""
    ledger_tokens: int = 4_000
    """How much room the ledger may take that the harness keeps."""
    mode: str = "append_only"
    """Whether old outputs are cleared by rule before a compaction is due: append_only, edit or hybrid."""
    rule: Mapping[str, Any] = {}
    offload_home: str | None = None
    """Where outputs are kept that are cleared."""
    prices: PriceList = PriceList()
    """What tokens cost, where the catalogue is not right."""
    tail_tokens: int = 0
    """How much of the newest work stays as it is, beside the summary."""
