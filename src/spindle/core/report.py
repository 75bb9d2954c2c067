"""What can be told about the context of a recorded thread, request by request; made by `core.inspection`.

The field names are a promise: `spindle context --json` prints them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from spindle.protocol.request import TokenUsage

VERSION = 1
"""Of the form; grows when a field changes its meaning or goes."""


class Cache(msgspec.Struct, frozen=True, kw_only=True):
    """What the provider's cache did for one request."""

    prefix_items: int
    """How many items it shares with the request before, from the first one on."""
    prefix_tokens: int
    expected_tokens: int
    """What the provider should have found in its cache."""
    cause: str | None
    """Why it was less than it could be; None when nothing was lost."""
    causes: tuple[str, ...]
    lost_tokens: int
    is_alarm: bool
    """The prefix broke on our side and nobody had declared it."""
    idle_s: float | None
    is_derived: bool
    """Worked out from the record now; the program that made the request did not write it down."""


class RequestReport(msgspec.Struct, frozen=True, kw_only=True):
    """One request and its answer."""

    number: int
    at: str
    """When the answer was there."""
    turn: int
    model: str | None
    response_id: str | None
    items: int
    """Of its input."""
    shared_items: int
    """How many of them the request before had too; the rest is new, or stands in another order."""
    usage: TokenUsage | None
    """As the server counted; None when it said nothing."""
    estimated_input: int
    sources: dict[str, int]
    """Estimated tokens by source; only those that are there."""
    window: int | None
    used: int
    """Tokens in context after the answer: the server's count, or an estimate."""
    cache: Cache

    @property
    def input_tokens(self) -> int:
        return self.estimated_input if self.usage is None else self.usage.input_tokens

    @property
    def cached_tokens(self) -> int:
        return 0 if self.usage is None else min(self.usage.cached_input_tokens, self.usage.input_tokens)

    @property
    def fill_percent(self) -> float | None:
        return None if not self.window else 100 * self.used / self.window


class Break(msgspec.Struct, frozen=True, kw_only=True):
    """A place where the thread was not just continued."""

    kind: str
    """compaction, edit, rollback, branch (another thread's state was taken over) or picture_removed."""
    at: str
    after_request: int
    """The number of the request it came after; 0 before the first one."""
    items_before: int
    items_after: int
    tokens_before: int
    tokens_after: int
    message: str = ""
    decision: dict[str, Any] | None = None
    """The arithmetic of an edit, where there was one."""


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    requests: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    hit_percent: int
    """The share of the input that came from the cache."""
    lost_tokens: dict[str, int]
    """What was charged in full although it had been in the cache, by cause."""
    side_tokens: int
    """Spent beside the requests of the thread: on summaries and sub-agents."""
    compactions: int
    edits: int
    alarms: int


class ContextReport(msgspec.Struct, frozen=True, kw_only=True):
    """The life of a thread's context."""

    version: int
    thread_id: str
    path: str
    cwd: str | None
    provider: str | None
    totals: Totals
    requests: list[RequestReport]
    breaks: list[Break]
    pins: list[dict[str, Any]]
    ledger: dict[str, Any]
    """What the harness knows of the work: requests, plan, files, commands, approvals, questions."""
    notices: list[str]
    """What could not be read."""
