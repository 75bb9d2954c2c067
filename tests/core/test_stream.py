from __future__ import annotations

from spindle.core.stream import EventStream
from spindle.protocol.events import AgentMessage, AgentMessageContentDelta, Event, ReasoningContentDelta


def delta(text: str, item: str = "m") -> Event:
    return Event("s", AgentMessageContentDelta(thread_id="t", turn_id="u", item_id=item, delta=text))


async def test_every_reader_gets_every_event_in_order() -> None:
    stream = EventStream()
    first, second = stream.subscribe(), stream.subscribe()
    events = [Event("s", AgentMessage(message=str(n))) for n in range(3)]
    for event in events:
        stream.emit(event)
    stream.close()
    assert [e async for e in first] == events
    assert [e async for e in second] == events


async def test_deltas_that_wait_are_merged_per_item_and_never_cross_another_event() -> None:
    stream = EventStream()
    reader = stream.subscribe()
    done = Event("s", AgentMessage(message="ab"))
    for event in (delta("a"), delta("b"), delta("x", "n"), done, delta("c"), delta("d")):
        stream.emit(event)
    stream.close()
    assert [e async for e in reader] == [delta("ab"), delta("x", "n"), done, delta("cd")]


async def test_a_million_characters_that_wait_come_whole_in_pieces_of_bounded_length() -> None:
    stream = EventStream()
    reader = stream.subscribe()
    for n in range(50_000):
        stream.emit(delta(f"{n:020}"))
    stream.close()
    texts = [event.msg.delta async for event in reader if isinstance(event.msg, AgentMessageContentDelta)]
    assert "".join(texts) == "".join(f"{n:020}" for n in range(50_000))
    assert 10 < len(texts) < 20
    assert max(map(len, texts)) < 70_000


async def test_reasoning_deltas_of_different_sections_stay_apart() -> None:
    def section(text: str, index: int) -> Event:
        msg = ReasoningContentDelta(thread_id="t", turn_id="u", item_id="r", delta=text, summary_index=index)
        return Event("s", msg)

    stream = EventStream()
    reader = stream.subscribe()
    for event in (section("a", 0), section("b", 0), section("c", 1)):
        stream.emit(event)
    stream.close()
    assert [e async for e in reader] == [section("ab", 0), section("c", 1)]


async def test_a_reader_can_leave_kinds_out() -> None:
    stream = EventStream()
    reader = stream.subscribe(skip=(AgentMessageContentDelta,))
    stream.emit(delta("a"))
    stream.emit(Event("s", AgentMessage(message="a")))
    assert [type(e.msg) for e in reader.take_ready()] == [AgentMessage]
