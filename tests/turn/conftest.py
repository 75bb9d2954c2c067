"""The fixture that opens sessions; what tests do with them is in `sessions`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from sessions import Driver, Start
from spindle.assembly import SessionRequest, open_session
from spindle.config.load import load_config
from spindle.model.scripted import AnyStep, ScriptedModel


@pytest.fixture
async def start(tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Start]:
    """Opens sessions on the workspace; each is closed at the end. Keyword arguments go to SessionRequest or flags."""
    monkeypatch.setenv("HOME", str(tmp_path))  # no profile of the person who runs the tests
    drivers: list[Driver] = []
    home = tmp_path / "codex-home"
    home.mkdir(exist_ok=True)

    async def open_driver(
        *steps: AnyStep,
        sandbox: str | None = "danger-full-access",
        approval: str = "never",
        config: dict[str, Any] | None = None,
        model: str = "gpt-5.2-codex",
        cwd: Path | None = None,
        **request: Any,
    ) -> Driver:
        scripted = ScriptedModel(*steps)
        loaded = load_config(
            cwd=str(cwd or workspace),
            env={"CODEX_HOME": str(home), "HOME": str(tmp_path)},
            flags={"model": model, "approval_policy": approval} | ({"sandbox_mode": sandbox} if sandbox else {}),
            config=config,
        )
        session = await open_session(
            SessionRequest(config=loaded, originator="test", client=scripted, **{"source": "exec", **request})
        )
        drivers.append(Driver(session, scripted))
        return drivers[-1]

    yield open_driver
    for driver in drivers:
        await driver.close()
