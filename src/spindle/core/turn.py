"""One turn: ask the model, run what it asks for, tell it, until it asks for nothing more. Read this first.

`run_turn` is a plain coroutine over a running turn. It appends to the history, emits events, and returns how the turn
ended. It does not know who listens, how a person is asked, or where the thread is kept; what else a session can do
comes in through the methods of `RunningTurn`.

Invariants: an item is recorded when the server has finished it, never while it streams; a retry starts from what is
recorded, so nothing is doubled and no call runs twice; every call is answered, also when the turn is cancelled; nobody
is shown that something is finished before it is recorded.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import msgspec

from spindle.core.access import forget_opaque, tell_other_model
from spindle.core.calls import CallRunner
from spindle.core.running_turn import RunningTurn, TurnOutcome
from spindle.core.secrecy import StreamedText
from spindle.errors import ImageRejected, ModelError, StreamDropped
from spindle.model.client import (
    Completed,
    Created,
    InputDelta,
    ItemAdded,
    ItemDone,
    Notice,
    OpaqueRefused,
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


async def run_turn(turn: RunningTurn) -> TurnOutcome:
    """Extend the thread by a person's input and everything up to the final message.

    Raises ModelError when the model cannot go on.
    """
    if not await turn.begin():
        return TurnOutcome()
    turn_state = TurnState()
    most = turn.session.limits.max_requests
    while True:
        await turn.before_request()
        try:
            sample = await ask(turn, turn_state)
        except ModelError as error:
            if await turn.recover(error):
                continue
            raise
        turn.requests += 1
        turn.last_message = sample.last_message or turn.last_message
        if most and turn.requests >= most and sample.wants_more:
            raise ModelError(f"stopped after {turn.requests} model requests (spindle.limits.max_steps)")
        if not sample.wants_more and not await turn.absorb_input() and not await turn.goes_on():
            turn.complete()
            completed = sample.completed
            return TurnOutcome(last_message=turn.last_message, response_id=completed.response_id if completed else None)


async def ask(turn: RunningTurn, turn_state: TurnState) -> Sample:
    """One sample with its retries: calls are run as they arrive, each is answered before we return."""
    thread = turn.thread
    attempt = 0
    may_drop_image = True
    while True:
        sample, calls = Sample(), CallRunner(turn)
        try:
            failure = await read_answer(turn, turn_state, sample, calls)
            if sample.had_calls:
                await asyncio.sleep(0)  # the calls start now, and what follows is done while they run
                thread.note_answered(sample.completed, turn.emit)
            await calls.finish()
        except BaseException:
            # Interrupted, or a bug of ours: the record must be whole before the terminal event, every call answered.
            await calls.abort()
            thread.note_completed(sample.completed, turn.emit)
            raise
        match failure:
            case None:
                thread.note_completed(sample.completed, turn.emit)
                return sample
            case StreamDropped():
                attempt += 1
                await wait_before_retry(turn, failure, attempt)
            case ImageRejected() if may_drop_image and thread.drop_last_tool_image():
                may_drop_image = False
                turn.emit(Warning(message=f"the model cannot take the last picture; going on without it ({failure})"))
            case _:
                raise failure


async def wait_before_retry(turn: RunningTurn, dropped: StreamDropped, attempt: int) -> None:
    """Announce the retry and wait: as long as the server asked for, else with growing, jittered pauses."""
    limit = turn.thread.provider.stream_retries
    if attempt > limit:
        raise dropped.given_up(limit)
    asked = dropped.delay_s
    delay_s = backoff_s(attempt, turn.thread.clock) if asked is None else asked
    pause = f"; waiting {asked:.0f} s as the server asks" if asked is not None and asked >= 1 else ""
    turn.emit(
        StreamError(
            message=f"Reconnecting... {attempt}/{limit} ({dropped}{pause})",
            codex_error_info=dropped.info,
            additional_details=str(dropped),
            delay_s=round(delay_s, 1),
        )
    )
    await asyncio.sleep(delay_s)


async def read_answer(
    turn: RunningTurn, turn_state: TurnState, sample: Sample, calls: CallRunner
) -> StreamDropped | ModelError | None:
    """Read one stream to its end. How it failed is returned, not raised: what it finished is kept, its calls run on."""
    thread = turn.thread
    request = thread.asked = thread.build_request(turn.settings, turn.output_schema)
    streamed = StreamedText(thread.secrets, thread.thread_id, turn.turn_id, turn.view.show)
    # Closed on every way out, so that a cancelled turn leaves no half-read connection behind.
    async with aclosing(thread.client.stream(request, turn_state)) as events:
        try:
            async for event in events:
                match event:
                    case TextDelta(item_id=item_id, delta=delta):
                        streamed.show("text", item_id, delta)
                    case ItemDone(item=item, item_id=item_id):
                        streamed.finish(item_id)
                        turn.view.finish(item_id)
                        if item_id not in sample.announced:
                            announce_item(turn, item, item_id)  # a server may send only finished items
                        record_item(turn, event, sample)
                        if is_call(item):
                            sample.had_calls = True
                            calls.start(item)
                    case SummaryDelta(item_id=item_id, delta=delta, summary_index=index):
                        streamed.show("summary", item_id, delta, index)
                    case ItemAdded(item=item, item_id=item_id):
                        sample.announced.add(item_id)
                        announce_item(turn, item, item_id)
                    case SummaryPartAdded(item_id=item_id, summary_index=index):
                        turn.emit(AgentReasoningSectionBreak(item_id=item_id, summary_index=index))
                    case RawReasoningDelta(item_id=item_id, delta=delta, content_index=index):
                        if thread.show_raw_reasoning:
                            streamed.show("raw", item_id, delta, index)
                    case RateLimits(snapshot=snapshot):
                        thread.rate_limits = snapshot
                    case Notice(message=message):
                        turn.emit(Warning(message=message))
                    case OpaqueRefused(origin=origin):
                        forget_opaque(turn, origin)
                    case Completed():
                        sample.completed = event
                        thread.note_counted(event)
                    case InputDelta():
                        streamed.show_input(event)
                    case Created(model=model):
                        tell_other_model(turn, request.model, model)
        except (StreamDropped, ModelError) as failure:
            return failure
    return None


def announce_item(turn: RunningTurn, item: Item, item_id: str) -> None:
    """An item begins to stream: show it, record nothing."""
    if item.get("type") == "web_search_call":
        turn.emit(WebSearchBegin(call_id=item_id))
    elif (shown := shown_item(item, item_id)) is None:
        return
    elif shown["type"] == "AgentMessage":
        turn.view.announce(item_id, shown)
    else:
        turn.emit(ItemStarted(thread_id=turn.thread.thread_id, turn_id=turn.turn_id, item=shown))


def record_item(turn: RunningTurn, done: ItemDone, sample: Sample) -> None:
    """A finished item: its event line, then the item itself; when both are recorded, the front ends are told."""
    thread, item, item_id = turn.thread, done.item, done.item_id
    kind = item.get("type")
    shown = shown_item(item, item_id)
    told: list[Msg] = []
    if kind == "message":
        said = turn.view.complete(item_id, item_text(item), told.append)
        if said is None:
            shown = None  # nothing of it is shown as a message
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
    thread.history.append_item(item, thread.provenance(done))
    if shown is not None:
        told.append(ItemCompleted(thread_id=thread.thread_id, turn_id=turn.turn_id, item=shown))
    for msg in told:
        turn.emit(msg)


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
