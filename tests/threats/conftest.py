"""The installed command in a workspace of its own, against a model server on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from threats.cli import Spindle, mounts_work


@pytest.fixture
def spindle(spindle_cmd: list[str], workspace: Path, home: Path, environment: dict[str, str]) -> Iterator[Spindle]:
    made = Spindle(spindle_cmd, workspace, home, environment)
    yield made
    made.close()


@pytest.fixture(scope="session")
def own_mounts() -> None:
    """Skips where nobody may mount a disk of their own."""
    if not mounts_work():
        pytest.skip("no mount namespaces here")
