"""Work that is done in pieces, done in one go."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

Result = TypeVar("Result")


def whole(work: Generator[int, None, Result]) -> Result:
    """Do all of it; gives what comes of it."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value
