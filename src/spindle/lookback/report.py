"""What can be told about the context of a recorded thread, request by request; made by `lookback.inspection`.

The field names are a promise: `spindle context --json` prints them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from spindle.protocol.request import TokenUsage

VERSION = 1
"""Of the form; grows when a field changes its meaning or goes."""


class Cache(msgspec.Struct, frozen=True, kw_only=True):
    """What the provider's cache did for one request."""

    prefix_items: int
    """How many items it shares with the request before, counted from the first."""
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


class Deed(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that an answer did."""

    kind: str
    """command, patch (files by patch), tool (any other call), search (of the web, by the server) or message."""
    text: str
    """The command, the files, what the call was about, or the beginning of the message."""
    is_done: bool | None
    """Whether it went well; None when the record does not tell."""
    tool: str = ""
    exit_code: int | None = None


class TurnReport(msgspec.Struct, frozen=True, kw_only=True):
    """One turn: from a prompt to its last answer."""

    number: int
    at: str
    """When the prompt came."""
    prompt: str
    """Its beginning."""
    first_request: int
    """The number of its first request; of the next one there is, when it failed before any answer came."""
    end: str = ""
    """answered, failed (it ended without an answer), interrupted, or empty when the record ends before it."""


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
    deeds: tuple[Deed, ...] = ()
    """What the answer did: its calls and messages, in order."""
    cost_usd: float | None = None
    """US dollars, by list price; None when the price or the tokens are not known."""

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
    turns: int
    """Prompts that were worked on."""
    requests: int
    """Answers of the model, each to one request; what summaries and sub-agents asked is not among them."""
    commands: int
    """How often a command was run."""
    files_changed: int
    """Different files that patches changed. What commands wrote is not known."""
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    hit_percent: int
    """The share of the input that came from the cache."""
    lost_tokens: dict[str, int]
    """What was charged in full although it had been in the cache, by cause."""
    side_tokens: int
    """Spent in addition to the requests of the thread, on summaries and sub-agents."""
    compactions: int
    edits: int
    """Of the context: how often old outputs were cleared from it. No file is meant."""
    alarms: int
    cost_usd: float | None
    """What the requests cost whose price is known; None when it is known of none."""
    unpriced_requests: int
    """Requests whose price or tokens are not known: the true sum is higher."""
    side_cost_usd: float | None
    """What `side_tokens` cost at the price of the thread's own model; not part of `cost_usd`."""


class ContextReport(msgspec.Struct, frozen=True, kw_only=True):
    """The life of a thread's context."""

    version: int
    thread_id: str
    path: str
    cwd: str | None
    provider: str | None
    totals: Totals
    turns: list[TurnReport]
    requests: list[RequestReport]
    breaks: list[Break]
    pins: list[dict[str, Any]]
    ledger: dict[str, Any]
    """What the harness knows of the work: requests, plan, files, commands, approvals, questions."""
    notices: list[str]
    """What could not be read."""


def sum_up(
    requests: Sequence[RequestReport],
    breaks: Sequence[Break],
    *,
    spent: TokenUsage,
    turns: int,
    files_changed: int,
    cost_of: Callable[[str | None, TokenUsage], float | None],
) -> Totals:
    """The sums of a thread. `spent` is what the server counted in all, other requests than these included."""
    counted = [request for request in requests if request.usage is not None]
    given = sum(request.input_tokens for request in counted)
    cached = sum(request.cached_tokens for request in counted)
    made = sum(request.usage.output_tokens for request in counted if request.usage)
    lost: dict[str, int] = {}
    for request in counted:
        if request.cache.cause and request.cache.lost_tokens:
            lost[request.cache.cause] = lost.get(request.cache.cause, 0) + request.cache.lost_tokens
    kinds = [broken.kind for broken in breaks]
    costs = [request.cost_usd for request in requests if request.cost_usd is not None]
    side = TokenUsage(
        input_tokens=max(0, spent.input_tokens - given),
        cached_input_tokens=max(0, spent.cached_input_tokens - cached),
        output_tokens=max(0, spent.output_tokens - made),
    )
    return Totals(
        turns=turns,
        commands=sum(deed.kind == "command" for request in requests for deed in request.deeds),
        files_changed=files_changed,
        requests=len(requests),
        input_tokens=given,
        cached_tokens=cached,
        output_tokens=made,
        hit_percent=100 * cached // given if given else 0,
        lost_tokens=lost,
        side_tokens=side.input_tokens + side.output_tokens,
        compactions=kinds.count("compaction"),
        edits=kinds.count("edit"),
        alarms=sum(request.cache.is_alarm for request in requests),
        cost_usd=sum(costs) if costs else None,
        unpriced_requests=len(requests) - len(costs),
        side_cost_usd=cost_of(requests[-1].model, side) if requests else None,
    )
