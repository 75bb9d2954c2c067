"""Many open threads: those that were not used for a while rest, and nobody notices."""

from __future__ import annotations

import asyncio
from typing import Any

from api.test_door import Opener, opened, turn  # noqa: F401  one of them is a fixture
from spindle.api.door import OpenThread
from spindle.api.hearing import Hearing
from spindle.api.resting import RestingThreads
from spindle.core.resting import is_resting
from spindle.model.scripted import ScriptedModel, says
from spindle.protocol.events import ThreadRolledBack
from spindle.protocol.ops import ThreadRollback
from spindle.thread.view import preview


class Many:
    """Threads with a scripted model each, and who packs them."""

    def __init__(self, most_awake: int, wait_s_per_mb: float = 0.0) -> None:
        self.resting = RestingThreads(most_awake, wait_s_per_mb, busy_s=0.0)
        self.threads: list[OpenThread] = []
        self.models: list[ScriptedModel] = []
        self.hearings: list[Hearing] = []

    async def open(self, opened: Opener, count: int, **more: Any) -> Many:  # noqa: F811  the fixture
        for _ in range(count):
            self.models.append(ScriptedModel(default=says("hello")))
            self.threads.append(await opened(client=self.models[-1], **more))
            self.hearings.append(Hearing(self.threads[-1]))
            self.threads[-1].begin()
        return self

    async def say(self, number: int, text: str) -> None:
        self.hearings[number].start_turn(turn(text))
        await self.hearings[number].turn_end()
        self.resting.used(self.threads[number])

    async def settle(self) -> list[int]:
        """Let everything happen that is due; the numbers of those that rest."""
        for _ in range(50):
            await asyncio.sleep(0)
        histories = [thread._session.thread.history for thread in self.threads]
        return [number for number, history in enumerate(histories) if is_resting(history)]

    def said(self, number: int) -> list[str]:
        """What the model was last shown of the person."""
        texts = [item["content"][-1]["text"] for item in self.models[number].requests[-1].input if "content" in item]
        return [text for text in texts if text.startswith("word")]


async def test_all_but_the_threads_used_last_rest(opened: Opener) -> None:  # noqa: F811
    many = await Many(2).open(opened, 5)
    for number in range(5):
        await many.say(number, f"word {number}")
    assert await many.settle() == [0, 1, 2]
    await many.say(1, "word again")
    assert await many.settle() == [0, 2, 3]
    await many.say(4, "word again")
    await many.say(0, "word again")
    assert await many.settle() == [1, 2, 3]


async def test_no_more_threads_than_may_be_awake_never_rest(opened: Opener) -> None:  # noqa: F811
    many = await Many(3).open(opened, 3)
    for number in (0, 1, 2, 0, 1, 2):
        await many.say(number, "word")
        assert await many.settle() == []


async def test_a_thread_with_much_to_pack_waits_before_it_does_so_again(opened: Opener) -> None:  # noqa: F811
    many = await Many(0, wait_s_per_mb=0.2).open(opened, 2)
    await many.say(0, "word " + "".join(f"{number:09}" for number in range(100_000)))
    await many.say(1, "word")
    assert await many.settle() == [0, 1]  # how much there is to pack, nobody knows before
    await many.say(1, "word")
    await many.say(0, "word")  # last: however long a turn takes, this thread was used just now
    long_s, short_s = (many.resting.waits_s(thread) for thread in many.threads)
    assert long_s > 0.1 and short_s == 0
    assert await many.settle() == [1]
    await asyncio.sleep(long_s)
    assert await many.settle() == [0, 1]
    many.resting.forget(many.threads[0])
    assert many.resting.waits_s(many.threads[0]) == 0.0


async def test_a_message_to_a_resting_thread_follows_what_was_said_before(opened: Opener) -> None:  # noqa: F811
    many = await Many(1).open(opened, 3, ephemeral=True)
    for round_number in range(3):
        for number in range(3):
            await many.say(number, f"word {number}.{round_number}")
            await many.settle()
    for number in range(3):
        assert many.said(number) == [f"word {number}.{round_number}" for round_number in range(3)]


async def test_a_thread_that_was_only_looked_at_rests_again(opened: Opener) -> None:  # noqa: F811
    many = await Many(1).open(opened, 3)
    for number in range(3):
        await many.say(number, f"word {number}")
    assert await many.settle() == [0, 1]
    assert [preview(thread.records) for thread in many.threads] == ["word 0", "word 1", "word 2"]
    assert await many.settle() == [0, 2]  # the one that was woken last is the one that was used last


async def test_a_rollback_of_a_resting_thread_is_shown_to_the_model(opened: Opener) -> None:  # noqa: F811
    many = await Many(0).open(opened, 1)
    await many.say(0, "word one")
    await many.say(0, "word two")
    assert await many.settle() == [0]
    assert isinstance(await many.hearings[0].ask(ThreadRollback(num_turns=1)), ThreadRolledBack)
    assert await many.settle() == [0]
    await many.say(0, "word three")
    assert many.said(0) == ["word one", "word three"]


async def test_a_thread_in_which_something_goes_on_is_tried_again_later(opened: Opener) -> None:  # noqa: F811
    many = await Many(0).open(opened, 1)
    many.models[0].script(says("hello", delay_s=0.05))
    many.hearings[0].start_turn(turn("word"))
    many.resting.used(many.threads[0])
    assert await many.settle() == []
    await many.hearings[0].turn_end()
    assert await many.settle() == [0]


async def test_a_closed_thread_is_forgotten(opened: Opener) -> None:  # noqa: F811
    many = await Many(1).open(opened, 2)
    await many.say(0, "word")
    await many.threads[0].close()
    many.resting.forget(many.threads[0])
    await many.say(1, "word")
    assert await many.settle() == []
    many.resting.close()


async def test_a_thread_is_not_packed_for_the_sake_of_one_that_is_closed(opened: Opener) -> None:  # noqa: F811
    many = await Many(1).open(opened, 2)
    await many.say(0, "word")
    await many.say(1, "word")
    many.resting.forget(many.threads[1])
    assert await many.settle() == []


async def test_a_busy_thread_does_not_keep_others_from_their_rest(opened: Opener) -> None:  # noqa: F811
    many = await Many(0).open(opened, 2)
    many.resting = RestingThreads(0, busy_s=3600.0)
    many.models[0].script(says("hello", delay_s=0.2))
    many.hearings[0].start_turn(turn("word"))
    many.resting.used(many.threads[0])
    assert await many.settle() == []  # it is looked at again in an hour
    await many.say(1, "word")
    assert await many.settle() == [1]
    await many.hearings[0].turn_end()
    assert await many.settle() == [1]


async def test_a_thread_that_cannot_be_packed_does_not_keep_others_from_their_rest(opened: Opener) -> None:  # noqa: F811
    many = await Many(0).open(opened, 3)
    told: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))
    many.threads[0]._session.thread.history.request_lines.append(lambda: None)  # pyright: ignore[reportArgumentType]
    for number in range(3):
        many.hearings[number].start_turn(turn("word"))
        await many.hearings[number].turn_end()
    for thread in many.threads:
        many.resting.used(thread)
    assert await many.settle() == [1, 2] and len(told) == 1
