"""One turn: ask the model, run what it asks for, tell it, until it asks for nothing more. Read this first.

`run_turn` is a plain coroutine over a live thread. It appends to the history, emits events, and returns the last
message. It does not know who listens, how a person is asked, or where the thread is kept.

Invariants: an item is recorded when the server has finished it, never while it streams; a retry starts from what is
recorded, so nothing is doubled and no call runs twice; every call is answered, also when the turn is cancelled; nobody
is shown that something is finished before it is recorded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from spindle.core.calls import AroundCall, CallRunner, Emit
from spindle.core.live_thread import LiveThread
from spindle.core.secrecy import StreamedText, mask_output
from spindle.errors import ImageRejected, ModelError, StreamDropped
from spindle.model.client import (
    Completed,
    Created,
    ItemAdded,
    ItemDone,
    RateLimits,
    RawReasoningDelta,
    SummaryDelta,
    SummaryPartAdded,
    TextDelta,
    TurnState,
)
from spindle.model.retry import backoff_s
from spindle.protocol.events import (
    AgentMessage,
    AgentReasoning,
    AgentReasoningRawContent,
    AgentReasoningSectionBreak,
    ItemCompleted,
    ItemStarted,
    Msg,
    StreamError,
    Warning,
    WebSearchBegin,
    WebSearchEnd,
)
from spindle.protocol.items import Item, is_call, item_text
from spindle.protocol.settings import ThreadSettings
from spindle.tools.tool import ToolContext

if TYPE_CHECKING:
    from spindle.core.plan_mode import PlanView

CONTEXT_FULL = "context_window_exceeded"
"""The `info` of a ModelError when the input does not fit."""


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """What one turn is run with."""

    turn_id: str
    settings: ThreadSettings
    output_schema: dict[str, object] | None
    absorb_input: Callable[[], Awaitable[bool]]
    """Append input that arrived meanwhile; true when there was any."""
    make_context: Callable[[str, Emit], ToolContext]
    """The context for one call, by its id, and how it tells people what it does."""
    make_room: Callable[[bool], Awaitable[bool]]
    """Shorten the thread where that is due, or (true) because the server says it is too long; true when it was done."""
    around_call: AroundCall | None = None
    """Runs a call between its hooks, where there are any."""
    goes_on: Callable[[str | None], Awaitable[bool]] | None = None
    """Asked when the model is done; true when it was given more to do."""
    plan: PlanView | None = None
    """In plan mode: shows plans apart from the messages they stand in."""
    max_samples: int = 0
    """Stop after this many requests; 0 = no limit."""


class TurnOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a turn ended well."""

    last_message: str | None
    response_id: str | None


class Sample(msgspec.Struct, kw_only=True):
    """One request and its answer."""

    last_message: str | None = None
    had_calls: bool = False
    completed: Completed | None = None
    announced: set[str] = msgspec.field(default_factory=set)
    """Items that were shown when they began."""

    @property
    def wants_more(self) -> bool:
        """The model made calls, or said that it has not finished."""
        return self.had_calls or (self.completed is not None and self.completed.end_turn is False)


async def run_turn(thread: LiveThread, turn: Turn, emit: Emit) -> TurnOutcome:
    """Extend `thread` from the input just appended to the final message. Raises ModelError when the model cannot."""
    turn_state = TurnState()
    last_message: str | None = None
    samples = 0
    while True:
        if samples:
            await turn.make_room(False)
        await turn.absorb_input()
        try:
            sample = await ask(thread, turn, turn_state, emit)
        except ModelError as error:
            if error.info == CONTEXT_FULL and await turn.make_room(True):
                continue
            raise
        samples += 1
        last_message = sample.last_message or last_message
        if turn.max_samples and samples >= turn.max_samples and sample.wants_more:
            raise ModelError(f"stopped after {samples} model requests (spindle.limits.max_steps)")
        if not sample.wants_more and not await turn.absorb_input():
            if turn.goes_on is not None and await turn.goes_on(last_message):
                continue
            completed = sample.completed
            return TurnOutcome(last_message=last_message, response_id=completed.response_id if completed else None)


async def ask(thread: LiveThread, turn: Turn, turn_state: TurnState, emit: Emit) -> Sample:
    """One sample with its retries: calls are run as they arrive, each is answered before we return."""
    attempt = 0
    may_drop_image = True
    while True:
        sample = Sample()
        calls = CallRunner(
            thread.tools,
            turn.make_context,
            history=thread.history,
            emit=emit,
            clock=thread.clock,
            truncation=thread.truncation,
            allow_parallel=thread.traits.supports_parallel_tool_calls,
            mask=partial(mask_output, secrets=thread.secrets),
            around=turn.around_call,
        )
        try:
            failure = await read_answer(thread, turn, turn_state, sample, calls, emit)
            await calls.finish()
        except BaseException:
            # Interrupted, or a bug of ours: the record must be whole before the terminal event, every call answered.
            await calls.abort()
            thread.note_completed(sample.completed, emit)
            raise
        match failure:
            case None:
                thread.note_completed(sample.completed, emit)
                return sample
            case StreamDropped():
                attempt += 1
                await wait_before_retry(thread, failure, attempt, emit)
            case ImageRejected() if may_drop_image and thread.drop_last_tool_image():
                may_drop_image = False
                emit(Warning(message=f"the model cannot take the last picture; going on without it ({failure})"))
            case _:
                raise failure


async def wait_before_retry(thread: LiveThread, dropped: StreamDropped, attempt: int, emit: Emit) -> None:
    """Announce the retry and wait: as long as the server asked for, else with growing, jittered pauses."""
    limit = thread.provider.stream_retries
    if attempt > limit:
        raise dropped.given_up(limit)
    asked = dropped.delay_s
    pause = f"; waiting {asked:.0f} s as the server asks" if asked is not None and asked >= 1 else ""
    emit(
        StreamError(
            message=f"Reconnecting... {attempt}/{limit} ({dropped}{pause})",
            codex_error_info=dropped.info,
            additional_details=str(dropped),
        )
    )
    await asyncio.sleep(backoff_s(attempt, thread.clock) if asked is None else asked)


async def read_answer(
    thread: LiveThread, turn: Turn, turn_state: TurnState, sample: Sample, calls: CallRunner, emit: Emit
) -> StreamDropped | ModelError | None:
    """Read one stream to its end. How it failed is returned, not raised: what it finished is kept, its calls run on."""
    request = thread.next_request(turn.settings, turn.output_schema)
    streamed = StreamedText(thread.secrets, thread.thread_id, turn.turn_id, turn.plan.show if turn.plan else emit)
    # Closed on every way out, so that a cancelled turn leaves no half-read connection behind.
    async with aclosing(thread.client.stream(request, turn_state)) as events:
        try:
            async for event in events:
                match event:
                    case TextDelta(item_id=item_id, delta=delta):
                        streamed.show("text", item_id, delta)
                    case ItemDone(item=item, item_id=item_id):
                        streamed.finish(item_id)
                        if turn.plan is not None:
                            turn.plan.finish(item_id)
                        if item_id not in sample.announced:
                            announce_item(thread, turn, item, item_id, emit)  # a server may send only finished items
                        record_item(thread, turn, item, item_id, sample, emit)
                        if is_call(item):
                            sample.had_calls = True
                            calls.start(item)
                    case SummaryDelta(item_id=item_id, delta=delta, summary_index=index):
                        streamed.show("summary", item_id, delta, index)
                    case ItemAdded(item=item, item_id=item_id):
                        sample.announced.add(item_id)
                        announce_item(thread, turn, item, item_id, emit)
                    case SummaryPartAdded(item_id=item_id, summary_index=index):
                        emit(AgentReasoningSectionBreak(item_id=item_id, summary_index=index))
                    case RawReasoningDelta(item_id=item_id, delta=delta, content_index=index):
                        if thread.show_raw_reasoning:
                            streamed.show("raw", item_id, delta, index)
                    case RateLimits(snapshot=snapshot):
                        thread.rate_limits = snapshot
                    case Completed():
                        sample.completed = event
                        thread.note_counted(event)
                    case Created():
                        pass
        except (StreamDropped, ModelError) as failure:
            return failure
    return None


def announce_item(thread: LiveThread, turn: Turn, item: Item, item_id: str, emit: Emit) -> None:
    """An item begins to stream: show it, record nothing."""
    if item.get("type") == "web_search_call":
        emit(WebSearchBegin(call_id=item_id))
    elif (shown := shown_item(item, item_id)) is None:
        return
    elif turn.plan is not None and shown["type"] == "AgentMessage":
        turn.plan.announce(item_id, shown)
    else:
        emit(ItemStarted(thread_id=thread.thread_id, turn_id=turn.turn_id, item=shown))


def record_item(thread: LiveThread, turn: Turn, item: Item, item_id: str, sample: Sample, emit: Emit) -> None:
    """A finished item: its event line, then the item itself; when both are recorded, the front ends are told."""
    kind = item.get("type")
    shown = shown_item(item, item_id)
    told: list[Msg] = []
    if kind == "message":
        said = item_text(item) if turn.plan is None else turn.plan.complete(item_id, item_text(item), told.append)
        if said is None:
            shown = None  # it was all plan
        else:
            shown = {**(shown or {}), "content": [{"type": "Text", "text": said}]}
            sample.last_message = said
            thread.history.append_event({"type": "agent_message", "message": said})
            told.append(AgentMessage(message=said))
    elif kind == "reasoning" and shown is not None:
        for text in shown["summary_text"]:
            thread.history.append_event({"type": "agent_reasoning", "text": text})
            told.append(AgentReasoning(text=text))
        if thread.show_raw_reasoning:
            for text in shown["raw_content"]:
                thread.history.append_event({"type": "agent_reasoning_raw_content", "text": text})
                told.append(AgentReasoningRawContent(text=text))
    elif kind == "web_search_call":
        action = item.get("action") or {}
        query = action.get("query") or action.get("url") or ""
        told.append(WebSearchEnd(call_id=item_id, query=query, action=action))
    thread.history.append_item(item)
    if shown is not None:
        told.append(ItemCompleted(thread_id=thread.thread_id, turn_id=turn.turn_id, item=shown))
    for msg in told:
        emit(msg)


def shown_item(item: Item, item_id: str) -> dict[str, Any] | None:
    """The item as people see it, or None for those that tools show by events of their own."""
    match item.get("type"):
        case "message":
            content = [{"type": "Text", "text": item_text(item)}]
            return {"type": "AgentMessage", "id": item_id, "content": content, "phase": item.get("phase")}
        case "reasoning":
            summary = [part.get("text", "") for part in item.get("summary") or ()]
            raw = [part.get("text", "") for part in item.get("content") or ()]
            return {"type": "Reasoning", "id": item_id, "summary_text": summary, "raw_content": raw}
        case _:
            return None
