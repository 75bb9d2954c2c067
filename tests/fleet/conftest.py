"""Fixtures of the fleet's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from fake_server import FakeServer
from fleet_runs import Runs
from installed import Spindle


@pytest.fixture
def runs(spindle: Spindle, server: FakeServer, tmp_path: Path) -> Runs:
    """The installed command with a repository, a list that is empty, and a server that answers "said ID"."""
    return Runs(spindle, server, tmp_path)
