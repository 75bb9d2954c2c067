"""Lines to stdout: what the event loop may write itself, because it cannot take time."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import BinaryIO

from spindle.frontends.stdio import write_without_waiting


@contextmanager
def stdout_as_pipe() -> Iterator[BinaryIO]:
    """Gives its other end."""
    read_end, write_end = os.pipe()
    with open(read_end, "rb", buffering=0) as reader, open(write_end, "w") as stdout, redirect_stdout(stdout):
        yield reader


def test_a_line_goes_into_a_pipe_at_once() -> None:
    with stdout_as_pipe() as reader:
        assert write_without_waiting(b"a line\n")
        assert reader.read(100) == b"a line\n"


def test_nothing_goes_into_a_pipe_that_is_full_or_to_which_it_is_too_much() -> None:
    page = b"x" * select.PIPE_BUF
    with stdout_as_pipe() as reader:
        assert not write_without_waiting(page + b"x")
        written = 0
        while write_without_waiting(page):
            written += len(page)
        held = b""
        while len(held) < written:
            held += reader.read(1 << 16)
        assert held == b"x" * written > b""
        assert write_without_waiting(b"again\n")
        assert reader.read(100) == b"again\n"


def test_what_is_no_pipe_is_left_to_others(tmp_path: Path) -> None:
    with open(tmp_path / "out", "w") as file, redirect_stdout(file):
        assert not write_without_waiting(b"a line\n")
    assert (tmp_path / "out").read_bytes() == b""
