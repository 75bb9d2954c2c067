from __future__ import annotations

import asyncio

from spindle.core.stream import BEHIND, FAR_BEHIND, EventStream, Subscription
from spindle.protocol.events import AgentMessage, AgentMessageContentDelta, Event, ReasoningContentDelta


def delta(text: str, item: str = "m") -> Event:
    return Event("s", AgentMessageContentDelta(thread_id="t", turn_id="u", item_id=item, delta=text))


async def fall_behind(stream: EventStream) -> None:
    """Let so many events wait that the readers, who had a chance to run, are behind."""
    for n in range(BEHIND):
        stream.emit(Event("s", AgentMessage(message=str(n))))
    await asyncio.sleep(0)


async def test_every_reader_gets_every_event_in_order() -> None:
    stream = EventStream()
    first, second = stream.subscribe(), stream.subscribe()
    events = [Event("s", AgentMessage(message=str(n))) for n in range(3)]
    for event in events:
        stream.emit(event)
    stream.close()
    assert [e async for e in first] == events
    assert [e async for e in second] == events


async def test_what_came_as_two_pieces_in_one_read_arrives_as_two() -> None:
    stream = EventStream()
    reader = stream.subscribe()
    pieces = [delta(f"{n} ") for n in range(1000)]

    async def read() -> list[Event]:
        return [event async for event in reader]

    reading = asyncio.ensure_future(read())
    await asyncio.sleep(0)
    for event in pieces:
        stream.emit(event)
    stream.close()
    assert await reading == pieces


async def test_for_a_reader_that_is_behind_deltas_are_merged_per_item_and_never_cross_another_event() -> None:
    stream = EventStream()
    reader = stream.subscribe()
    await fall_behind(stream)
    done = Event("s", AgentMessage(message="ab"))
    for event in (delta("a"), delta("b"), delta("x", "n"), done, delta("c"), delta("d")):
        stream.emit(event)
    stream.close()
    assert [e async for e in reader][BEHIND:] == [delta("ab"), delta("x", "n"), done, delta("cd")]


async def test_a_reader_that_caught_up_gets_every_piece_again() -> None:
    stream = EventStream()
    reader = stream.subscribe()
    await fall_behind(stream)
    assert len(reader.take_ready()) == BEHIND
    stream.emit(delta("a"))
    stream.emit(delta("b"))
    assert reader.take_ready() == [delta("a"), delta("b")]


async def test_a_million_characters_that_wait_come_whole_in_pieces_of_bounded_length() -> None:
    stream = EventStream()
    reader = stream.subscribe()
    await fall_behind(stream)
    for n in range(50_000):
        stream.emit(delta(f"{n:020}"))
    stream.close()
    events = [event async for event in reader][BEHIND:]
    texts = [event.msg.delta for event in events if isinstance(event.msg, AgentMessageContentDelta)]
    assert "".join(texts) == "".join(f"{n:020}" for n in range(50_000))
    assert 10 < len(texts) < 20
    assert max(map(len, texts)) < 70_000


async def test_a_flood_within_one_read_is_bounded_too() -> None:
    stream = EventStream()
    reader = stream.subscribe()
    for _ in range(100_000):
        stream.emit(delta("x"))
    assert FAR_BEHIND <= len(reader) <= FAR_BEHIND + 2


async def test_reasoning_deltas_of_different_sections_stay_apart() -> None:
    def section(text: str, index: int) -> Event:
        msg = ReasoningContentDelta(thread_id="t", turn_id="u", item_id="r", delta=text, summary_index=index)
        return Event("s", msg)

    stream = EventStream()
    reader = stream.subscribe()
    await fall_behind(stream)
    for event in (section("a", 0), section("b", 0), section("c", 1)):
        stream.emit(event)
    stream.close()
    assert [e async for e in reader][BEHIND:] == [section("ab", 0), section("c", 1)]


async def test_who_waits_for_a_reader_goes_on_when_it_has_read_everything() -> None:
    stream = EventStream()
    reader = stream.subscribe()
    await reader.drained()
    stream.emit(delta("a"))
    waiting = asyncio.ensure_future(reader.drained())
    await asyncio.sleep(0)
    assert not waiting.done()
    reading = asyncio.ensure_future(read_two(reader))
    await waiting
    stream.emit(delta("b"))
    assert await reading == [delta("a"), delta("b")]


async def read_two(reader: Subscription) -> list[Event]:
    return [await anext(reader), await anext(reader)]


async def test_only_a_reader_who_asks_for_it_is_given_time_to_hand_on_what_it_heard() -> None:
    stream = EventStream()
    reader = stream.subscribe()
    first = asyncio.ensure_future(anext(reader))
    await asyncio.sleep(0)
    stream.emit(delta("a"))
    await stream.settle()
    assert not first.done()
    await first
    prompt = stream.subscribe()
    prompt.rounds = 1
    second = asyncio.ensure_future(anext(prompt))
    await asyncio.sleep(0)
    stream.emit(delta("b"))
    await stream.settle()
    assert second.done()


async def test_a_reader_can_leave_kinds_out() -> None:
    stream = EventStream()
    reader = stream.subscribe(skip=(AgentMessageContentDelta,))
    stream.emit(delta("a"))
    stream.emit(Event("s", AgentMessage(message="a")))
    assert [type(e.msg) for e in reader.take_ready()] == [AgentMessage]
