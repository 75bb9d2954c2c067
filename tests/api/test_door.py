"""A live thread as every front end has it: opened, driven and closed through the door."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from spindle.api.door import OpenThread, SessionRequest, open_thread
from spindle.api.hearing import Hearing
from spindle.config.load import load_config
from spindle.core.stream import EventStream
from spindle.errors import SpindleError, ThreadError
from spindle.model.scripted import AnyStep, ScriptedModel, says
from spindle.protocol.events import Event, SessionConfigured, ShutdownComplete, TaskComplete, ThreadRolledBack
from spindle.protocol.ops import GetPath, Interrupt, OverrideTurnContext, Pin, ThreadRollback, UserTurn

Opener = Callable[..., Any]


@pytest.fixture
async def opened(tmp_path: Path, workspace: Path) -> AsyncIterator[Opener]:
    """Opens threads with a scripted model; each is closed at the end."""
    (tmp_path / "codex-home").mkdir()
    threads: list[OpenThread] = []

    async def open_scripted(*steps: AnyStep, **more: Any) -> OpenThread:
        config = load_config(
            cwd=str(workspace),
            env={"CODEX_HOME": str(tmp_path / "codex-home"), "HOME": str(tmp_path)},
            flags={"model": "gpt-5.2-codex", "approval_policy": "never"},
        )
        client = more.pop("client", None) or ScriptedModel(*steps)
        request = SessionRequest(config=config, source="exec", originator="test", client=client, **more)
        threads.append(await open_thread(request))
        return threads[-1]

    yield open_scripted
    for thread in threads:
        with suppress(RuntimeError):
            await thread.close()


def turn(text: str = "hello") -> UserTurn:
    return UserTurn(items=[{"type": "text", "text": text}])


async def all_of(events: AsyncIterator[Event]) -> list[Event]:
    """Every event up to the end of the stream."""

    async def read() -> list[Event]:
        return [event async for event in events]

    return await asyncio.wait_for(read(), 20)


# ---- what threads share ----------------------------------------------------------------------------


async def test_threads_of_one_process_share_their_long_texts(opened: Opener) -> None:
    models = [ScriptedModel(says("done")) for _ in range(2)]
    for model in models:
        thread = await opened(client=model)
        hearing = Hearing(thread)
        thread.begin()
        hearing.start_turn(turn())
        await hearing.turn_end()
    one, other = (model.requests[0].raw for model in models)
    assert len(one.instructions) > 1000 and one.instructions is other.instructions
    assert len(one.tools) > 1000 and one.tools is other.tools


# ---- the stream ------------------------------------------------------------------------------------


async def test_reading_the_events_of_a_thread_ends_when_it_is_closed(opened: Opener) -> None:
    thread = await opened(says("done"))
    events, hearing = thread.subscribe(), Hearing(thread)
    reading = asyncio.ensure_future(all_of(events))
    thread.begin("first")
    turn_id = hearing.start_turn(turn())
    await hearing.turn_end()
    await thread.close()
    read = await reading
    assert isinstance(read[0].msg, SessionConfigured) and read[0].id == "first"
    assert isinstance(read[-1].msg, ShutdownComplete)
    assert [event.id for event in read if isinstance(event.msg, TaskComplete)] == [turn_id]


async def test_a_thread_that_never_began_ends_its_stream_too(opened: Opener) -> None:
    thread = await opened()
    events = thread.subscribe()
    await thread.close()
    assert await all_of(events) == []


async def test_who_comes_after_the_end_finds_the_end(opened: Opener) -> None:
    thread = await opened()
    thread.begin()
    await thread.close()
    assert await all_of(thread.subscribe()) == []


async def test_a_stream_of_somebody_else_goes_on_after_the_thread(opened: Opener) -> None:
    stream = EventStream()
    events = stream.subscribe()
    for name in ("first", "second"):
        thread = await opened(stream=stream)
        thread.begin(name)
        await thread.settle()
        await thread.close()
    stream.close()
    read = await all_of(events)
    assert [event.id for event in read if isinstance(event.msg, SessionConfigured)] == ["first", "second"]
    assert not any(isinstance(event.msg, ShutdownComplete) for event in read)


# ---- what a front end wants to know ------------------------------------------------------------------


async def test_settings_that_cannot_be_are_found_before_the_op_is_handed_in(opened: Opener) -> None:
    thread = await opened()
    thread.check(OverrideTurnContext(approval_policy="on-request"))
    assert thread.settings.approval_policy == "never"
    with pytest.raises(SpindleError, match="unknown approval policy 'perhaps'"):
        thread.check(OverrideTurnContext(approval_policy="perhaps"))


async def test_a_thread_that_was_resumed_knows_what_its_last_turn_ran_with(opened: Opener) -> None:
    first = await opened(says("done"))
    hearing = Hearing(first)
    first.begin()
    assert first.recorded_settings is None
    hearing.start_turn(turn())
    await hearing.turn_end()
    await first.close()
    again = await opened(thread=first.id)
    assert again.recorded_settings is not None and again.recorded_settings["approval_policy"] == "never"


async def test_the_effort_is_the_models_own_unless_one_is_set(opened: Opener) -> None:
    thread = await opened()
    thread.begin()
    assert thread.settings.effort is None and thread.effort == "medium"
    thread.submit(OverrideTurnContext(effort="high"))
    await thread.settle()
    assert thread.effort == "high"


# ---- hearing -----------------------------------------------------------------------------------------


async def test_a_turn_is_the_active_one_from_the_moment_it_is_asked_for(opened: Opener) -> None:
    thread = await opened(says("one"), says("two"))
    hearing = Hearing(thread)
    thread.begin()
    turn_id = hearing.start_turn(turn(), takes_no_input=True)
    assert (hearing.active_turn, hearing.takes_no_input) == (turn_id, True)
    await asyncio.wait_for(hearing.turn_end(), 20)
    assert (hearing.active_turn, hearing.takes_no_input) == (None, False)
    other = thread.submit(turn())
    while hearing.active_turn is None:
        await asyncio.sleep(0)
    assert hearing.active_turn == other


async def test_a_turn_that_could_not_begin_has_ended(opened: Opener) -> None:
    thread = await opened()
    hearing = Hearing(thread)
    thread.begin()
    hearing.start_turn(UserTurn(items=[], cwd="/no/such/folder"))
    await asyncio.wait_for(hearing.turn_end(), 20)
    assert hearing.active_turn is None


async def test_an_op_is_answered_by_its_own_event_or_raises_its_error(opened: Opener) -> None:
    thread = await opened(says("done"))
    hearing = Hearing(thread)
    thread.begin()
    hearing.start_turn(turn())
    await hearing.turn_end()
    assert await hearing.ask(ThreadRollback(num_turns=1)) == ThreadRolledBack(num_turns=1)
    with pytest.raises(SpindleError, match="nothing to pin"):
        await hearing.ask(Pin(text=" "))


async def test_nobody_waits_for_a_thread_that_is_closed(opened: Opener) -> None:
    thread = await opened(says("done", delay_s=60))
    hearing = Hearing(thread)
    thread.begin()
    hearing.start_turn(turn())
    while not thread.is_running:
        await asyncio.sleep(0)
    waiting = asyncio.ensure_future(hearing.turn_end())
    asking = asyncio.ensure_future(hearing.ask(Interrupt()))
    await asyncio.sleep(0)
    await thread.close()
    await asyncio.wait_for(waiting, 20)
    with pytest.raises(ThreadError, match="closed"):
        await asyncio.wait_for(asking, 20)
    await asyncio.wait_for(hearing.turn_end(), 20)
    with pytest.raises(ThreadError, match="closed"):
        await asyncio.wait_for(hearing.ask(GetPath()), 20)


# ---- a thread that breaks down -------------------------------------------------------------------------


class Unclosable(ScriptedModel):
    """A model whose connection cannot be closed: a bug that ends the session where nothing was foreseen."""

    async def aclose(self) -> None:
        raise RuntimeError("the connection cannot be closed")


async def test_what_broke_a_thread_is_raised_by_closing_it_and_its_events_end(opened: Opener) -> None:
    thread = await opened(client=Unclosable())
    events = thread.subscribe()
    thread.begin()
    with pytest.raises(RuntimeError, match="cannot be closed"):
        await thread.close()
    assert [type(event.msg) for event in await all_of(events)] == [SessionConfigured]
