"""What the tests of the shell tools share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tools.bench import Bench


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    folder = tmp_path / "work"
    folder.mkdir()
    made = Bench(folder)
    yield made
    await made.table.aclose()
