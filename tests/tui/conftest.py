"""The interface in a terminal, for every test here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tui.terminals import NOT_INHERITED, OpenTui, Tui, trust


@pytest.fixture
def tui(spindle_cmd: list[str], workspace: Path, home: Path, environment: dict[str, str]) -> Iterator[OpenTui]:
    """Starts `spindle --no-alt-screen` in the workspace, which is trusted; each is closed at the end."""
    trust(home, workspace)
    opened: list[Tui] = []

    def start(*args: str, env: Mapping[str, str] | None = None, cwd: Path | None = None, **how: Any) -> Tui:
        given = {name: value for name, value in environment.items() if name not in NOT_INHERITED}
        command = [*spindle_cmd, *args, "--no-alt-screen"]
        opened.append(Tui(command, cwd=cwd or workspace, env={**given, **(env or {})}, **how))
        return opened[-1]

    yield start
    for each in opened:
        each.close()
