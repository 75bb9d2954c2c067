"""A pipe for the standard error of one command, where it is to be told from its output."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from spindle.process.output import OutputRing

_CHUNK = 64 * 1024
_LAST_READS = 64
"""What a child left behind goes on writing cannot keep us reading."""


@contextmanager
def error_stream(ring: OutputRing, on_more: Callable[[], None] = lambda: None) -> Iterator[int]:
    """The end to write to, for `Command.error_file`. What comes through is in `ring`; `on_more` hears of it."""
    loop = asyncio.get_running_loop()
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)

    def collect() -> bool:
        try:
            data = os.read(read_end, _CHUNK)
        except BlockingIOError:
            return False
        ring.add(data)
        on_more()
        return bool(data)

    loop.add_reader(read_end, collect)
    try:
        yield write_end
    finally:
        loop.remove_reader(read_end)
        os.close(write_end)
        for _ in range(_LAST_READS):
            if not collect():
                break
        os.close(read_end)
