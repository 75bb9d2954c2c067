"""A loaded thread where no client gets: one that breaks down when it is closed."""

from __future__ import annotations

import asyncio
from pathlib import Path

from spindle.api.door import SessionRequest, open_thread
from spindle.config.load import load_config
from spindle.frontends.app_server.loaded import LoadedThread
from spindle.frontends.app_server.questions import Questions
from spindle.model.scripted import ScriptedModel
from spindle.protocol.clock import SystemClock


class Unclosable(ScriptedModel):
    async def aclose(self) -> None:
        raise RuntimeError("the connection cannot be closed")


async def test_a_thread_that_breaks_down_is_put_away_like_any_other(tmp_path: Path, workspace: Path) -> None:
    (tmp_path / "codex-home").mkdir()
    env = {"CODEX_HOME": str(tmp_path / "codex-home"), "HOME": str(tmp_path)}
    config = load_config(cwd=str(workspace), env=env, flags={"model": "gpt-5.2-codex"})
    request = SessionRequest(config=config, source="vscode", originator="test", client=Unclosable())
    clock = SystemClock()
    loaded = LoadedThread(await open_thread(request), config, Questions(clock), clock)
    await asyncio.wait_for(loaded.close(), 20)
    assert [event async for event in loaded.hearing] == []
