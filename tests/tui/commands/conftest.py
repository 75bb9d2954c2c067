"""A desk with an open thread, for tests of slash commands."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tui.fake_desk import FakeDesk

OpenDesk = Callable[..., Awaitable[FakeDesk]]


@pytest.fixture
async def open_desk(tmp_path: Path) -> AsyncIterator[OpenDesk]:
    """Open a desk in an empty folder; `config` is the text of the user's config.toml."""
    opened: list[FakeDesk] = []

    async def opens(config: str = "", **fields: Any) -> FakeDesk:
        folder = tmp_path / "project"
        folder.mkdir(exist_ok=True)
        opened.append(await FakeDesk.open(tmp_path / "home", folder, config, **fields))
        return opened[-1]

    yield opens
    for desk in opened:
        await desk.close()


@pytest.fixture
async def desk(open_desk: OpenDesk) -> FakeDesk:
    return await open_desk()
