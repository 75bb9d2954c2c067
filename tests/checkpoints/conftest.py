from __future__ import annotations

from collections.abc import Iterator

import pytest

from checkpoint_bench import OPENED


@pytest.fixture(autouse=True)
def recorders_are_closed() -> Iterator[None]:
    """Python 3.13 warns of a database that is left open, and a warning is a failure here."""
    yield
    while OPENED:
        OPENED.pop().close()
