"""Streams under hard use: readers that are cancelled, that share a stream, or that forget it."""

from __future__ import annotations

import asyncio
import gc
import threading
from pathlib import Path

import pytest

from api.homes import Client, async_client, run_program
from spindle import Event
from spindle.testing import says

SLOW = " ".join(f"word{number}" for number in range(40))


async def test_cancelling_a_loop_over_a_stream_interrupts_the_turn_and_waits_until_that_is_recorded(
    own_home: Path, workspace: Path
) -> None:
    async with async_client(own_home, says(SLOW, pace_s=5), says("next")) as spindle:
        thread = await spindle.thread_start(cwd=workspace)
        speaks = asyncio.Event()

        async def read() -> None:
            async for event in thread.stream("go"):
                if event.type == "item.delta":
                    speaks.set()

        task = asyncio.create_task(read())
        await speaks.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert thread.path is not None and "turn_aborted" in Path(thread.path).read_text()
        assert (await thread.run("again")).final_response == "next"


def test_ctrl_c_in_a_loop_over_a_stream_interrupts_the_turn_first(own_home: Path, workspace: Path) -> None:
    done = run_program(
        """
        import os, signal, threading
        from pathlib import Path
        from spindle import Spindle
        from spindle.testing import ScriptedModel, says

        model = ScriptedModel(says("one two three four", pace_s=5), says("next"))
        with Spindle(home=HOME_FOLDER, model_client=model) as spindle:
            thread = spindle.thread_start(cwd=CWD)
            try:
                for event in thread.stream("go"):
                    if event.type == "item.delta":
                        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            except KeyboardInterrupt:
                print("turn_aborted" in Path(thread.path).read_text(), thread.run("again").final_response)
        """,
        own_home,
        workspace,
    )
    assert done.stdout == "True next\n"
    assert done.stderr == ""


def test_several_threads_may_read_one_stream(client: Client, workspace: Path) -> None:
    handle = client(says(SLOW, pace_s=0.01)).thread_start(cwd=workspace).turn("go")
    read: list[Event] = []

    def reader() -> None:
        read.extend(handle.stream())

    readers = [threading.Thread(target=reader, daemon=True) for _ in range(3)]
    for one in readers:
        one.start()
    for one in readers:
        one.join(40)
    assert not any(one.is_alive() for one in readers)
    assert sorted(event.delta for event in read if event.type == "item.delta" and event.kind == "text")
    assert [event.type for event in read if event.type.startswith("turn.")] == ["turn.started", "turn.completed"]


async def test_several_tasks_may_read_one_stream(own_home: Path, workspace: Path) -> None:
    async with async_client(own_home, says(SLOW, pace_s=0.01)) as spindle:
        handle = await (await spindle.thread_start(cwd=workspace)).turn("go")

        async def reader() -> list[str]:
            return [event.type async for event in handle.stream()]

        parts = await asyncio.wait_for(asyncio.gather(reader(), reader(), reader()), 40)
        assert sorted(kind for part in parts for kind in part if kind.startswith("turn.")) == [
            "turn.completed",
            "turn.started",
        ]


def test_a_stream_that_nobody_reads_does_not_keep_the_thread_busy(client: Client, workspace: Path) -> None:
    thread = client(says(SLOW, pace_s=5), says("next")).thread_start(cwd=workspace)
    stream = thread.stream("go")
    del stream
    gc.collect()
    assert thread.run("again").final_response == "next"
    assert [turn.status for turn in thread.read(include_turns=True).turns] == ["interrupted", "completed"]


def test_a_stream_is_read_to_its_end_though_the_client_is_closed_meanwhile(client: Client, workspace: Path) -> None:
    spindle = client(says(SLOW, pace_s=5))
    types: list[str] = []
    for event in spindle.thread_start(cwd=workspace).stream("go"):
        types.append(event.type)
        if event.type == "item.delta" and "turn.interrupted" not in types:
            spindle.close()
    assert types[-1] == "turn.interrupted"
