"""Fixtures of the attempts' tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from fake_server import FakeServer
from fleet_attempts import Fleet


@pytest.fixture
def fleet(tmp_path: Path, server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    monkeypatch.setenv("FAKE_KEY", "sk-fake-0123456789abcdef")
    return Fleet(tmp_path, server)
