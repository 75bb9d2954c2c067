"""The throw-away user of `config.throwaway` as a fixture."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.throwaway import Setup


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    return Setup(tmp_path)
