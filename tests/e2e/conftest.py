"""The engine behind a pipe, for every test of `spindle proto`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.proto_client import OpenProto, Proto


@pytest.fixture
def open_proto(spindle_cmd: list[str], workspace: Path, environment: dict[str, str]) -> Iterator[OpenProto]:
    """Starts `spindle proto` in the workspace; each is closed at the end, unless the test did."""
    opened: list[Proto] = []

    def start(*args: str) -> Proto:
        opened.append(Proto([*spindle_cmd, "proto", *args], workspace, environment))
        return opened[-1]

    yield start
    for proto in opened:
        if proto.process.poll() is None:
            proto.close()
