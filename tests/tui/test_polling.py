"""For how long keys may have waited before they were read: those that came together were not all pasted."""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Iterator

import pytest

from spindle.frontends.tui.polling import Polling


class Busy(Polling):
    """On a computer where others have the processor for a tenth of a second, each time we want it."""

    delays = 0

    def _delayed_s(self) -> float:
        self.delays += 1
        return self.delays * 0.1


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for each in ends:
        os.close(each)


def test_what_nobody_looked_for_may_have_waited_since_the_terminal_was_taken(pipe: tuple[int, int]) -> None:
    with Polling() as polling:
        polling.register(pipe[0], selectors.EVENT_READ)
        os.write(pipe[1], b"x")
        polling.nobody_read_since(time.monotonic() - 5)
        assert polling.select(0)
        assert polling.waited_s >= 5
        assert polling.select(0)
        assert polling.waited_s < 1


def test_a_key_that_wakes_us_may_have_waited_as_long_as_others_had_the_processor(pipe: tuple[int, int]) -> None:
    with Busy() as polling:
        polling.register(pipe[0], selectors.EVENT_READ)
        polling.select(0.01)
        assert 0.1 <= polling.waited_s < 1
