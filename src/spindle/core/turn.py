"""One turn: ask the model, run what it asks for, return the results, until it asks for nothing more. Read this first.

`run_turn` is a plain coroutine over a running turn. It appends to the history, emits events, and returns how the turn
ended. It does not know who listens, how the user is asked, or where the thread is kept; everything else that a session
can do comes in through the methods of `RunningTurn`.

Invariants: an item is recorded when the server has finished it, never while it streams; a retry starts from what is
recorded, so nothing is doubled and no call runs twice; every call is answered, even when the turn is cancelled; nothing
is shown as finished before it is recorded.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import msgspec

from spindle.core.access import forget_opaque, tell_other_model
from spindle.core.calls import CallRunner
from spindle.core.live_thread import LiveThread
from spindle.core.running_turn import RunningTurn, TurnOutcome
from spindle.core.secrecy import StreamedText
from spindle.core.showing import announce_item, told_of
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
from spindle.prompt.build import build_request
from spindle.protocol.events import AgentReasoningSectionBreak, Warning
from spindle.protocol.items import is_call
from spindle.protocol.request import Request
from spindle.protocol.settings import ThreadSettings


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
                from spindle.core.retries import wait_before_retry  # most streams come to their end

                attempt += 1
                await wait_before_retry(turn, failure, attempt)
            case ImageRejected() if may_drop_image and thread.drop_last_tool_image():
                may_drop_image = False
                turn.emit(Warning(message=f"the model cannot take the last picture; going on without it ({failure})"))
            case _:
                raise failure


def next_request(thread: LiveThread, settings: ThreadSettings, output_schema: dict[str, Any] | None) -> Request:
    """The request that continues the thread: all that the model is to see of it, and the parts that never change."""
    return build_request(
        items=thread.show_to_model(settings, output_schema),
        instructions=thread.instructions,
        tools=thread.tools.specs_bytes,
        traits=thread.traits,
        settings=settings,
        thread_id=thread.thread_id,
        output_schema=output_schema,
        store=thread.provider.is_azure,
    )


async def read_answer(
    turn: RunningTurn, turn_state: TurnState, sample: Sample, calls: CallRunner
) -> StreamDropped | ModelError | None:
    """Read one stream to its end. How it failed is returned, not raised: what it finished is kept, its calls run on."""
    thread = turn.thread
    request = thread.asked = next_request(thread, turn.settings, turn.output_schema)
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


def record_item(turn: RunningTurn, done: ItemDone, sample: Sample) -> None:
    """A finished item: its event lines, then the item itself; when both are recorded, the front ends are told."""
    thread = turn.thread
    told = told_of(turn, done.item, done.item_id)
    if told.said is not None:
        sample.last_message = told.said
    for line in told.lines:
        thread.history.append_event(line)
    thread.history.append_item(done.item, thread.provenance(done))
    for msg in told.msgs:
        turn.emit(msg)
