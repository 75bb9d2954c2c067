"""Servers for the tests of `spindle app-server`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app_server.client import Client

Start = Callable[..., Client]


@pytest.fixture
def start(spindle_cmd: list[str], workspace: Path, environment: dict[str, str]) -> Iterator[Start]:
    """Starts servers; each one is closed at the end."""
    opened: list[Client] = []

    def open_client(*args: str) -> Client:
        opened.append(Client([*spindle_cmd, *args, "app-server", "--listen", "stdio://"], workspace, environment))
        return opened[-1]

    yield open_client
    for client in opened:
        if client.process.stdin is not None and not client.process.stdin.closed:
            client.close()


@pytest.fixture
def client(start: Start) -> Client:
    """A server that knows us."""
    running = start()
    running.initialize()
    return running
