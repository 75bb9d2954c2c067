"""A client with a scripted model in a home of its own, and programs that use the API."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spindle import AsyncSpindle, Spindle
from spindle.testing import ScriptedModel

FULL: dict[str, Any] = {"sandbox": "danger-full-access"}
Client = Callable[..., Spindle]


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home in which nothing is configured but the model."""
    home = tmp_path / "own-home"
    home.mkdir()
    (home / "config.toml").write_text('model = "gpt-5.2-codex"\n')
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("CODEX_HOME", "OPENAI_API_KEY", "CODEX_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return home


@pytest.fixture
def client(own_home: Path) -> Iterator[Client]:
    """Makes synchronous clients; each is closed at the end."""
    made: list[Spindle] = []

    def make(*steps: Any, **more: Any) -> Spindle:
        model = more.pop("model_client", None) or ScriptedModel(*steps)
        made.append(Spindle(home=own_home, model_client=model, **more))
        return made[-1]

    yield make
    for one in made:
        one.close()


def async_client(own_home: Path, *steps: Any, **more: Any) -> AsyncSpindle:
    return AsyncSpindle(home=own_home, model_client=ScriptedModel(*steps), **more)


def run_program(
    source: str, home: Path, cwd: Path, *options: str, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run a program that uses the API; `HOME_FOLDER` and `CWD` are set in it."""
    head = f"HOME_FOLDER, CWD = {str(home)!r}, {str(cwd)!r}\n"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("CODEX_", "OPENAI_"))}
    return subprocess.run(
        [sys.executable, *options, "-c", head + textwrap.dedent(source)],
        env={**environment, "HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=50,
        check=check,
    )
