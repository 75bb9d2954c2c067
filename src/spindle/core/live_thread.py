"""A thread in this process: its record, the model it talks to, and the parts of a request that never change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from spindle.context.tokens import estimate_tokens, tokens_of_bytes
from spindle.context.truncate import Truncation
from spindle.context.visible import Audience, VisibleFold
from spindle.core.access import BaseText, ModelAccess, ModelOverrides
from spindle.core.cache_watch import CacheWatch
from spindle.core.notes import Notes
from spindle.core.request_log import Made, RecordedClient, RequestLog
from spindle.model.catalog import ModelInfo
from spindle.model.client import Completed, ItemDone
from spindle.policy.secrets import Secrets
from spindle.prompt.audience import audience_for
from spindle.prompt.build import ModelTraits
from spindle.prompt.instructions import bundled_instructions
from spindle.protocol.clock import Clock
from spindle.protocol.events import CacheMissed, Msg, TokenCount, usage_info
from spindle.protocol.items import Item, encode_kept, one_copy
from spindle.protocol.provenance import ModelOrigin, Provenance
from spindle.protocol.request import ModelFacts, Request, TokenUsage, VisibleItem
from spindle.protocol.settings import ThreadSettings
from spindle.thread.history import History
from spindle.tools.router import ToolSet

if TYPE_CHECKING:
    from spindle.core.budget import BudgetLedger
    from spindle.core.resting import HoldsPast

Cause = Literal["compaction", "start_over", "context_edit", "picture_removed", "fork", "undo"]
"""Why the model is shown another list than before."""

IMAGE_REFUSED = "The model server refused this picture; it was taken out of the conversation."


class _Counted(msgspec.Struct, frozen=True, kw_only=True):
    """How far the server's last count reaches."""

    generation: int = -1
    items: int = 0
    reasoning_included: bool = False


def _compact_limit(overrides: ModelOverrides, info: ModelInfo, most: int | None) -> int | None:
    """The user's limit, else the catalogue's; never more than `most`."""
    wanted = overrides.compact_limit or info.auto_compact_token_limit or most
    return wanted if most is None or wanted is None else min(wanted, most)


class LiveThread:
    """What a turn extends. Owned by one session; `instructions` and `tools` keep their bytes for the thread's life."""

    def __init__(
        self,
        thread_id: str,
        history: History,
        *,
        access: ModelAccess,
        model: str,
        base: BaseText,
        tools: ToolSet,
        clock: Clock,
        secrets: Secrets | None = None,
    ) -> None:
        self.thread_id = thread_id
        self.history = history
        self.notes = Notes(history)
        self.requests = RequestLog(history, thread_id)
        """What the record is told of each request."""
        self.client = access.client
        self.remote = access.remote
        if self.remote is None:
            self.client = RecordedClient(access.client, self.requests, access.provider)
        else:
            self.remote.watch = self.requests
        self.provider = access.provider
        self.provider_ids = access.provider_ids
        self._switch = access.switch
        self.catalog = access.catalog
        self._overrides = access.overrides
        self.show_raw_reasoning = access.overrides.shows_raw_reasoning
        self.instructions = one_copy(encode_kept(base.text))
        self._base = base
        self.budget: BudgetLedger | None = None
        """What the thread may use, where there is a limit."""
        self.tools = tools
        self.clock = clock
        self.secrets = secrets or Secrets()
        """What is masked in this thread's record and events."""
        self.total_usage = TokenUsage()
        self.last_usage = TokenUsage()
        self.rate_limits: dict[str, Any] | None = None
        self._counted = _Counted()
        self._reasoning: tuple[tuple[int, int], int] = ((-1, -1), 0)
        self._estimated: tuple[tuple[int, int], int, int] = ((-1, -1), 0, 0)
        self._fold = VisibleFold()
        self.cache = CacheWatch(clock)
        self.asked: Request | None = None
        """The request whose answer is awaited, until it is booked."""
        self._watched: dict[str, Any] | None = None
        """What the provider's cache did for the answer that is not booked yet."""
        self._windows: dict[str, int] = {}
        """By model, the windows that servers have named."""
        self.use_model(model)

    def use_model(self, slug: str) -> None:
        """Later requests go to this model. Base text and tools stay; what depends on the model follows it."""
        info, overrides = self.catalog.find(slug), self._overrides
        window = overrides.context_window or self._windows.get(slug) or info.context_window
        self.traits = ModelTraits(
            slug=slug,
            family=info.family,
            supports_reasoning_summaries=overrides.reasoning_summaries or info.supports_reasoning_summaries,
            default_effort=info.default_reasoning_level,
            support_verbosity=info.support_verbosity,
            default_verbosity=info.default_verbosity,
            supports_parallel_tool_calls=info.supports_parallel_tool_calls,
            accepts_images="image" in info.input_modalities,
            keeps_raw_reasoning=not self.provider.is_openai,
            facts=ModelFacts(
                is_known=info.known,
                max_output_tokens=overrides.max_output_tokens,
                output_limit=info.max_output_tokens,
                window=window,
                thinking=info.thinking,
                is_small=info.profile == "small",
                capabilities=info.capabilities,
            ),
        )
        limit = overrides.output_token_limit
        self.truncation = Truncation("tokens", limit) if limit else info.truncation_policy
        self.window_tokens: int | None = window * info.effective_context_window_percent // 100 if window else None
        self.window_limit = window * 9 // 10 if window else None
        """From this many tokens in context on the window counts as about to be full: nine tenths of it."""
        self.compact_limit = _compact_limit(overrides, info, self.window_limit)
        """From this many tokens in context on the thread is compacted; None = never."""

    def use_provider(self, provider_id: str) -> list[str] | None:
        """Later requests go to this provider: what people should know of it; None when they go there already.

        Raises SpindleError when it cannot be used. What depends on the model follows with `use_model`.
        """
        if provider_id == self.provider.id or self._switch is None:
            return None
        self.provider, warnings = self._switch(provider_id)
        self.cache.declare("provider_changed")
        return warnings

    @property
    def wire(self) -> str:
        """The dialect that its model is asked in."""
        return "responses" if self.remote is None else self.remote.endpoint.wire.name

    @property
    def origin(self) -> ModelOrigin | None:
        """Where what its model makes comes from; None for a model that a program brought along."""
        return None if self.remote is None else self.remote.endpoint.origin(self.traits.slug)

    def _audience(self) -> Audience:
        """Who is shown the thread now: what a server can read of it depends on what it wrote itself."""
        origin = None
        if self.remote is not None:
            # What is known of the server decides about the wire, and with it who is asked.
            self.remote.endpoint.capabilities(self.traits.slug, self.traits.facts)
            # Of all its models: what one of them wrote, another one of the same server reads.
            origin = self.remote.endpoint.origin("")
        refused, keeps_all_ids = self.history.refused_origins, self.provider.is_azure
        return audience_for(self.traits, self.wire, origin, refused, keeps_all_ids=keeps_all_ids)

    def note_refused(self, origin: ModelOrigin) -> None:
        """A server cannot read items recorded as its own: they are not sent to it again."""
        if origin not in self.history.refused_origins:
            self.history.append_refused(origin)
            self.cache.declare("context_edit")

    def text_for(self, slug: str) -> str | None:
        """The base text a model would have had from the start; None where the user gave one for all models."""
        if self._base.is_for_all:
            return None
        info = self.catalog.find(slug)
        return info.base_instructions or bundled_instructions(info.family, self._base.personality)

    def provenance(self, done: ItemDone) -> Provenance | None:
        """What the record is to say about an item of an answer beside the item itself."""
        return None if done.origin is None else Provenance(done.origin, done.opaque)

    def append_items(self, items: Iterable[Item]) -> None:
        for item in items:
            self.history.append_item(item)

    def drop_last_tool_image(self) -> bool:
        """Replace the newest picture in a tool output by words; false when there is none. Costs the prompt cache."""
        items = [entry.item for entry in self.history.entries]
        for index in reversed(range(len(items))):
            output = items[index].get("output")
            if isinstance(output, list) and any(part.get("type") == "input_image" for part in output):
                items[index] = {**items[index], "output": IMAGE_REFUSED}
                self.replace_visible(items, "picture_removed")
                return True
        return False

    def replace_visible(
        self, items: list[Item], cause: Cause, *, message: str = "", made: Mapping[int, Provenance | None] = {}
    ) -> None:
        """From here on, `items` stand for everything the model was shown. `message` is the summary among them, if any.

        `made` says of items that were not in the thread before which model made them, by their identity.

        There is no other way to take back what a request has sent. The record says why it was done, and the watch over
        the provider's cache expects the break. Whoever calls this also says how long the thread is now
        (`note_compacted`, `note_edited`), unless an estimate of the new list will do.
        """
        self.history.append_compacted(message, items, cause, made)
        # To the provider's cache a fresh start is a compaction like any other, and an undo a rollback.
        self.cache.declare({"start_over": "compaction", "undo": "rollback"}.get(cause, cause))

    def show_to_model(self, settings: ThreadSettings, output_schema: dict[str, object] | None) -> list[VisibleItem]:
        """What a request with these settings shows of the thread; the log is told what the request is made of."""
        audience = self._audience()
        self._fold.address(audience)
        fixed = self.instructions, self.tools.specs_bytes
        self.requests.made = Made(settings, self.traits, self.provider, audience, *fixed, output_schema)
        return self._fold.update(self.history.entries, self.history.generation)

    def holders_of_past(self) -> list[HoldsPast]:
        """What has something to say of the past alone; see `resting`."""
        found: list[HoldsPast] = [self.requests, self.history, self._fold, self.notes, self.cache]
        if self.remote is not None:
            found += [self.remote.endpoint, self.remote.endpoint.wire]
        elif isinstance(self.client, RecordedClient):
            found.append(self.client.wire)
        return found

    @property
    def tokens_in_context(self) -> int:
        """What the next request would cost: the server's last count, and an estimate of what it has not counted."""
        counted = self._counted
        if counted.generation != self.history.generation or self.last_usage.total_tokens == 0:
            return self._estimated_tokens()
        new = self._estimate_from(counted.items)
        old = 0 if counted.reasoning_included else self._old_reasoning()
        return self.last_usage.total_tokens + new + old

    @property
    def fixed_tokens(self) -> int:
        """Base text and tools, as estimated."""
        return tokens_of_bytes(len(self.instructions) + len(self.tools.specs_bytes))

    def _estimated_tokens(self) -> int:
        return self.fixed_tokens + self._estimate_from(0)

    def _estimate_from(self, start: int) -> int:
        """What the entries from `start` to the end cost. Each is looked at once: a server may never count any."""
        entries, key = self.history.entries, (self.history.generation, start)
        reach, tokens = self._estimated[1:] if self._estimated[0] == key else (start, 0)
        tokens += sum(estimate_tokens(entry.raw) for entry in entries[reach:])
        self._estimated = key, len(entries), tokens
        return tokens

    def _old_reasoning(self) -> int:
        """Reasoning before the last input, which a server does not count unless it says so. Looked up once per turn."""
        start = self.history.last_turn_start
        key = (self.history.generation, start)
        if self._reasoning[0] != key:
            old = (entry for entry in self.history.entries[:start] if entry.item.get("type") == "reasoning")
            self._reasoning = key, sum(estimate_tokens(entry.item) for entry in old)
        return self._reasoning[1]

    def note_counted(self, completed: Completed) -> None:
        """The server has counted everything up to here: to be called before the outputs of calls are recorded."""
        if completed.usage is None:
            return  # it has not: what it counted before still stands, and the rest is estimated
        self._counted = _Counted(
            generation=self.history.generation,
            items=len(self.history.entries),
            reasoning_included=completed.reasoning_included,
        )

    def note_restored(self, total: TokenUsage, last: TokenUsage) -> None:
        """A recorded thread goes on: what its last count says, and how far it reaches, is in the record."""
        self.total_usage, self.last_usage = total, last
        generation, items = self.history.counted
        self._counted = _Counted(generation=generation, items=items)

    def note_compacted(self, emit: Callable[[Msg], None]) -> None:
        """The thread was replaced by a shorter one: from now on its size is an estimate again."""
        self.last_usage = TokenUsage(total_tokens=self._estimated_tokens())
        self._counted = _Counted(
            generation=self.history.generation, items=len(self.history.entries), reasoning_included=True
        )
        self.report_usage(emit)

    def note_edited(self, tokens: int) -> None:
        """Parts of the thread were cleared: what is left costs about this many tokens."""
        self.last_usage = msgspec.structs.replace(self.last_usage, total_tokens=max(1, tokens))
        self._counted = msgspec.structs.replace(
            self._counted, generation=self.history.generation, items=len(self.history.entries)
        )

    def _watch_cache(self, usage: TokenUsage, counts_cached: bool, emit: Callable[[Msg], None]) -> None:
        """Compare, once, what the provider had in its cache with what it could have had."""
        if self.asked is None:
            return
        entry = self.cache.note(self.asked, usage, counts_cached=counts_cached)
        self.asked = None
        if entry is None:
            return
        if entry.lost_tokens and entry.cause is not None:
            emit(
                CacheMissed(
                    cause=entry.cause,
                    lost_tokens=entry.lost_tokens,
                    expected_cached_tokens=entry.expected_cached,
                    cached_tokens=entry.reported_cached or 0,
                    is_declared=not entry.is_alarm,
                )
            )
        self._watched = msgspec.to_builtins(entry)

    def note_answered(self, completed: Completed | None, emit: Callable[[Msg], None]) -> None:
        """An answer has come to its end: what can be done while the commands in it run, and the next request waits."""
        if completed is not None and completed.usage is not None:
            self._watch_cache(completed.usage, completed.counts_cached, emit)
        self.notes.keep_up()

    def note_completed(self, completed: Completed | None, emit: Callable[[Msg], None]) -> None:
        """Book what a response cost, remember its place, and tell the front ends."""
        if completed is None:
            return
        if completed.usage is not None:
            self.last_usage = completed.usage
            self.total_usage = self.total_usage + completed.usage
            self._watch_cache(completed.usage, completed.counts_cached, emit)
        watched, self._watched = self._watched, None
        if completed.response_id:
            self.history.append_bookmark(completed.response_id, cache=watched)
        self.report_usage(emit)
        self.notes.keep_up()

    def learn_window(self, tokens: int) -> None:
        """The server names the window of its model. If that is smaller than was known, it is the one that counts.

        A window that the base text and the tools alone would half fill is not believed: what they cost is a guess.
        """
        known = self.traits.facts.window
        if 2 * self.fixed_tokens < tokens < (known or tokens + 1) and self._overrides.context_window is None:
            self._windows[self.traits.slug] = tokens
            self.use_model(self.traits.slug)

    def note_window_full(self, emit: Callable[[Msg], None]) -> None:
        """The server said that the input does not fit: from now on the window counts as full."""
        if self.window_tokens is None:
            return
        self.last_usage = TokenUsage(total_tokens=self.window_tokens)
        self.report_usage(emit)

    def report_usage(self, emit: Callable[[Msg], None]) -> None:
        info = usage_info(self.total_usage, self.last_usage, self.window_tokens)
        self.history.append_event({"type": "token_count", "info": info, "rate_limits": self.rate_limits})
        emit(TokenCount(info=info, rate_limits=self.rate_limits))
