"""The cache ledger: for each request, how much of it the provider has seen before, and why if it is less than it was.

Fed with the parts of each request before it is sent and with the reported usage after. A break of the prefix that we
cause is declared by whoever causes it; one that nobody declared is a bug, and the ledger says so. What our side kept
whole and the provider still charged in full is its miss, or the end of its cache's life.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from spindle.context.tokens import estimate_tokens, tokens_of_bytes
from spindle.protocol.items import encode_json
from spindle.protocol.request import Request

Cause = Literal[
    "first_request",
    "provider_changed",
    "model_changed",
    "tools_changed",
    "instructions_changed",
    "settings_changed",
    "compaction",
    "context_edit",
    "rollback",
    "resume",
    "fork",
    "picture_removed",
    "undeclared",
    "provider_miss",
    "cache_timeout",
]
Declarable = Literal[
    "provider_changed",
    "model_changed",
    "tools_changed",
    "instructions_changed",
    "compaction",
    "context_edit",
    "rollback",
    "resume",
    "fork",
    "picture_removed",
]
CACHE_MIN_TOKENS = 1_024
"""Shorter prompts are not cached."""
CACHE_STEP_TOKENS = 128
"""Cached tokens are counted in such steps."""
CACHE_LIFE_S = 300.0
"""The least time for which a provider keeps a prefix that nobody asks for."""
_TOLERANCE_PERCENT = 90
_OF_THE_HEAD: tuple[Cause, ...] = ("model_changed", "tools_changed", "instructions_changed")
_INPUT_CAUSES: tuple[Cause, ...] = ("compaction", "context_edit", "rollback", "picture_removed", "resume", "fork")


class RequestParts(msgspec.Struct, frozen=True):
    """What of a request decides about its prefix, in the bytes that are sent."""

    model: str
    instructions: bytes
    tools: bytes
    input: Sequence[bytes]
    settings: bytes = b""
    """What else shapes the prompt on the provider's side: reasoning effort, verbosity, output schema."""

    @classmethod
    def of(cls, request: Request) -> RequestParts:
        settings = encode_json([request.reasoning, request.text])
        return cls(request.model, request.instructions, request.tools, request.input, settings)


class CacheEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One request as the cache sees it. The last four fields are known once the usage was reported."""

    number: int
    model: str
    items: int
    tokens: int
    """Tokens of the whole request, estimated."""
    prefix_items: int
    """How many items it shares with the request before, counted from the first; 0 if anything before the items
    differs."""
    prefix_tokens: int
    """Tokens of those items, base text and tools included, estimated."""
    expected_cached: int
    """What the provider should find in its cache, in its own count."""
    causes: tuple[Cause, ...] = ()
    """Why our own prefix broke; empty when the request continues the one before."""
    declared: tuple[str, ...] = ()
    idle_s: float | None = None
    has_new_settings: bool = False
    """Not a break on our side, but some providers take it for one."""
    is_side: bool = False
    """Asked beside the thread, like the request for a summary; the thread does not go on from it."""
    reported_input: int | None = None
    reported_cached: int | None = None
    missed: Cause | None = None
    """Why less was cached than the request before left in the cache; None when nothing was lost."""
    lost_tokens: int = 0
    """What was charged in full although it had been in the cache."""

    @property
    def cause(self) -> Cause | None:
        """Why the cache did not cover what it could have; None when it did."""
        return self.causes[0] if self.causes else self.missed

    @property
    def is_alarm(self) -> bool:
        """We broke the prefix and nobody had said so: a bug of ours."""
        return any(cause not in self.declared for cause in self.causes if cause not in ("first_request", "resume"))


class Forecast(msgspec.Struct, frozen=True):
    """What an action would cost: these tokens are cached now and would be charged in full."""

    cause: Cause
    tokens: int

    def __str__(self) -> str:
        what = {
            "model_changed": "Another model",
            "tools_changed": "Another list of tools",
            "instructions_changed": "Another base text",
        }.get(self.cause, "This")
        return f"{what} means that about {self.tokens:,} tokens are not taken from the provider's cache once."


class CacheTotals(msgspec.Struct, frozen=True):
    """A thread's sums. Only requests with a report count."""

    requests: int
    input_tokens: int
    cached_tokens: int
    lost_tokens: dict[str, int]
    """By cause."""

    @property
    def hit_percent(self) -> int:
        return 100 * self.cached_tokens // self.input_tokens if self.input_tokens else 0


class CacheLedger:
    """The requests of one thread in this process, in order. Each costs what is new in it, and one pass of pointers."""

    def __init__(self, *, life_s: float = CACHE_LIFE_S) -> None:
        self.entries: list[CacheEntry] = []
        self._life_s = life_s
        self._parts: RequestParts | None = None
        self._ends: list[int] = []
        """Estimated tokens up to the end of each item of the last request."""
        self._warm = 0
        """How many items of the last request a completed request has shown to the provider."""
        self._scale = (1, 1)
        """The provider's tokens to ours, from its last report."""
        self._declared: list[Declarable] = []
        self._cached_before = 0
        """What the provider should have held for this thread when the last request was made."""

    def declare(self, cause: Declarable) -> None:
        """The next request breaks the prefix, for this reason."""
        self._declared.append(cause)

    def note_request(
        self,
        parts: RequestParts,
        *,
        idle_s: float | None = None,
        declared: Iterable[Declarable] = (),
        is_side: bool = False,
    ) -> CacheEntry:
        """A request that is about to be sent; `idle_s` is the time since the last one was answered."""
        causes_given = tuple(dict.fromkeys((*self._declared, *declared)))
        former = self._parts
        shared = 0 if former is None else _shared_items(former.input, parts.input)
        causes = self._causes(former, parts, shared, causes_given)
        is_elsewhere = "provider_changed" in causes_given
        prefix = 0 if former is None or is_elsewhere or _head_causes(former, parts) else shared
        ends = self._ends[:shared]
        total = ends[-1] if ends else 0
        for raw in parts.input[shared:]:
            total += estimate_tokens(raw)
            ends.append(total)
        head = tokens_of_bytes(len(parts.instructions) + len(parts.tools))
        warm = min(prefix, self._warm)
        entry = CacheEntry(
            number=len(self.entries) + 1,
            model=parts.model,
            items=len(parts.input),
            tokens=head + total,
            prefix_items=prefix,
            prefix_tokens=head + ends[prefix - 1] if prefix else 0,
            expected_cached=self._in_cache(head + ends[warm - 1]) if warm else 0,
            causes=causes,
            declared=causes_given,
            idle_s=idle_s,
            has_new_settings=former is not None and former.settings != parts.settings,
            is_side=is_side,
        )
        self._cached_before = self._in_cache(self._warm_tokens())
        self.entries.append(entry)
        if not is_side:
            self._declared.clear()
            self._parts, self._ends, self._warm = parts, ends, warm
        return entry

    def note_usage(self, input_tokens: int, cached_tokens: int | None) -> CacheEntry | None:
        """What the provider reported about the last request; gives its finished entry.

        None where it says nothing about a cache: then nobody knows whether anything was missed.
        """
        if not self.entries:
            return None
        entry = self.entries[-1]
        lost = 0 if cached_tokens is None else max(0, min(self._cached_before, input_tokens) - cached_tokens)
        missed = None if cached_tokens is None else self._missed(entry, cached_tokens)
        done = msgspec.structs.replace(
            entry,
            reported_input=input_tokens,
            reported_cached=cached_tokens,
            missed=missed if lost else None,
            lost_tokens=lost if missed else 0,
        )
        self.entries[-1] = done
        if input_tokens > 0:
            self._scale = (input_tokens, max(1, entry.tokens))
        if not entry.is_side:
            self._warm = entry.items
        return done

    def forecast(
        self, *, model: str | None = None, tools: bytes | None = None, instructions: bytes | None = None
    ) -> Forecast | None:
        """What it would cost to go on with something else; None when nothing would be lost."""
        if self._parts is None:
            return None
        changed = msgspec.structs.replace(
            self._parts,
            model=self._parts.model if model is None else model,
            tools=self._parts.tools if tools is None else tools,
            instructions=self._parts.instructions if instructions is None else instructions,
        )
        causes = _head_causes(self._parts, changed)
        tokens = self._in_cache(self._warm_tokens())
        return Forecast(causes[0], tokens) if causes and tokens else None

    def totals(self) -> CacheTotals:
        done = [entry for entry in self.entries if entry.reported_cached is not None]
        lost: dict[str, int] = {}
        for entry in done:
            if entry.missed:
                lost[entry.missed] = lost.get(entry.missed, 0) + entry.lost_tokens
        return CacheTotals(
            len(done),
            sum(entry.reported_input or 0 for entry in done),
            sum(entry.reported_cached or 0 for entry in done),
            lost,
        )

    @property
    def alarms(self) -> list[CacheEntry]:
        return [entry for entry in self.entries if entry.is_alarm]

    def _causes(
        self, former: RequestParts | None, parts: RequestParts, shared: int, declared: tuple[str, ...]
    ) -> tuple[Cause, ...]:
        if former is None:
            return ("resume",) if "resume" in declared else ("fork",) if "fork" in declared else ("first_request",)
        causes = _head_causes(former, parts)
        if "provider_changed" in declared:
            return ("provider_changed", *causes)  # another server has nothing of it, and is shown other parts
        if shared < len(former.input):
            given: list[Cause] = [cause for cause in _INPUT_CAUSES if cause in declared]
            # A model that takes no pictures is shown other items: that belongs to the change of the model.
            if given:
                causes.extend(given)
            elif parts.model == former.model:
                causes.append("undeclared")
        return tuple(causes)

    def _missed(self, entry: CacheEntry, cached: int) -> Cause | None:
        if entry.causes:
            return entry.causes[0]
        if cached * 100 >= entry.expected_cached * _TOLERANCE_PERCENT:
            return None
        if entry.idle_s is not None and entry.idle_s > self._life_s:
            return "cache_timeout"
        return "settings_changed" if entry.has_new_settings else "provider_miss"

    def _warm_tokens(self) -> int:
        if self._parts is None or not self._warm:
            return 0
        return tokens_of_bytes(len(self._parts.instructions) + len(self._parts.tools)) + self._ends[self._warm - 1]

    def _in_cache(self, tokens: int) -> int:
        """How many of these tokens, which we estimated, a provider would report as cached."""
        theirs, ours = self._scale
        counted = tokens * theirs // ours
        return counted // CACHE_STEP_TOKENS * CACHE_STEP_TOKENS if counted >= CACHE_MIN_TOKENS else 0


def _shared_items(former: Sequence[bytes], now: Sequence[bytes]) -> int:
    """How many items two inputs share, counted from the first."""
    length = min(len(former), len(now))
    # Kept items are the same objects, so equal lists are told apart by their pointers alone.
    if former[:length] == now[:length]:
        return length
    return next(index for index in range(length) if former[index] != now[index])


def _head_causes(former: RequestParts, now: RequestParts) -> list[Cause]:
    changed = (former.model != now.model, former.tools != now.tools, former.instructions != now.instructions)
    return [cause for cause, is_so in zip(_OF_THE_HEAD, changed, strict=True) if is_so]
