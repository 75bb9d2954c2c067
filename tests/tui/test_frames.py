"""When the screen is painted: at once for a key, seldom for what comes by itself, never for nothing."""

from __future__ import annotations

import asyncio
from typing import Any

from spindle.frontends.tui.frames import SHORTEST_S, Frames


class Loop:
    """A loop with a clock that is turned by hand."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[tuple[float, Any]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, call: Any, *args: Any) -> Any:
        entry = (when, lambda: call(*args))
        self.timers.append(entry)
        loop = self

        class Handle:
            def cancel(self) -> None:
                if entry in loop.timers:
                    loop.timers.remove(entry)

        return Handle()

    def call_later(self, delay: float, call: Any, *args: Any) -> Any:
        return self.call_at(self.now + delay, call, *args)

    def turn_to(self, now: float) -> None:
        while due := sorted(entry for entry in self.timers if entry[0] <= now + 1e-9):
            self.timers.remove(due[0])
            self.now = max(self.now, due[0][0])
            due[0][1]()
        self.now = now


def frames_of(loop: Loop) -> tuple[Frames, list[float]]:
    painted: list[float] = []

    async def make() -> Frames:
        return Frames(lambda: painted.append(loop.now))

    frames = asyncio.run(make())
    frames._loop = loop  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
    return frames, painted


def test_many_changes_are_one_frame_and_a_key_does_not_wait() -> None:
    loop = Loop()
    frames, painted = frames_of(loop)
    for _ in range(5):
        frames.soon()
    loop.turn_to(100.0)
    assert len(painted) == 1
    for step in range(100):  # a thousand changes a second
        loop.turn_to(100.0 + step / 1000)
        frames.soon()
    assert len(painted) <= 1 + 0.1 / SHORTEST_S + 1
    count = len(painted)
    frames.now()
    assert len(painted) == count + 1
    loop.turn_to(101.0)
    assert loop.timers == []  # and then nothing more


def test_the_beat_stops_with_the_work_and_pausing_paints_nothing() -> None:
    loop = Loop()
    frames, painted = frames_of(loop)
    frames.beat(1.0)
    loop.turn_to(103.5)
    assert len(painted) == 3
    frames.pause()
    frames.now()
    frames.soon()
    assert len(painted) == 3
    frames.go_on()
    assert len(painted) == 4
    frames.beat(None)
    loop.turn_to(110.0)
    assert len(painted) == 4 and loop.timers == []
